//! The retry budget: when everything fails, retries must not become the storm.
//!
//! A share of all calls may be retried, and a few every second besides, so that a quiet client is not left
//! without. Both are counted over the last ten seconds, by the second. Calls that were refused for being too
//! many are not paid from it: they are held back by the upstream's own word.

use std::time::Duration;

use crate::model::recent::Recent;
use crate::model::time::Nanos;

/// So many seconds are counted.
const SECONDS: usize = 10;
/// Shares are counted in millionths.
const WHOLE: u128 = 1_000_000;

/// How many retries there may be; shared by all calls of a service.
///
/// ```
/// use tidegate_core::Nanos;
/// use tidegate_core::retry::Budget;
///
/// let mut budget = Budget::new(0.2, 0);
/// for _ in 0..10 {
///     budget.call(Nanos::ZERO);
/// }
/// assert!(budget.retry(Nanos::ZERO));
/// assert!(budget.retry(Nanos::ZERO));
/// assert!(!budget.retry(Nanos::ZERO), "a fifth of ten is two");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    millionths: u64,
    per_second: u32,
    seconds: Recent<Second, SECONDS>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Second {
    calls: u64,
    retries: u64,
}

impl Budget {
    /// The share of calls that may be retried by default.
    pub const SHARE: f64 = 0.2;
    /// The retries that there may be every second besides, by default.
    pub const PER_SECOND: u32 = 10;

    /// A budget of a share of all calls, and some every second besides. A share that is negative or no number
    /// is none.
    #[must_use]
    pub fn new(share: f64, per_second: u32) -> Budget {
        let millionths = (share * WHOLE as f64).round() as u64;
        let seconds = Recent::over(Duration::from_secs(SECONDS as u64));
        Budget { millionths, per_second, seconds }
    }

    /// Counts a call: its first attempt, not its retries.
    pub fn call(&mut self, now: Nanos) {
        let second = self.seconds.now(now);
        second.calls = second.calls.saturating_add(1);
    }

    /// Takes one retry, if there is one left, and says whether there was.
    #[must_use = "`false` means that there must be no retry"]
    pub fn retry(&mut self, now: Nanos) -> bool {
        let allowed = self.left(now) > 0;
        if allowed {
            self.seconds.now(now).retries += 1;
        }
        allowed
    }

    /// How many retries are left.
    #[must_use]
    pub fn left(&mut self, now: Nanos) -> u64 {
        self.seconds.now(now);
        let calls = self.seconds.sum(|second| second.calls);
        let retries = self.seconds.sum(|second| second.retries);
        let shared = u128::from(calls) * u128::from(self.millionths) / WHOLE;
        let allowed = shared + u128::from(self.per_second) * SECONDS as u128;
        u64::try_from(allowed).unwrap_or(u64::MAX).saturating_sub(retries)
    }
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new(Budget::SHARE, Budget::PER_SECOND)
    }
}
