//! What a limit counts of a call that is over.

use tidegate_core::Dimension;
use tidegate_core::engine::{Ended, Fate};

use crate::routes::{Kind, LimitUse};

/// How a call of a kind ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End<'a> {
    pub ended: &'a Ended,
    pub kind: &'a Kind,
}

impl End<'_> {
    /// Whether it was not done, so that what it reserved comes back; all of it if it was not even sent.
    pub fn comes_back(&self) -> bool {
        self.ended.fate == Fate::Unreached || self.is_refused()
    }

    /// Whether the upstream refused it and does not count it: all but its request comes back.
    fn is_refused(&self) -> bool {
        let refused = matches!(self.ended.fate, Fate::TurnedAway { .. } | Fate::OutOfQuota);
        self.ended.fate == Fate::Unprocessed || (refused && !self.kind.after.failures_count)
    }

    /// Whether a limit keeps what it counts though the call was refused: the request was sent.
    pub fn keeps_request(&self, used: &LimitUse) -> bool {
        self.is_refused() && !used.in_flight && used.dimension == Some(Dimension::Requests)
    }

    /// What a limit counts of it, if it reserved so much there.
    pub fn cost(&self, used: &LimitUse, reserved: u64) -> u64 {
        match (&self.ended.cost, &used.dimension) {
            _ if self.keeps_request(used) => reserved,
            _ if self.comes_back() => 0,
            (Some(actual), Some(dimension)) if !used.in_flight && actual.states(dimension) => {
                let actual = actual.units(dimension);
                if self.kind.keep { actual.max(reserved) } else { actual }
            }
            _ => reserved,
        }
    }
}
