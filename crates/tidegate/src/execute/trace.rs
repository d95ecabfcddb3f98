//! Each attempt as a `tracing` span and as an event, under the target `tidegate`.
//!
//! The span `attempt` is there while the attempt runs, so what the caller's own code tells then belongs to it; it is inside
//! of whatever span the call is made in. Of the events: always the same fields: `service`, `attempt`, `outcome`, and `delay` in seconds where another attempt follows.
//! A success is told at the level of debugging, an attempt that is followed by another as information, the end of
//! a call that failed as a warning.

use std::time::Duration;

use tidegate_core::retry::{Failure, GiveUp};
use tracing::{Span, debug, debug_span, info, warn};

use super::ends::word;

const TARGET: &str = "tidegate";

/// What happens during an attempt happens in here.
pub(super) fn attempt(service: &str, attempt: u32) -> Span {
    debug_span!(target: TARGET, "attempt", service, attempt)
}

pub(super) fn succeeded(service: &str, attempt: u32) {
    debug!(target: TARGET, service, attempt, outcome = "done", "the call is done");
}

pub(super) fn failed(service: &str, attempt: u32, failure: Failure, next: Result<Duration, GiveUp>) {
    let outcome = word(failure.kind);
    match next {
        Ok(delay) => {
            let delay = delay.as_secs_f64();
            info!(target: TARGET, service, attempt, outcome, delay, "the attempt failed, and another follows");
        }
        Err(why) => {
            warn!(target: TARGET, service, attempt, outcome, ?why, "the attempt failed, and no other follows");
        }
    }
}

pub(super) fn refused(service: &str, attempt: u32, why: &crate::Refused) {
    warn!(target: TARGET, service, attempt, outcome = "held back", %why, "the gate did not let the attempt go");
}
