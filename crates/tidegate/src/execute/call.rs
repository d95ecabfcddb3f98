//! A call that is made on the caller's behalf, as the caller sets it up and awaits it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::Call;
use tidegate_core::retry::RetryPolicy;
use tokio::time::Instant;

use super::attempt::Attempt;
use super::drive::Drive;
use super::ends::{ExecuteError, Report};
use super::progress::{Progress, ProgressStream};
use crate::gate::Shared;
use crate::outcome::Outcome;

/// A call that is made on the caller's behalf; made by [`Gate::execute`](crate::Gate::execute).
///
/// It is a future, which needs a tokio runtime to wait between attempts; without one there is
/// [`block`](Execute::block). Dropping it is always safe: see [`Gate::execute`](crate::Gate::execute).
#[must_use = "nothing happens until it is awaited"]
pub struct Execute<'a, T, E, F, Fut>(Drive<'a, T, E, F, Fut>);

/// A call whose result has a [`Report`]; made by [`Execute::with_report`].
#[must_use = "nothing happens until it is awaited"]
pub struct Reported<'a, T, E, F, Fut>(Execute<'a, T, E, F, Fut>);

impl<T, E, F, Fut> Execute<'_, T, E, F, Fut>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    E: 'static,
{
    pub(super) fn new(gate: Arc<Shared>, call: Call, op: F) -> Self {
        Execute(Drive::new(gate, call, op))
    }

    /// Makes the call in this thread, which needs no runtime unless the caller's own future does.
    ///
    /// # Errors
    /// As [`Gate::execute`](crate::Gate::execute).
    pub fn block(self) -> Result<T, ExecuteError<E>> {
        self.with_report().block().map(|report| report.value)
    }
}

impl<'a, T, E, F, Fut> Execute<'a, T, E, F, Fut> {
    /// Tells how the call stands: once before each wait, in the queue or between attempts, and about once a
    /// second while it lasts. A listener that panics is told no more, and the call goes on.
    pub fn on_progress(mut self, listener: impl FnMut(&Progress) + Send + 'a) -> Self {
        self.0.settings.listeners.add(listener);
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
        self.0.settings.listeners.stream()
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
        self.0.settings.classify = Some(Box::new(outcome_of));
        self
    }

    /// Whether the call may be made again though it may have been done already. Unless this says so, only a call
    /// may whose [endpoint](Call::endpoint) begins with `GET`, `HEAD`, `PUT` or `DELETE`, or is one of generation
    /// or embedding of the service's preset. What was turned away or never got there may be made again in any
    /// case.
    pub fn repeatable(mut self, repeatable: bool) -> Self {
        self.0.settings.repeatable = Some(repeatable);
        self
    }

    /// Whether attempts are to know which limit held them; see [`Attempt::held_by`](super::Attempt::held_by). It is
    /// looked up when a call begins to wait, and so costs nothing to those that do not.
    pub fn name_limits(mut self, name: bool) -> Self {
        self.0.settings.name_limits = name;
        self
    }

    /// Other rules than the service's. The budget stays the service's: it is shared by all its calls.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.0.settings.policy = Some(policy);
        self
    }

    /// How long after its start the call may still be made again. Delays are cut short to that; an attempt that
    /// runs is not.
    pub fn max_elapsed(mut self, span: Duration) -> Self {
        self.0.settings.max_elapsed = Some(span);
        self
    }

    /// Until when the call may wait: a [`std::time::Instant`] or one of tokio's. Its
    /// [timeout](Call::timeout) bounds how long it waits in all, whatever the time; both hold.
    pub fn deadline(mut self, deadline: impl Into<Instant>) -> Self {
        self.0.settings.deadline = Some(deadline.into());
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

// The caller's future is boxed, and nothing else here is ever pinned.
impl<T, E, F, Fut> Unpin for Execute<'_, T, E, F, Fut> {}

impl<T, E, F, Fut> Future for Execute<'_, T, E, F, Fut>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    E: 'static,
{
    type Output = Result<T, ExecuteError<E>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context).map_ok(|report| report.value)
    }
}

impl<T, E, F, Fut> Reported<'_, T, E, F, Fut>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    E: 'static,
{
    /// As [`Execute::block`].
    ///
    /// # Errors
    /// As [`Gate::execute`](crate::Gate::execute).
    pub fn block(mut self) -> Result<Report<T>, ExecuteError<E>> {
        self.0.0.block()
    }
}

impl<T, E, F, Fut> Future for Reported<'_, T, E, F, Fut>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    E: 'static,
{
    type Output = Result<Report<T>, ExecuteError<E>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.0.poll(context)
    }
}

impl<T, E, F, Fut> fmt::Debug for Execute<'_, T, E, F, Fut> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T, E, F, Fut> fmt::Debug for Reported<'_, T, E, F, Fut> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reported").field(&self.0).finish()
    }
}
