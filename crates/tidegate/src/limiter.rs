//! What every limiter can do, and what it says when it refuses.
//!
//! [`RateLimiter`] is for code that does not want to know which limiter it was given: it is object-safe, so a
//! `Box<dyn RateLimiter>` or an `Arc<dyn RateLimiter>` can be kept anywhere. Nothing in it waits. Whoever
//! wants to wait in a queue, by rank, wants a gate.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

/// Takes units from a quota, all of them or none.
///
/// It can be implemented for a quota of your own, with [`tidegate::async_trait`](macro@crate::async_trait):
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tidegate::{RateLimitError, RateLimiter, SlidingWindow, TokenBucket, async_trait};
///
/// /// Passes what passes both.
/// struct Both(TokenBucket, SlidingWindow);
///
/// #[async_trait]
/// impl RateLimiter for Both {
///     async fn check_and_consume(&self, tokens: u64) -> Result<(), RateLimitError> {
///         self.0.check_and_consume(tokens).await?;
///         self.1.check_and_consume(tokens).await.inspect_err(|_| self.0.put_back(tokens))
///     }
///     async fn try_consume(&self, tokens: u64) -> bool {
///         self.check_and_consume(tokens).await.is_ok()
///     }
///     fn available_tokens(&self) -> u64 {
///         self.0.available().min(self.1.available())
///     }
///     fn reset_time(&self) -> Option<SystemTime> {
///         self.0.reset_time().max(self.1.reset_time())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tidegate::InvalidLimit> {
/// let minute = Duration::from_secs(60);
/// let limiters: Vec<Box<dyn RateLimiter>> = vec![
///     Box::new(TokenBucket::new(10, 10, minute)?),
///     Box::new(Both(TokenBucket::new(10, 10, minute)?, SlidingWindow::new(5, minute)?)),
/// ];
/// assert!(limiters[0].try_consume(6).await);
/// assert!(!limiters[1].try_consume(6).await);
/// assert_eq!(limiters[1].available_tokens(), 5);
/// # Ok(()) }
/// ```
#[async_trait]
pub trait RateLimiter: Send + Sync {
    /// Takes `tokens` units if all of them are there.
    ///
    /// # Errors
    /// If they are not; nothing is taken then, and the error says when to come back. Does not wait.
    async fn check_and_consume(&self, tokens: u64) -> Result<(), RateLimitError>;

    /// Takes `tokens` units if all of them are there, and says whether it did. Does not wait.
    async fn try_consume(&self, tokens: u64) -> bool;

    /// How many units are there to take now.
    fn available_tokens(&self) -> u64;

    /// When all that was taken will be back, if nothing more is taken; `None` if nothing is missing, or if that
    /// is later than the system's calendar reaches.
    fn reset_time(&self) -> Option<SystemTime>;
}

/// A handle to a limiter is a limiter.
macro_rules! limit_through {
    ($($handle:ty),*) => {$(
        #[async_trait]
        impl<T: RateLimiter + ?Sized> RateLimiter for $handle {
            async fn check_and_consume(&self, tokens: u64) -> Result<(), RateLimitError> {
                (**self).check_and_consume(tokens).await
            }

            async fn try_consume(&self, tokens: u64) -> bool {
                (**self).try_consume(tokens).await
            }

            fn available_tokens(&self) -> u64 {
                (**self).available_tokens()
            }

            fn reset_time(&self) -> Option<SystemTime> {
                (**self).reset_time()
            }
        }
    )*};
}

limit_through!(Box<T>, Arc<T>);

/// Why a limiter gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RateLimitError {
    /// Not now: it fits after `wait`, if nobody else takes the units first.
    #[error("{limit}: {cost} units do not fit now, come back in {wait:?}")]
    #[non_exhaustive]
    Exhausted {
        /// The name of the limit.
        limit: Arc<str>,
        /// How many units were asked for.
        cost: u64,
        /// How long until that many are there. Never zero.
        wait: Duration,
        /// When the limit is whole again.
        reset: Option<SystemTime>,
    },
    /// Never: it is more than the limit ever holds. Waiting does not help, a smaller cost does.
    #[error("{limit}: {cost} units can never fit, the limit holds {capacity} at most")]
    #[non_exhaustive]
    TooLarge {
        /// The name of the limit.
        limit: Arc<str>,
        /// How many units were asked for.
        cost: u64,
        /// How many there can be.
        capacity: u64,
    },
}

impl RateLimitError {
    /// A refusal for now; for limiters of your own.
    ///
    /// A `wait` of zero becomes one nanosecond: it was refused, so the time is not now, and a caller that
    /// sleeps for it must not spin.
    #[must_use]
    pub fn exhausted(
        limit: impl Into<Arc<str>>,
        cost: u64,
        wait: Duration,
        reset: Option<SystemTime>,
    ) -> RateLimitError {
        let wait = wait.max(Duration::from_nanos(1));
        RateLimitError::Exhausted { limit: limit.into(), cost, wait, reset }
    }

    /// A refusal for ever; for limiters of your own.
    #[must_use]
    pub fn too_large(limit: impl Into<Arc<str>>, cost: u64, capacity: u64) -> RateLimitError {
        RateLimitError::TooLarge { limit: limit.into(), cost, capacity }
    }

    /// The name of the limit that refused.
    #[must_use]
    pub fn limit(&self) -> &str {
        match self {
            RateLimitError::Exhausted { limit, .. } | RateLimitError::TooLarge { limit, .. } => limit,
        }
    }

    /// How long until it would fit; `None` if it never does.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        match self {
            RateLimitError::Exhausted { wait, .. } => Some(*wait),
            RateLimitError::TooLarge { .. } => None,
        }
    }

    /// When the limit is whole again, where that is known.
    #[must_use]
    pub fn reset(&self) -> Option<SystemTime> {
        match self {
            RateLimitError::Exhausted { reset, .. } => *reset,
            RateLimitError::TooLarge { .. } => None,
        }
    }
}

/// A limiter cannot be made from these numbers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` cannot be {value}: {why}")]
#[non_exhaustive]
pub struct InvalidLimit {
    /// The parameter that is wrong, by its name.
    pub field: &'static str,
    /// What was given.
    pub value: String,
    /// What is wrong with it, and what to use.
    pub why: &'static str,
}

impl InvalidLimit {
    pub(crate) fn new(field: &'static str, value: impl ToString, why: &'static str) -> InvalidLimit {
        InvalidLimit { field, value: value.to_string(), why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_which_limit_and_when_to_come_back() {
        let error = RateLimitError::exhausted("search", 3, Duration::from_millis(1500), None);
        assert_eq!(error.to_string(), "search: 3 units do not fit now, come back in 1.5s");
        assert_eq!((error.limit(), error.wait()), ("search", Some(Duration::from_millis(1500))));
    }

    #[test]
    fn a_cost_that_never_fits_has_no_time_to_come_back() {
        let error = RateLimitError::too_large("search", 11, 10);
        assert_eq!(error.to_string(), "search: 11 units can never fit, the limit holds 10 at most");
        assert_eq!((error.wait(), error.reset()), (None, None));
    }

    #[test]
    fn no_refusal_asks_to_come_back_at_once() {
        let error = RateLimitError::exhausted("search", 1, Duration::ZERO, None);
        assert!(error.wait() > Some(Duration::ZERO));
    }
}
