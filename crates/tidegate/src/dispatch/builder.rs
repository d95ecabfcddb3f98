//! What a dispatch is made of, checked when it is built.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::MAX_UNITS;

use super::Dispatch;
use super::layers::{BY_KEY, Layers};
use super::settings::Settings;
use crate::backoff::{BackoffWindow, Key};

/// So many calls are throttled to, unless something else is said or that is more than go otherwise.
const THROTTLED: u64 = 10;

/// How to make a [`Dispatch`]; begun by [`Dispatch::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct DispatchBuilder {
    limiter: BackoffWindow,
    key: Option<Key>,
    concurrency: u64,
    throttled_concurrency: Option<u64>,
    byte_budget: u64,
    backoff_window: Duration,
    byte_penalty_multiplier: u16,
}

/// Why there is no dispatch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DispatchError {
    /// A number that cannot be.
    #[error("`{field}` is {value}: {expected}")]
    Invalid {
        /// Which field of the builder.
        field: &'static str,
        /// What it was.
        value: u64,
        /// What it may be.
        expected: &'static str,
    },
    /// More calls would go while throttled than otherwise.
    #[error(
        "`throttled_concurrency` {throttled} is above `concurrency` {concurrency}: use at most {concurrency}"
    )]
    ThrottledAboveNormal {
        /// Calls while throttled.
        throttled: u64,
        /// Calls otherwise.
        concurrency: u64,
    },
    /// Dispatches with one key share their counts, so they cannot differ.
    #[error("there is a dispatch with the key {key:?} and another `{field}`: use the same, or another key")]
    Differs {
        /// Which key.
        key: Key,
        /// Which field of the builder.
        field: &'static str,
    },
    /// Nobody has a dispatch with that key.
    #[error("there is no dispatch with the key {key:?}: build it first, and keep it")]
    Unknown {
        /// Which key.
        key: Key,
    },
}

impl DispatchBuilder {
    pub(super) fn new(limiter: BackoffWindow) -> DispatchBuilder {
        DispatchBuilder {
            limiter,
            key: None,
            concurrency: 400,
            throttled_concurrency: None,
            byte_budget: 5 << 20,
            backoff_window: Duration::from_secs(10),
            byte_penalty_multiplier: 20,
        }
    }

    /// What it is known by in this process: all dispatches with one key are one, and share their counts. Without
    /// a key it shares them with its clones only.
    pub fn key(mut self, key: impl Into<Key>) -> DispatchBuilder {
        self.key = Some(key.into());
        self
    }

    /// How many calls may be in flight; 400 unless stated.
    pub fn concurrency(mut self, calls: u64) -> DispatchBuilder {
        self.concurrency = calls;
        self
    }

    /// How many calls may be in flight while throttled; 10 unless stated, or all that may be if they are fewer.
    pub fn throttled_concurrency(mut self, calls: u64) -> DispatchBuilder {
        self.throttled_concurrency = Some(calls);
        self
    }

    /// How many bytes may be in flight; 5 MiB unless stated.
    pub fn byte_budget(mut self, bytes: u64) -> DispatchBuilder {
        self.byte_budget = bytes;
        self
    }

    /// How long calls stay throttled after a window has passed; 10 s unless stated.
    pub fn backoff_window(mut self, span: Duration) -> DispatchBuilder {
        self.backoff_window = span;
        self
    }

    /// How many times bytes count while throttled; 20 unless stated.
    pub fn byte_penalty_multiplier(mut self, times: u16) -> DispatchBuilder {
        self.byte_penalty_multiplier = times;
        self
    }

    /// The dispatch: the one that has this key, if there is one already.
    ///
    /// ```
    /// use tidegate::{BackoffWindow, Dispatch};
    ///
    /// let limiter = BackoffWindow::for_key("api");
    /// let error = Dispatch::builder(limiter).concurrency(0).build().unwrap_err();
    /// assert_eq!(error.to_string(), "`concurrency` is 0: use at least 1");
    /// ```
    ///
    /// # Errors
    /// If a number cannot be, or if there is a dispatch with this key that was built with others.
    pub fn build(self) -> Result<Dispatch, DispatchError> {
        let (key, settings) = self.checked()?;
        let made = Layers::new(key.clone(), settings.clone());
        let Some(key) = key else { return Ok(Dispatch(made)) };
        let entered = BY_KEY.enter(&key, &made);
        if !Arc::ptr_eq(&entered, &made)
            && let Some(field) = settings.first_difference(entered.settings())
        {
            return Err(DispatchError::Differs { key, field });
        }
        Ok(Dispatch(entered))
    }

    fn checked(self) -> Result<(Option<Key>, Settings), DispatchError> {
        let concurrency = self.concurrency;
        let throttled = self.throttled_concurrency.unwrap_or(THROTTLED.min(concurrency));
        let fields = [
            ("concurrency", concurrency),
            ("throttled_concurrency", throttled),
            ("byte_budget", self.byte_budget),
            ("byte_penalty_multiplier", self.byte_penalty_multiplier.into()),
        ];
        for (field, value) in fields {
            let expected = match value {
                0 => "use at least 1",
                value if value > MAX_UNITS => "use at most 2^63",
                _ => continue,
            };
            return Err(DispatchError::Invalid { field, value, expected });
        }
        if throttled > concurrency {
            return Err(DispatchError::ThrottledAboveNormal { throttled, concurrency });
        }
        let settings = Settings {
            limiter: self.limiter,
            concurrency,
            throttled_concurrency: throttled,
            byte_budget: self.byte_budget,
            backoff_window: self.backoff_window,
            byte_penalty_multiplier: self.byte_penalty_multiplier,
        };
        Ok((self.key, settings))
    }
}
