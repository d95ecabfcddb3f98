//! What a limit counts of a call that is over.

use tidegate_core::engine::{Ended, Fate};

use crate::world::routes::{Kind, LimitUse};

/// How a call of a kind ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End<'a> {
    pub ended: &'a Ended,
    pub kind: &'a Kind,
}

impl End<'_> {
    /// Whether it was not done, so that all that it reserved comes back.
    pub fn comes_back(&self) -> bool {
        let turned_away = matches!(self.ended.fate, Fate::TurnedAway { .. } | Fate::OutOfQuota);
        self.ended.fate == Fate::Unreached || (turned_away && !self.kind.after.failures_count)
    }

    /// What a limit counts of it, if it reserved so much there.
    pub fn cost(&self, used: &LimitUse, reserved: u64) -> u64 {
        match (&self.ended.cost, &used.dimension) {
            _ if self.comes_back() => 0,
            (Some(actual), Some(dimension)) if !used.in_flight && actual.states(dimension) => {
                let actual = actual.units(dimension);
                if self.kind.keep { actual.max(reserved) } else { actual }
            }
            _ => reserved,
        }
    }
}
