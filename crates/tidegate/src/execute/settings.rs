//! What a caller may say about one call, beyond what the config says about all of them.

use std::time::Duration;

use tidegate_core::Call;
use tidegate_core::retry::{RetryPolicy, is_repeatable};
use tokio::time::Instant;

use super::drive::{Execute, Reported};
use super::progress::{Listeners, Progress, ProgressStream};
use crate::outcome::Outcome;
use crate::rules::Rules;

pub(super) struct Settings<'a, E> {
    pub policy: Option<RetryPolicy>,
    pub repeatable: Option<bool>,
    pub max_elapsed: Option<Duration>,
    pub deadline: Option<Instant>,
    pub classify: Option<Classify<'a, E>>,
    pub listeners: Listeners<'a>,
    /// Whether attempts are told what held them.
    pub name_limits: bool,
}

type Classify<'a, E> = Box<dyn FnMut(&E) -> Outcome + Send + 'a>;

impl<E> Default for Settings<'_, E> {
    fn default() -> Self {
        Settings {
            policy: None,
            repeatable: None,
            max_elapsed: None,
            deadline: None,
            classify: None,
            listeners: Listeners::default(),
            name_limits: false,
        }
    }
}

impl<E> Settings<'_, E> {
    /// Whether the call may be made again though it may have been done already.
    pub fn is_repeatable(&self, call: &Call, rules: &Rules) -> bool {
        let by_endpoint = |endpoint: &str| {
            let method = endpoint.split(' ').next().unwrap_or_default();
            is_repeatable(method, false, rules.repeats(rules.service(call), endpoint))
        };
        self.repeatable.unwrap_or_else(|| call.stated_endpoint().is_some_and(by_endpoint))
    }
}

impl<'a, T, E, F, Fut> Execute<'a, T, E, F, Fut> {
    /// Tells how the call stands: once before each wait, in the queue or between attempts, and about once a
    /// second while it lasts. A listener that panics is told no more, and the call goes on.
    pub fn on_progress(mut self, listener: impl FnMut(&Progress) + Send + 'a) -> Self {
        self.settings.listeners.add(listener);
        self
    }

    /// The same as a stream, which ends with the call.
    ///
    /// ```
    /// # use tidegate::{Call, Gate, Outcome, RateLimitConfig};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let gate = Gate::simple(RateLimitConfig::default())?;
    /// let mut call = gate.execute(Call::default(), |attempt| async move {
    ///     if attempt.is_retry() { Ok("done") } else { Err(Outcome::refused().because("too fast")) }
    /// });
    /// let mut progress = call.progress();
    /// let watch = async {
    ///     let mut told = 0;
    ///     while let Some(progress) = progress.next().await {
    ///         println!("{progress}");
    ///         told += 1;
    ///     }
    ///     told
    /// };
    /// let (result, told) = tokio::join!(call, watch);
    /// assert_eq!((result?, told > 0), ("done", true));
    /// # Ok(())
    /// # }
    /// ```
    pub fn progress(&mut self) -> ProgressStream {
        self.settings.listeners.stream()
    }

    /// Says what an error means, where the attempt itself did not [report](super::Attempt::report) it.
    ///
    /// ```
    /// # use tidegate::{Call, Gate, Outcome, RateLimitConfig};
    /// #[derive(Debug, PartialEq)]
    /// enum ApiError {
    ///     TooManyCalls,
    ///     NoSuchThing,
    /// }
    /// impl ApiError {
    ///     fn outcome(&self) -> Outcome {
    ///         match self {
    ///             ApiError::TooManyCalls => Outcome::refused(),
    ///             ApiError::NoSuchThing => Outcome::done(),
    ///         }
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let gate = Gate::simple(RateLimitConfig::default())?;
    /// let mut errors = vec![ApiError::NoSuchThing, ApiError::TooManyCalls];
    /// let call = gate.execute(Call::default(), |_| {
    ///     let error = errors.pop();
    ///     async { error.map_or(Ok(()), Err) }
    /// });
    /// let error = call.classify(ApiError::outcome).await.unwrap_err();
    /// assert_eq!(error.into_inner(), Some(ApiError::NoSuchThing), "the first was worth another attempt");
    /// # Ok(())
    /// # }
    /// ```
    pub fn classify(mut self, outcome_of: impl FnMut(&E) -> Outcome + Send + 'a) -> Self {
        self.settings.classify = Some(Box::new(outcome_of));
        self
    }

    /// Whether the call may be made again though it may have been done already. Unless this says so, only a call
    /// may whose [endpoint](Call::endpoint) begins with `GET`, `HEAD`, `PUT` or `DELETE`, or is one of generation
    /// or embedding of the service's preset. What was turned away or never got there may be made again in any
    /// case.
    pub fn repeatable(mut self, repeatable: bool) -> Self {
        self.settings.repeatable = Some(repeatable);
        self
    }

    /// Whether attempts are to know which limit held them; see [`Attempt::held_by`](super::Attempt::held_by). It is
    /// looked up when a call begins to wait, and so costs nothing to those that do not.
    pub fn name_limits(mut self, name: bool) -> Self {
        self.settings.name_limits = name;
        self
    }

    /// Other rules than the service's. The budget stays the service's: it is shared by all its calls.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.settings.policy = Some(policy);
        self
    }

    /// How long after its start the call may still be made again. Delays are cut short to that; an attempt that
    /// runs is not.
    pub fn max_elapsed(mut self, span: Duration) -> Self {
        self.settings.max_elapsed = Some(span);
        self
    }

    /// Until when the call may wait: a [`std::time::Instant`] or one of tokio's. Its
    /// [timeout](Call::timeout) bounds how long it waits in all, whatever the time; both hold.
    pub fn deadline(mut self, deadline: impl Into<Instant>) -> Self {
        self.settings.deadline = Some(deadline.into());
        self
    }

    /// Also gives how often the call was made and how long it waited.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Call, Gate, Outcome, RateLimitConfig};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let gate = Gate::simple(RateLimitConfig::default())?;
    /// let call = gate.execute(Call::default(), |attempt| async move {
    ///     if attempt.is_retry() { Ok("done") } else { Err(Outcome::refused().because("too fast")) }
    /// });
    /// let report = call.with_report().await?;
    /// assert_eq!((report.value, report.attempts), ("done", 2));
    /// assert!(report.waited >= Duration::from_millis(900));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_report(self) -> Reported<'a, T, E, F, Fut> {
        Reported(self)
    }
}
