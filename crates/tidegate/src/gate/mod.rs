//! The gate: which calls may go, when, and how much they may spend.
//!
//! ```text
//!  inner, wait_slots, hand_off, timer, engine_clock, persistence     parts that know no gate
//!        │
//!        ▼
//!  shared      one engine behind one lock: the lock protocol is described there
//!        │
//!        ▼
//!  calls       what happens to a call behind the gate      funding     the engine as the lender's port
//!        │
//!        ▼
//!  permit, acquire ──► Gate (this file: calls and changes), inspect (what a gate shows), builder
//! ```

mod acquire;
mod builder;
mod calls;
mod engine_clock;
#[cfg(feature = "sqlite")]
mod funding;
mod hand_off;
mod inner;
mod inspect;
#[cfg(not(feature = "sqlite"))]
mod no_persistence;
mod permit;
#[cfg(feature = "sqlite")]
mod persistence;
mod shared;
#[cfg(test)]
mod tests;
mod timer;
mod wait_slots;

#[cfg(not(feature = "sqlite"))]
use no_persistence as persistence;

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Call;
use tidegate_core::engine::{ChangeError, LearnedLimit, LimitStatus};

use crate::config::Config;
use crate::limiter::InvalidLimit;
use crate::refused::Refused;
use crate::simple::RateLimitConfig;
#[cfg(feature = "sqlite")]
use crate::state::StateError;

pub use acquire::Acquire;
pub use builder::GateBuilder;
pub use inspect::Explanation;
pub use permit::Permit;

pub(crate) use acquire::Unpark;
pub(crate) use inner::QueueTerms;
pub(crate) use shared::Shared;
pub(crate) use timer::Sleeper;

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

/// # Making a gate
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

    /// A gate over one budget of tokens, with retries.
    ///
    /// A call costs one token, unless it states its [`tokens`](Call::tokens), and need name no service: its limit
    /// is `simple/tokens/1m`.
    ///
    /// ```
    /// use tidegate::{Call, Gate, RateLimitConfig};
    ///
    /// let gate = Gate::simple(RateLimitConfig::default())?;
    /// let permit = gate.try_acquire(Call::default()).expect("there are a thousand");
    /// let another = gate.try_acquire(Call::default().tokens(250)).expect("and still enough");
    /// assert_eq!(gate.limit("simple/tokens/1m").expect("known").used, 251);
    /// # Ok::<(), tidegate::InvalidLimit>(())
    /// ```
    ///
    /// # Errors
    /// If a number makes no sense: its field is named.
    pub fn simple(config: RateLimitConfig) -> Result<Gate, InvalidLimit> {
        Gate::builder().simple(config)?.build().map_err(|error| {
            // The numbers were all looked at; what is left is in none of them.
            InvalidLimit::new("config", error, "the gate could not be built from it")
        })
    }
}

/// # Calls
///
/// [`Gate::execute`] makes a call on the caller's behalf, and makes it again where that is worth it.
impl Gate {
    /// Lets the call go now or refuses it; it never waits. A call that is made again and again is cheapest
    /// passed by reference: its route is found once.
    ///
    /// # Errors
    /// The limit that has no room, and when it would have.
    #[inline]
    pub fn try_acquire(&self, call: impl Borrow<Call>) -> Result<Permit, Refused> {
        if self.shared.simple {
            return Permit::try_acquire_priced(&self.shared, call.borrow());
        }
        Permit::try_acquire(&self.shared, call.borrow())
    }

    /// Waits until the call may go.
    ///
    /// # Errors
    /// If it could never fit, would have to wait longer than its timeout, or was pushed out of a full queue:
    /// with the limit, the wait and the reset.
    pub fn acquire(&self, call: impl Into<Call>) -> Acquire {
        Acquire::new(self.shared.clone(), self.shared.priced(call.into()))
    }

    /// The same for threads without a runtime: blocks until the call may go.
    ///
    /// # Errors
    /// As [`Gate::acquire`].
    pub fn acquire_blocking(&self, call: impl Into<Call>) -> Result<Permit, Refused> {
        self.acquire(call).block()
    }
}

/// # Changes
impl Gate {
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
        self.shared.with(|engine, now| engine.set_in_flight(name, bound, now))
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
        self.shared.with(|engine, now| engine.reset_limit(name, now))
    }

    /// Opens the backoff window of a key for so long from now, or extends it; it never shortens one. Calls that
    /// it concerns wait, and go throttled for a time after it. A 429 that a call is finished with does this by
    /// itself.
    ///
    /// The key is a limit's name or the level before it: `openai/requests/1m`, `openai/model:gpt-4o`, `openai`,
    /// `loop_type:code`, `global`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Call, Config, Gate};
    ///
    /// let gate = Gate::builder().config(Config::parse("[services.openai]\n")?).build()?;
    /// gate.set_backoff("openai", Duration::from_secs(30))?;
    /// let refused = gate.try_acquire(Call::to("openai")).unwrap_err();
    /// assert_eq!(refused.limit(), Some("openai/backoff"));
    /// assert!(refused.wait().unwrap() > Duration::from_secs(29));
    ///
    /// assert!(gate.clear_backoff("openai"));
    /// assert!(gate.try_acquire(Call::to("openai")).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If there is nothing of that name.
    pub fn set_backoff(&self, key: &str, span: Duration) -> Result<(), ChangeError> {
        self.shared.with(|engine, now| engine.set_backoff(key, span, now))
    }

    /// Ends the backoff window of a key and the throttled time after it; those who wait go at a pace. Says whether
    /// there was one.
    pub fn clear_backoff(&self, key: &str) -> bool {
        self.shared.with(|engine, now| engine.clear_backoff(key, now))
    }

    /// What another gate has learned about a limit, or this one before a restart. Says whether there is such a limit.
    pub fn remember(&self, learned: &LearnedLimit) -> bool {
        self.shared.with(|engine, now| engine.remember(learned, now))
    }
}

#[cfg(feature = "sqlite")]
/// # State
impl Gate {
    /// Writes everything to the state file and frees it: nothing that was not spent is lost. Calls that come
    /// afterwards are refused. A gate without state does nothing here.
    ///
    /// A gate that is dropped does the same, but does not wait for the disk; after a crash at most one promise is lost.
    ///
    /// # Errors
    /// Returns an error if the disk fails. What is on it then is what a crash would have left behind.
    pub fn close(&self) -> Result<(), StateError> {
        self.shared.persistence.as_ref().map_or(Ok(()), |state| state.close())
    }

    /// Returns why state cannot be written at the moment, if that is so.
    #[must_use]
    pub fn state_trouble(&self) -> Option<String> {
        self.shared.persistence.as_ref().and_then(|state| state.trouble())
    }

    /// Returns how many transactions were written to the state file.
    #[doc(hidden)]
    #[must_use]
    pub fn state_writes(&self) -> u64 {
        self.shared.persistence.as_ref().map_or(0, |state| state.writes())
    }

    /// Returns the path of the state file.
    #[must_use]
    pub fn state_path(&self) -> Option<&std::path::Path> {
        self.shared.persistence.as_ref().map(|state| state.path())
    }

    /// Keeps changes that were made by hand.
    #[doc(hidden)]
    pub fn keep_changes(&self, text: String) {
        if let Some(state) = &self.shared.persistence {
            state.keep_changes(text);
        }
    }
}
