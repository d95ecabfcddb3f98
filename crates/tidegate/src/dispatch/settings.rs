//! The settings of a dispatch.

use std::time::Duration;

use crate::backoff::BackoffWindow;

/// The name of the only service of a dispatch's gate.
pub(super) const SERVICE: &str = "dispatch";

/// The settings of a dispatch, checked by its builder.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub limiter: BackoffWindow,
    pub concurrency: u64,
    pub throttled_concurrency: u64,
    pub byte_budget: u64,
    pub backoff_window: Duration,
    pub byte_penalty_multiplier: u16,
}

impl Settings {
    /// Returns the name of the first field that differs.
    pub fn first_difference(&self, other: &Settings) -> Option<&'static str> {
        let equal = [
            ("limiter", self.limiter == other.limiter),
            ("concurrency", self.concurrency == other.concurrency),
            ("throttled_concurrency", self.throttled_concurrency == other.throttled_concurrency),
            ("byte_budget", self.byte_budget == other.byte_budget),
            ("backoff_window", self.backoff_window == other.backoff_window),
            ("byte_penalty_multiplier", self.byte_penalty_multiplier == other.byte_penalty_multiplier),
        ];
        equal.into_iter().find_map(|(field, equal)| (!equal).then_some(field))
    }
}
