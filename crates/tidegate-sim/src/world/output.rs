//! Output that is not known before it is there.
//!
//! A workload may say so. Then the gate knows a call's input and the most output that it asks for, and reserves what
//! the service's vendor is known to count of such a call; the upstream counts what has come by the time that it knows
//! of it, or reserves the most itself.

use tidegate_core::Outputs;
use tidegate_core::vendors::Estimate;
use tidegate_core::{Call, Config, Cost, Dimension};

use super::calls::CallState;
use crate::scenario::{UpstreamSpec, Workload};
use crate::upstream::Held;

/// Returns the call with what is reserved for it, as experience tells.
pub(super) fn reserve(call: Call, workload: &Workload, config: &Config, outputs: &Outputs) -> Call {
    let estimate = Estimate {
        input: call.cost().units(&Dimension::InputTokens),
        max_output: workload.max_tokens,
        expected_output: outputs.expected(&call),
        ..Estimate::default()
    };
    let charge = config.counting(&workload.service).reserve(&estimate);
    call.units(Dimension::InputTokens, charge.input_tokens)
        .units(Dimension::OutputTokens, charge.output_tokens)
        .units(Dimension::Tokens, charge.tokens)
}

/// Learns how much output a call had that went well.
pub(super) fn learn(outputs: &mut Outputs, state: &CallState, workload: &Workload) {
    if workload.unknown_output {
        let output = state.real.cost.units(&Dimension::OutputTokens);
        outputs.hear(&state.call, output, workload.max_tokens);
    }
}

/// Returns what an upstream counts of a call when it arrives.
pub(super) fn counted_on_arrival(
    state: &CallState,
    workload: &Workload,
    spec: Option<&UpstreamSpec>,
) -> Cost {
    let reserves = spec.map(|spec| spec.reserves).unwrap_or_default();
    let output = match (reserves.max_tokens(), workload.max_tokens) {
        (true, Some(most)) => most,
        _ if workload.unknown_output => 0,
        _ => return state.real.cost.clone(),
    };
    state.real.cost.clone().with(Dimension::OutputTokens, output)
}

/// Returns what an upstream counts of a call in the end.
pub(super) fn counted_in_the_end(state: &CallState, spec: Option<&UpstreamSpec>, held: &Held) -> Cost {
    let keeps = spec.is_some_and(|spec| spec.reserves.keeps());
    if keeps { held.cost().clone() } else { state.real.cost.clone() }
}
