//! How delays grow from one attempt to the next.

use std::time::Duration;

use super::jitter::{Jitter, between};
use crate::model::growth::Growth;
use crate::model::time::whole_nanos;

/// Delays between attempts: how they grow, how far, and how they are spread.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::retry::{Backoff, Growth, Jitter};
///
/// let backoff = Backoff {
///     growth: Growth::Exponential,
///     initial: Duration::from_millis(100),
///     max: Duration::from_millis(1000),
///     jitter: Jitter::None,
/// };
/// let delay = |attempt| backoff.delay(attempt, None, 0).as_millis();
/// assert_eq!((delay(0), delay(3), delay(4), delay(1_000_000_000)), (100, 800, 1000, 1000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// How delays grow.
    pub growth: Growth,
    /// The first one.
    pub initial: Duration,
    /// The cap: no delay is longer.
    pub max: Duration,
    /// How they are spread.
    pub jitter: Jitter,
}

impl Default for Backoff {
    /// One second, doubling to a minute, ±10 %.
    fn default() -> Backoff {
        Backoff {
            growth: Growth::default(),
            initial: Duration::from_secs(1),
            max: Duration::from_secs(60),
            jitter: Jitter::Symmetric(0.1),
        }
    }
}

impl Backoff {
    /// The delay after attempt number `attempt`, from 0, where `last` was the delay before it, if there was
    /// one.
    #[must_use]
    pub fn delay(&self, attempt: u32, last: Option<Duration>, draw: u64) -> Duration {
        let [initial, max] = [self.initial, self.max].map(whole_nanos);
        let grown = match self.growth {
            // 64 bits moved by at most 64 fit into 128.
            Growth::Exponential => u128::from(initial) << attempt.min(64),
            Growth::Linear => u128::from(initial) * (u128::from(attempt) + 1),
            Growth::Constant => u128::from(initial),
            Growth::Decorrelated => {
                let last = last.map_or(initial, whole_nanos).max(initial);
                let most = last.saturating_mul(3).min(max);
                return Duration::from_nanos(between(initial.min(most), most, draw));
            }
        };
        let delay = u64::try_from(grown).unwrap_or(u64::MAX).min(max);
        self.jitter.spread(Duration::from_nanos(delay), self.max, draw)
    }
}
