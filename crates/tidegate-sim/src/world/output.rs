//! Output that nobody knows before it is there.
//!
//! A workload may say so. Then the gate knows a call's input and the most output that it asks for, and reserves what
//! the service's vendor is known to count of such a call; the upstream counts what has come by the time that it knows
//! of it, or reserves the most itself.

use tidegate_core::vendor::Estimate;
use tidegate_core::{Call, Cost, Dimension};

use super::World;
use crate::scenario::Workload;
use crate::upstream::Held;

impl World<'_> {
    /// The call, with what is reserved for it.
    pub(super) fn reserve(&self, call: Call, workload: &Workload) -> Call {
        let estimate = Estimate {
            input: call.cost().units(&Dimension::InputTokens),
            max_output: workload.max_tokens,
            expected_output: self.expected_output(&call),
            ..Estimate::default()
        };
        let charge = self.scenario.config.counting(&workload.service).reserve(&estimate);
        call.units(Dimension::InputTokens, charge.input_tokens)
            .units(Dimension::OutputTokens, charge.output_tokens)
            .units(Dimension::Tokens, charge.tokens)
    }

    /// The output that a call is expected to have, from experience.
    fn expected_output(&self, call: &Call) -> Option<u64> {
        self.outputs.expected(call)
    }

    /// A call went well: that much output it had.
    pub(super) fn had_output(&mut self, place: u32) {
        let state = &self.calls[place as usize];
        let workload = &self.scenario.workloads[state.source];
        if workload.unknown_output {
            let output = state.real.units(&Dimension::OutputTokens);
            self.outputs.hear(&state.call, output, workload.max_tokens);
        }
    }

    /// What an upstream counts of a call when it arrives.
    pub(super) fn counted_on_arrival(&self, place: u32) -> Cost {
        let state = &self.calls[place as usize];
        let workload = &self.scenario.workloads[state.source];
        let reserves = self.spec(place).map(|spec| spec.reserves).unwrap_or_default();
        let output = match (reserves.max_tokens(), workload.max_tokens) {
            (true, Some(most)) => most,
            _ if workload.unknown_output => 0,
            _ => return state.real.clone(),
        };
        state.real.clone().with(Dimension::OutputTokens, output)
    }

    /// What an upstream counts of it in the end.
    pub(super) fn counted_in_the_end(&self, place: u32, held: &Held) -> Cost {
        let keeps = self.spec(place).is_some_and(|spec| spec.reserves.keeps());
        if keeps { held.cost().clone() } else { self.calls[place as usize].real.clone() }
    }
}
