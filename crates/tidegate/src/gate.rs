//! The gate: who may call, when, and how much.

#[cfg(feature = "sqlite")]
mod kept;
mod shared;
mod time;
mod waiting;

use std::borrow::Borrow;
use std::sync::Arc;

use tidegate_core::engine::{ChangeError, LimitStatus, ServiceCounts};
use tidegate_core::{Call, Nanos};

use crate::chance::Chance;
use crate::clock::ClockSource;
use crate::config::Config;
use crate::limiter::InvalidLimit;
use crate::permit::Permit;
use crate::refused::Refused;
use crate::simple::RateLimitConfig;

#[cfg(feature = "sqlite")]
pub(crate) use kept::Kept;
pub(crate) use shared::Shared;

/// Decides which calls may go, and when. Clones are the same gate.
///
/// ```
/// use tidegate::{Call, Config, Gate, Outcome, Priority};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = Config::parse("[services.openai]\nrequests = \"500/min\"\ntokens = \"200k/min\"\n")?;
/// let gate = Gate::from_config(config).await?;
/// let call = Call::to("openai").loop_id("agent-7").priority(Priority::High).tokens(1_200);
/// let permit = gate.acquire(call).await?;
/// // … the call itself …
/// permit.finish(Outcome::done().tokens(950));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Gate {
    pub(crate) shared: Arc<Shared>,
}

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
        shared.act(|engine, now| {
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

impl Gate {
    /// A gate under a config.
    ///
    /// # Errors
    /// If the config holds what cannot be.
    // Async since a gate with a state file or Redis behind it has to wait for them.
    #[allow(clippy::unused_async, reason = "part of the signature that users write")]
    pub async fn from_config(config: Config) -> Result<Gate, ChangeError> {
        for ignored in config.ignored() {
            tracing::warn!("config: {ignored}");
        }
        Gate::builder().config(config).build()
    }

    /// A gate that differs from the default.
    pub fn builder() -> GateBuilder {
        GateBuilder::default()
    }

    /// Lets the call go now or refuses it; it never waits. A call that is made again and again is cheapest
    /// passed by reference: its route is found once.
    ///
    /// # Errors
    /// The limit that has no room, and when it would have.
    #[inline]
    pub fn try_acquire(&self, call: impl Borrow<Call>) -> Result<Permit, Refused> {
        if self.shared.simple {
            return self.shared.try_acquire_priced(call.borrow());
        }
        self.shared.try_acquire(call.borrow())
    }

    /// Puts another config into force. What was spent and who waits stays; waiters are planned anew.
    ///
    /// # Errors
    /// If the config holds what cannot be; then the old one stays in force as a whole.
    pub fn reconfigure(&self, config: &Config) -> Result<(), ChangeError> {
        self.shared.reconfigure(config)
    }

    /// Changes one limit by its name, such as `openai/tokens/1m`, to another rate.
    ///
    /// # Errors
    /// If there is no such limit.
    pub fn set_rate(&self, name: &str, rate: &tidegate_core::config::RateLimit) -> Result<(), ChangeError> {
        self.shared.set_rate(name, rate)
    }

    /// Changes a bound on what is in flight by its name, such as `openai/concurrency`.
    ///
    /// # Errors
    /// If there is no such limit, or if the bound is zero.
    pub fn set_in_flight(&self, name: &str, bound: u64) -> Result<(), ChangeError> {
        self.shared.act(|engine, now| engine.set_in_flight(name, bound, now))
    }

    /// Forgives everything that was spent and is owed at a limit, by its name: it begins unspent, and waiting calls go
    /// that fit now. Returns the limit as it was. Backoff windows stay open.
    ///
    /// ```
    /// # use tidegate::{Call, Config, Gate, Outcome};
    /// let config = Config::parse("[services.api]\ntokens = { limit = \"5/h\", burst = 5 }\n")?;
    /// let gate = Gate::builder().config(config).build()?;
    /// gate.try_acquire(Call::to("api").tokens(1))?.finish(Outcome::done().tokens(1_000));
    /// assert!(gate.try_acquire(Call::to("api").tokens(1)).is_err());
    /// assert_eq!(gate.reset_limit("api/tokens/1h")?.used, 25, "debt is at most four times the limit");
    /// assert!(gate.try_acquire(Call::to("api").tokens(1)).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if there is no such limit, or if it counts what is in flight.
    pub fn reset_limit(&self, name: &str) -> Result<LimitStatus, ChangeError> {
        self.shared.act(|engine, now| engine.reset_limit(name, now))
    }

    /// Returns the fingerprint that stands for an API key in the names of its limits. With a state file it stays the same
    /// across restarts; without one, each gate has fingerprints of its own.
    #[must_use]
    pub fn fingerprint(&self, key: &str) -> String {
        self.shared.act(|engine, _| engine.fingerprint(key))
    }

    /// Every limit as it stands.
    #[must_use]
    pub fn limits(&self) -> Vec<LimitStatus> {
        self.shared.act(|engine, now| engine.limits(now))
    }

    /// One limit as it stands.
    #[must_use]
    pub fn limit(&self, name: &str) -> Option<LimitStatus> {
        self.shared.limit(name)
    }

    /// What became of a service's calls.
    #[must_use]
    pub fn counts(&self, service: &str) -> Option<ServiceCounts> {
        self.shared.counts(service)
    }

    /// The time by the gate's clock, as its resets have it.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.shared.now()
    }

    /// How many calls wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.waiting()
    }
}
