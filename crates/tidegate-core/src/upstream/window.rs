//! A backoff window: until when it holds calls, and how refusals in a row extend it.

use crate::model::time::Nanos;
use std::time::Duration;

/// The least time for which the second refusal in a row opens a window, and the most that further ones make of it.
const GROWN_FIRST: Duration = Duration::from_millis(50);

const GROWN_MOST: Duration = Duration::from_secs(60);

/// How long after the end of a window its row of refusals still counts.
const ROW_REMEMBERED: Duration = Duration::from_secs(60);

/// A backoff window.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) until: Nanos,
    /// Until when an operator set it: that is not bounded as what replies ask for is.
    pub(crate) by_hand: Nanos,
    /// How many refusals came in a row, and when the latest of them did.
    pub(crate) refusals: u32,
    pub(crate) refused_at: Nanos,
}

impl Window {
    /// Counts the refusal of a call that was granted at `granted`. Returns the least time for which the window opens.
    pub(crate) fn refused(&mut self, granted: Nanos, now: Nanos) -> Duration {
        if self.refusals == 0 || granted > self.refused_at {
            self.refusals = self.refusals.saturating_add(1);
            self.refused_at = now;
        }
        grown(self.refusals)
    }

    /// Until when its row of refusals counts.
    pub(crate) fn row_ends(&self) -> Nanos {
        if self.refusals == 0 { Nanos::ZERO } else { self.until.after(ROW_REMEMBERED) }
    }
}

/// The least time for which the last of so many refusals in a row opens a window.
fn grown(refusals: u32) -> Duration {
    let doublings = refusals.checked_sub(2).map(|doublings| doublings.min(16));
    doublings.map_or(Duration::ZERO, |doublings| (GROWN_FIRST * (1 << doublings)).min(GROWN_MOST))
}
