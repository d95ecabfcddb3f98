//! When a breaker opens and how it closes, known to make sense.

use std::time::Duration;

use crate::config::BreakerConfig;
use crate::model::invalid::InvalidPolicy;

/// When a breaker opens, for how long, and how it closes again.
///
/// By default five failures in a row open it for 30 seconds, and one probe that succeeds closes it.
///
/// ```
/// use tidegate_core::limits::breaker::BreakerPolicy;
/// use tidegate_core::config::BreakerConfig;
///
/// let mut config = BreakerConfig::default();
/// assert!(BreakerPolicy::from_config(&config).is_ok());
/// config.probes = 0;
/// assert_eq!(BreakerPolicy::from_config(&config).unwrap_err().field, "probes");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BreakerPolicy {
    pub(super) failures: u32,
    pub(super) failure_rate: Option<f64>,
    pub(super) slow: Option<Slow>,
    pub(super) window: Duration,
    pub(super) min_calls: u32,
    pub(super) open_for: Duration,
    pub(super) max_open: Duration,
    pub(super) probes: u32,
    pub(super) count_rate_limits: bool,
}

/// What share of calls may take how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slow {
    pub rate: f64,
    pub after: Duration,
}

impl BreakerPolicy {
    /// The longest time that a breaker stays open, unless it is written or the first time is longer.
    pub const MAX_OPEN: Duration = Duration::from_secs(300);

    /// The rules that a config gives.
    ///
    /// # Errors
    /// If one makes no sense; a config that was read from a file is known to.
    pub fn from_config(config: &BreakerConfig) -> Result<BreakerPolicy, InvalidPolicy> {
        let is_rate = |rate: &f64| *rate > 0.0 && *rate <= 1.0;
        let slow = match (config.slow_rate, config.slow_after) {
            (Some(rate), Some(after)) => Some(Slow { rate, after }),
            (None, None) => None,
            _ => return Err(InvalidPolicy::new("slow_rate", "it goes together with slow_after")),
        };
        let max_open = config.max_open.unwrap_or(Self::MAX_OPEN.max(config.open_for));
        let wrong = [
            ("failures", config.failures == 0, "use at least 1"),
            ("failure_rate", !config.failure_rate.iter().all(is_rate), "use a share above 0 and at most 1"),
            ("slow_rate", !config.slow_rate.iter().all(is_rate), "use a share above 0 and at most 1"),
            ("slow_after", config.slow_after.is_some_and(|after| after.is_zero()), "use a time above 0"),
            ("window", config.window.is_zero(), "use a time above 0"),
            ("min_calls", config.min_calls == 0, "use at least 1"),
            ("open_for", config.open_for.is_zero(), "use a time above 0"),
            ("max_open", max_open < config.open_for, "use at least open_for"),
            ("probes", config.probes == 0, "use at least 1"),
        ];
        if let Some((field, _, problem)) = wrong.into_iter().find(|(_, is_wrong, _)| *is_wrong) {
            return Err(InvalidPolicy::new(field, problem));
        }
        Ok(BreakerPolicy {
            failures: config.failures,
            failure_rate: config.failure_rate,
            slow,
            window: config.window,
            min_calls: config.min_calls,
            open_for: config.open_for,
            max_open,
            probes: config.probes,
            count_rate_limits: config.count_rate_limits,
        })
    }
}

impl Default for BreakerPolicy {
    fn default() -> BreakerPolicy {
        BreakerPolicy::from_config(&BreakerConfig::default()).expect("the defaults make sense")
    }
}
