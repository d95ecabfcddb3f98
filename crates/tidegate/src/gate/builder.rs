//! How a gate is made.

use std::sync::Arc;

use tidegate_core::engine::ChangeError;

use super::Gate;
use super::shared::Shared;
use crate::chance::Chance;
use crate::clock::ClockSource;
use crate::config::Config;
use crate::limiter::InvalidLimit;
use crate::simple::RateLimitConfig;

/// How to make a [`Gate`] that differs from the default.
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until it builds"]
pub struct GateBuilder {
    config: Config,
    clock: Option<ClockSource>,
    chance: Chance,
    simple: bool,
    patient: bool,
    unbounded: bool,
    remote: bool,
    #[cfg(feature = "sqlite")]
    state: Option<crate::state::StateFile>,
}

impl GateBuilder {
    /// The limits.
    pub fn config(mut self, config: Config) -> GateBuilder {
        self.config = config;
        self.simple = false;
        self
    }

    /// The limits of a [simple gate](Gate::simple), in place of a config.
    ///
    /// # Errors
    /// If a number makes no sense: its field is named.
    pub fn simple(mut self, config: RateLimitConfig) -> Result<GateBuilder, InvalidLimit> {
        self.config = config.to_config()?.into();
        self.simple = true;
        Ok(self)
    }

    /// Another clock, such as one that a test moves. Waits still sleep on tokio's time.
    pub fn clock(mut self, clock: impl Into<ClockSource>) -> GateBuilder {
        self.clock = Some(clock.into());
        self
    }

    /// Where the chance in delays comes from, such as a source with a seed.
    pub fn chance(mut self, chance: Chance) -> GateBuilder {
        self.chance = chance;
        self
    }

    /// Whether a new call waits for a breaker that is open, if its next probe lies within the call's timeout: as
    /// suits a batch. Unless this says so it is refused at once, with the time of the probe.
    pub fn wait_for_breakers(mut self, wait: bool) -> GateBuilder {
        self.patient = wait;
        self
    }

    /// Whether an attempt of [`Gate::execute`] that was refused because of a limit counts among the retries. By
    /// default it does; where every call has a timeout, as in the sidecar and in a batch, it is better that only
    /// time bounds them, since they did not fail.
    pub fn refusals_count(mut self, count: bool) -> GateBuilder {
        self.unbounded = !count;
        self
    }

    /// Whether calls go over a network at once, on connections that may have to be opened first, as the sidecar's do. Then
    /// they may overtake each other, and until replies have shown by how much, short limits leave 60 ms for it: what
    /// goes right after a burst could otherwise be there before the burst is. In short windows 25 ms are enough as long as
    /// nobody was turned away, provided that attempts say when they [leave](crate::Attempt::leaves).
    pub fn remote(mut self, remote: bool) -> GateBuilder {
        self.remote = remote;
        self
    }

    /// Where the gate's state survives. Nothing is spent before it is written down there.
    #[cfg(feature = "sqlite")]
    pub fn state(mut self, file: crate::state::StateFile) -> GateBuilder {
        self.state = Some(file);
        self
    }

    /// The gate. One with state has written its first promises when this returns.
    ///
    /// # Errors
    /// If the config holds what cannot be.
    pub fn build(self) -> Result<Gate, ChangeError> {
        let clock = self.clock.unwrap_or_else(ClockSource::cheap);
        #[cfg(feature = "sqlite")]
        let since = self.state.as_ref().and_then(|file| file.time());
        #[cfg(not(feature = "sqlite"))]
        let since = None;
        #[cfg(feature = "sqlite")]
        let kept = self.state.as_ref().map(|file| file.salt());
        #[cfg(not(feature = "sqlite"))]
        let kept = None;
        // A system without randomness has worse problems: limits of keys work all the same.
        let salt = kept.or_else(|| crate::salt::random().ok()).unwrap_or_default();
        let shared = Shared::new(self.config, clock, self.chance, self.simple, !self.unbounded, since)?;
        shared.with(|engine, now| {
            engine.set_salt(salt);
            engine.wait_for_breakers(self.patient);
            if self.remote {
                engine.expect_a_network(now);
            }
        });
        #[cfg(feature = "sqlite")]
        if let Some(file) = self.state {
            return Ok(Gate { shared: shared.keep_in(file) });
        }
        Ok(Gate { shared: Arc::new(shared) })
    }
}
