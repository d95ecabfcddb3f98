//! A refused call is told the truth, and was not the wrong one.

use tidegate_core::Reason;

use super::calls::Calls;
use super::desks::Desks;
use super::happening::{Broken, Moment};
use super::holds::Holds;
use crate::report::Invariant;

/// Strikes the refused calls of an event off the roll, and checks why each was refused.
pub(super) fn check(
    calls: &mut Calls,
    desks: &mut Desks,
    holds: &Holds,
    moment: &Moment<'_>,
) -> Result<(), Broken> {
    let Moment { event, routes, now } = *moment;
    for (call, refusal) in &event.refused {
        let waited = calls.leaves(*call, routes, desks);
        let record = &calls[*call];
        let kind = routes.kind(record.kind);
        let wrong = match &refusal.reason {
            Reason::Timeout if waited && record.deadline > now => Some("timed out too early"),
            Reason::Timeout | Reason::Hopeless if !holds.stand_in_the_way(refusal, kind, now) => {
                Some("was told of a window or a breaker that holds nobody")
            }
            Reason::Hopeless if waited => Some("was called hopeless while it waited"),
            Reason::Hopeless if refusal.wait.is_some_and(|wait| now.after(wait) <= record.deadline) => {
                Some("was called hopeless though it would have gone in time")
            }
            Reason::CircuitOpen if !holds.breakers.shuts_out(kind, now) => {
                Some("was refused by a breaker that lets it through")
            }
            Reason::CircuitOpen if !holds.breakers.is_of(refusal.limit.as_deref(), kind) => {
                Some("was refused by a breaker and told something else")
            }
            Reason::TooLarge { cost, capacity } if cost <= capacity => Some("was called too large"),
            Reason::QueueFull if calls.roll.lowest(kind.service) < Some(kind.class) => {
                Some("was shed before one of a lower priority")
            }
            _ => None,
        };
        if let Some(wrong) = wrong {
            let invariant = match refusal.reason {
                Reason::QueueFull => Invariant::Rank,
                _ => Invariant::NoStarvation,
            };
            return Err((invariant, format!("call {} {wrong}: {refusal:?}", record.no)));
        }
    }
    Ok(())
}
