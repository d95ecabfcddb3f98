//! How a bound on calls in flight adapts to what the upstream copes with.

use std::time::Duration;

/// How a bound on calls in flight adapts.
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptiveConfig {
    /// By which rule.
    pub by: Adaptation,
    /// The least that it may be.
    pub min: u64,
    /// For AIMD: replies that take longer than this are too slow.
    pub latency: Option<Duration>,
}

/// The rule by which a bound on calls in flight adapts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adaptation {
    /// By how much longer replies take than at best.
    Gradient,
    /// One more after each good round, and much less after a bad one.
    Aimd,
}

impl Adaptation {
    /// Their names in the config.
    pub const NAMES: [(&'static str, Adaptation); 2] =
        [("gradient", Adaptation::Gradient), ("aimd", Adaptation::Aimd)];

    /// Its name in the config.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Adaptation::Gradient => "gradient",
            Adaptation::Aimd => "aimd",
        }
    }
}
