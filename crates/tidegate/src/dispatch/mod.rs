//! Dispatch: three layers around calls in flight, which tighten after a 429.
//!
//! A [`Dispatch`] lets so many calls, and so many bytes, be in flight at once. While its backoff window is open,
//! and for a time after that, a call takes a place in a second, much smaller layer too, and its bytes count
//! several times. Nobody is put to sleep for the window's length: calls go on, a few at a time.
//!
//! ```text
//!  with_rate_limit ──► a gate with one service: concurrency, throttled concurrency, byte budget
//!                            ▲ throttled or not, judged when a call is let go
//!  set_backoff ──► BackoffWindow ──► followed by every dispatch on it, whoever sets it
//! ```
//!
//! It is the [`Gate`](crate::Gate)'s own queue that calls wait in: a call takes all of its layers at once or
//! none, nothing polls, and whoever leaves, in whatever way, leaves nothing behind.

mod builder;
mod by_key;
mod layers;
mod settings;
mod snapshot;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

pub use builder::{DispatchBuilder, DispatchError};
pub use snapshot::{DispatchSnapshot, Layer};

use crate::backoff::{BackoffWindow, Key};
use crate::refused::Refused;
use layers::{BY_KEY, Layers};

/// Bounds the calls in flight to an upstream, and tightens the bounds after a 429. Clones are the same dispatch.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{BackoffWindow, Dispatch};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), tidegate::DispatchError> {
/// let dispatch = Dispatch::builder(BackoffWindow::for_key("my_api"))
///     .key("my_api")
///     .concurrency(100)
///     .throttled_concurrency(5)
///     .byte_budget(5_000_000)
///     .build()?;
///
/// let body = b"hello";
/// let status = dispatch.with_rate_limit(body.len(), || async { 429 }).await;
/// if status == 429 {
///     dispatch.set_backoff(Duration::from_secs(30));
/// }
/// assert!(dispatch.snapshot().backoff_active);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Dispatch(Arc<Layers>);

impl Dispatch {
    /// A dispatch that is throttled while that window is open and for a time after it.
    pub fn builder(limiter: BackoffWindow) -> DispatchBuilder {
        DispatchBuilder::new(limiter)
    }

    /// The dispatch that was built with that key, wherever in the process that was. It is known as long as
    /// anybody has it.
    ///
    /// ```
    /// use tidegate::{BackoffWindow, Dispatch};
    ///
    /// let built = Dispatch::builder(BackoffWindow::for_key("uploads")).key("uploads").build()?;
    /// let found = Dispatch::named("uploads")?;
    /// assert_eq!(found, built);
    /// assert!(Dispatch::named("downloads").is_err());
    /// # Ok::<(), tidegate::DispatchError>(())
    /// ```
    ///
    /// # Errors
    /// If nobody has a dispatch with that key.
    pub fn named(key: impl Into<Key>) -> Result<Dispatch, DispatchError> {
        let key = key.into();
        BY_KEY.find(&key).map(Dispatch).ok_or(DispatchError::Unknown { key })
    }

    /// Makes a call of so many bytes as soon as there is room for it, and returns what it returned.
    ///
    /// It waits as long as that takes, and is in flight until its future is done, has panicked or is dropped.
    /// A body larger than the whole budget goes too, when the budget is not overdrawn.
    pub async fn with_rate_limit<F: Future>(&self, bytes: usize, call: impl FnOnce() -> F) -> F::Output {
        let _permit = self.0.enter(bytes).await;
        call().await
    }

    /// The same, if there is room within so much time; no time at all means now or not at all. How long the
    /// call itself takes is not bounded.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Dispatch, Registry};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), tidegate::DispatchError> {
    /// let limiter = Registry::new().for_key("api");
    /// let dispatch = Dispatch::builder(limiter).concurrency(1).build()?;
    /// let nested = || dispatch.with_rate_limit_within(Duration::from_secs(1), 10, || async { "went" });
    /// let refused = dispatch.with_rate_limit(10, nested).await.unwrap_err();
    /// assert_eq!(refused.limit(), Some("dispatch/concurrency"));
    /// assert_eq!(nested().await.as_ref(), Ok(&"went"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The layer that had no room. The call was not made.
    pub async fn with_rate_limit_within<F: Future>(
        &self,
        timeout: Duration,
        bytes: usize,
        call: impl FnOnce() -> F,
    ) -> Result<F::Output, Refused> {
        let _permit = self.0.enter_within(bytes, timeout).await?;
        Ok(call().await)
    }

    /// [`with_rate_limit`](Dispatch::with_rate_limit) for threads without a runtime. They wait in one queue
    /// with those who await.
    ///
    /// ```
    /// use tidegate::{Dispatch, Registry};
    ///
    /// let dispatch = Dispatch::builder(Registry::new().for_key("api")).build()?;
    /// assert_eq!(dispatch.with_rate_limit_blocking(10, || "done"), "done");
    /// # Ok::<(), tidegate::DispatchError>(())
    /// ```
    pub fn with_rate_limit_blocking<T>(&self, bytes: usize, call: impl FnOnce() -> T) -> T {
        let _permit = self.0.enter_blocking(bytes);
        call()
    }

    /// The upstream wants to be left alone for so long: opens or extends the shared window, for everybody who
    /// has it. From now on calls go throttled, those included that wait already, for the window and for
    /// [`backoff_window`](DispatchBuilder::backoff_window) after its end. The later end always wins.
    pub fn set_backoff(&self, span: Duration) {
        self.0.set_backoff(span);
    }

    /// Ends the shared window, for everybody who has it, and the throttled time after it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Dispatch, Registry};
    ///
    /// let dispatch = Dispatch::builder(Registry::new().for_key("api")).build()?;
    /// dispatch.set_backoff(Duration::from_secs(30));
    /// dispatch.clear_backoff();
    /// assert!(!dispatch.snapshot().backoff_active);
    /// # Ok::<(), tidegate::DispatchError>(())
    /// ```
    pub fn clear_backoff(&self) {
        self.0.clear_backoff();
    }

    /// How it stands: all of it at one moment.
    #[must_use]
    pub fn snapshot(&self) -> DispatchSnapshot {
        self.0.snapshot()
    }

    /// What it can be found by, if it was given a key.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        self.0.key()
    }

    /// The window that it shares.
    #[must_use]
    pub fn limiter(&self) -> &BackoffWindow {
        self.0.limiter()
    }
}

/// Two are equal if they are the same dispatch.
impl PartialEq for Dispatch {
    fn eq(&self, other: &Dispatch) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Dispatch {}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatch").field("key", &self.key()).field("snapshot", &self.snapshot()).finish()
    }
}
