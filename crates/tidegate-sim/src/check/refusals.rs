//! Whoever is refused is told the truth, and was not the wrong one.

use tidegate_core::{Nanos, Reason, Refusal};

use super::{Broken, Happening, Judge};
use crate::report::Invariant;
use crate::routes::{Kind, Routes};

impl Judge {
    pub(super) fn note_refusals(
        &mut self,
        routes: &Routes,
        event: &Happening,
        now: Nanos,
    ) -> Result<(), Broken> {
        for (call, refusal) in &event.refused {
            let waited = self.leaves(*call, routes);
            let record = &self.calls[*call as usize];
            let class = routes.kind(record.kind).class;
            let wrong = match &refusal.reason {
                Reason::Timeout if waited && record.deadline > now => Some("timed out too early"),
                Reason::Timeout | Reason::Hopeless
                    if !self.stands_in_the_way(refusal, routes.kind(record.kind), now) =>
                {
                    Some("was told of a window or a breaker that holds nobody")
                }
                Reason::Hopeless if waited => Some("was called hopeless while it waited"),
                Reason::Hopeless if refusal.wait.is_some_and(|wait| now.after(wait) <= record.deadline) => {
                    Some("was called hopeless though it would have gone in time")
                }
                Reason::CircuitOpen if !self.breakers.shuts_out(routes.kind(record.kind), now) => {
                    Some("was refused by a breaker that lets it through")
                }
                Reason::CircuitOpen
                    if !self.breakers.is_of(refusal.limit.as_deref(), routes.kind(record.kind)) =>
                {
                    Some("was refused by a breaker and told something else")
                }
                Reason::TooLarge { cost, capacity } if cost <= capacity => Some("was called too large"),
                Reason::QueueFull if self.roll.lowest(routes.kind(record.kind).service) < Some(class) => {
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

    /// Whether the window or the breaker that a refusal names, if it is one, does hold calls.
    fn stands_in_the_way(&self, refusal: &Refusal, kind: &Kind, now: Nanos) -> bool {
        let name = refusal.limit.as_deref().unwrap_or_default();
        match name.rsplit_once('/') {
            Some((key, "backoff")) => self.windows.may_hold(key, now),
            Some((_, "breaker")) => self.breakers.holds(kind),
            _ => true,
        }
    }
}
