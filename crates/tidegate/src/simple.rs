//! The gate in one line: a budget of tokens and retries, for one API and no config file.

use std::time::Duration;

use tidegate_core::config::{RateLimit, ServiceConfig};
use tidegate_core::{Algorithm, Call, Config, Dimension, MAX_UNITS, Rate};

use crate::limiter::InvalidLimit;

/// The name of the one service of a simple gate. Calls need not know it.
const SERVICE: &str = "simple";
const MINUTE: Duration = Duration::from_secs(60);

/// What a [simple gate](crate::Gate::simple) allows, and how it retries.
///
/// ```
/// use tidegate::{Gate, RateLimitConfig};
///
/// let config = RateLimitConfig { initial_tokens: 500, refill_rate: 50, ..RateLimitConfig::default() };
/// let gate = Gate::simple(config)?;
/// # Ok::<(), tidegate::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimitConfig {
    /// How many tokens there are at first, and at most. 1000.
    pub initial_tokens: u64,
    /// How many tokens come back in a minute, evenly. 100.
    pub refill_rate: u64,
    /// How often a call is tried again: 0 runs it once. 5.
    pub max_retries: u32,
    /// The delay before the first retry, which doubles from one to the next. One second.
    pub initial_delay: Duration,
    /// The longest delay; the upstream may ask for more. One minute.
    pub max_delay: Duration,
    /// By which share delays are shorter or longer at random. 0.1.
    pub jitter_factor: f64,
}

impl Default for RateLimitConfig {
    fn default() -> RateLimitConfig {
        RateLimitConfig {
            initial_tokens: 1000,
            refill_rate: 100,
            max_retries: 5,
            initial_delay: Duration::from_secs(1),
            max_delay: MINUTE,
            jitter_factor: 0.1,
        }
    }
}

impl RateLimitConfig {
    /// The same as a whole config.
    pub(crate) fn to_config(self) -> Result<Config, InvalidLimit> {
        self.check()?;
        let wrong = |_| InvalidLimit::new("refill_rate", self.refill_rate, "use 1 to 2^63 tokens a minute");
        let rate = Rate::new(self.refill_rate, MINUTE).map_err(wrong)?;
        let mut service = ServiceConfig::default();
        service.limits.rates.push(RateLimit {
            algorithm: Some(Algorithm::TokenBucket),
            burst: Some(self.initial_tokens),
            ..RateLimit::plain(Dimension::Tokens, rate)
        });
        service.retry.max_retries = Some(self.max_retries);
        service.retry.initial = Some(self.initial_delay);
        service.retry.max = Some(self.max_delay);
        service.retry.jitter = Some(self.jitter_factor);
        let mut config = Config::default();
        config.services.insert(SERVICE.to_owned(), service);
        Ok(config)
    }

    fn check(self) -> Result<(), InvalidLimit> {
        let RateLimitConfig { initial_tokens, initial_delay, max_delay, jitter_factor, .. } = self;
        if !(1..=MAX_UNITS).contains(&initial_tokens) {
            return Err(InvalidLimit::new("initial_tokens", initial_tokens, "use 1 to 2^63 tokens"));
        }
        let wrong = |field, value: Duration, why| Err(InvalidLimit::new(field, format!("{value:?}"), why));
        if initial_delay.is_zero() {
            return wrong("initial_delay", initial_delay, "a first delay of 0 never grows, use at least 1ms");
        }
        if max_delay < initial_delay {
            return wrong("max_delay", max_delay, "it is below `initial_delay`");
        }
        if !(0.0..=1.0).contains(&jitter_factor) {
            return Err(InvalidLimit::new("jitter_factor", jitter_factor, "use a share from 0 to 1"));
        }
        Ok(())
    }
}

/// A call to a simple gate that states no cost, as that gate counts it.
pub(crate) fn priced(call: &Call) -> Option<Call> {
    let stated = call.cost().states(&Dimension::Tokens);
    (!stated).then(|| call.clone().tokens(1))
}
