//! What holds calls back beside limits: backoff windows and breakers, as a gate shows and sets them.

use std::time::Duration;

use tidegate_core::engine::{BackoffStatus, BreakerStatus, ChangeError};

use crate::gate::Gate;

impl Gate {
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
        self.shared.act(|engine, now| engine.set_backoff(key, span, now))
    }

    /// Ends the backoff window of a key and the throttled time after it; those who wait go at a pace. Says whether
    /// there was one.
    pub fn clear_backoff(&self, key: &str) -> bool {
        self.shared.act(|engine, now| engine.clear_backoff(key, now))
    }

    /// The backoff windows that are open or were not long ago.
    #[must_use]
    pub fn backoffs(&self) -> Vec<BackoffStatus> {
        self.shared.act(|engine, now| engine.backoffs(now))
    }

    /// Every breaker as it stands.
    #[must_use]
    pub fn breakers(&self) -> Vec<BreakerStatus> {
        self.shared.act(|engine, now| engine.breakers(now))
    }
}
