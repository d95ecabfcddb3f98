//! Backoff windows: after a 429, everybody who shares the key waits until the upstream wants to hear from it
//! again.
//!
//! A [`BackoffWindow`] is one deadline, shared by all who name its key. Setting it only ever extends it,
//! clearing it wakes whoever waits, and when it has passed the waiters are let go at a pace and not as a
//! herd.
//!
//! ```text
//!  BackoffWindow ──► registry ──► window ──► line
//!  a handle          by key       deadline    who waits, in order of arrival, and when each may go
//! ```
//!
//! Parts of this crate may watch a window, and are told when anybody sets or clears it (`watchers.rs`).
//!
//! What can interleave is told at the top of `window.rs` (setting, waiting, clearing, dropping, watching) and of
//! `registry.rs` (finding, making, forgetting).

mod atomic_deadline;
mod key;
mod line;
mod process_clock;
mod registry;
mod shelf;
mod wait;
mod watchers;
mod window;

#[cfg(test)]
mod races;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

pub use key::Key;
pub use registry::Registry;
pub use wait::Wait;

pub(crate) use watchers::{Followed, News, Watch};

use registry::Member;
use tidegate_core::Nanos;

/// A shared time to stay away from an upstream: all who have the window of one key wait until it has passed.
///
/// Clones share one window. It is on tokio's clock, and follows it where that is paused.
///
/// ```
/// use std::time::Duration;
/// use tidegate::BackoffWindow;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
/// let limiter = BackoffWindow::for_key("openai_api");
/// limiter.set(Duration::from_secs(30));
/// limiter.set(Duration::from_secs(5)); // ignored: 30 s are longer
///
/// let elsewhere = BackoffWindow::for_key("openai_api");
/// assert!(elsewhere.should_backoff());
/// assert_eq!(elsewhere.remaining(), Duration::from_secs(30));
///
/// elsewhere.wait().await;
/// assert!(!limiter.should_backoff());
/// # }
/// ```
#[derive(Clone)]
pub struct BackoffWindow(Arc<Member>);

impl BackoffWindow {
    /// The window of that key, in the registry of the process: the same one for everybody who asks.
    #[must_use]
    pub fn for_key(key: impl Into<Key>) -> BackoffWindow {
        Registry::of_process().for_key(key)
    }

    /// The key it is kept under.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.0.key
    }

    /// Opens the window for so long from now, or extends it. It never shortens one, and no time at all is
    /// nothing.
    ///
    /// A time beyond the clock's range is as far as that goes, which is hundreds of years.
    pub fn set(&self, span: Duration) {
        self.0.set(span, process_clock::now());
    }

    /// Whether the window is open: strictly before its deadline.
    #[inline]
    #[must_use]
    pub fn should_backoff(&self) -> bool {
        let deadline = self.0.window.deadline();
        // Most windows have never been opened, and those need no clock to tell.
        deadline > Nanos::ZERO && process_clock::now() < deadline
    }

    /// How long the window is still open: zero if it is not.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.window.deadline().since(process_clock::now())
    }

    /// Waits until the window has passed, extensions included, and it is this caller's turn.
    ///
    /// The first goes exactly at the deadline, or at [`clear`](BackoffWindow::clear), and the others in order
    /// of arrival 5 ms apart, or closer where more than 201 wait: within a second all of them are gone.
    /// Whoever comes meanwhile goes behind them. If nobody waits and the window is not open, that is at once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::Registry;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
    /// let limiter = Registry::new().for_key("api");
    /// limiter.set(Duration::from_millis(100));
    /// let start = tokio::time::Instant::now();
    /// let gone = |limiter: tidegate::BackoffWindow| async move {
    ///     limiter.wait().await;
    ///     start.elapsed().as_millis()
    /// };
    /// assert_eq!(tokio::join!(gone(limiter.clone()), gone(limiter)), (100, 105));
    /// # }
    /// ```
    ///
    /// # Panics
    /// If it has to wait, and is not inside a tokio runtime with time enabled. Threads without one use
    /// [`wait_blocking`](BackoffWindow::wait_blocking).
    pub fn wait(&self) -> Wait {
        wait::wait(self.clone())
    }

    /// The same for threads without a runtime: blocks until it may go. It stands in one line with those who
    /// await.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tidegate::Registry;
    ///
    /// let limiter = Registry::new().for_key("api");
    /// let start = Instant::now();
    /// limiter.set(Duration::from_millis(20));
    /// limiter.wait_blocking();
    /// assert!(start.elapsed() >= Duration::from_millis(20));
    /// ```
    pub fn wait_blocking(&self) {
        wait::wait_blocking(self.clone());
    }

    /// Ends the window and lets its waiters go, the first at once. Does nothing if it is not open.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::Registry;
    ///
    /// let limiter = Registry::new().for_key("api");
    /// limiter.set(Duration::from_secs(30));
    /// limiter.clear();
    /// assert!(!limiter.should_backoff());
    /// ```
    pub fn clear(&self) {
        self.0.window.clear(process_clock::now);
    }

    /// From now on the watcher is told when anybody extends or clears the window. What was before, it finds by
    /// [`follow`](BackoffWindow::follow) after this.
    pub(crate) fn watch(&self, watcher: Weak<dyn Watch>) {
        self.0.window.watch(watcher);
    }

    /// What became of the window since the last look.
    pub(crate) fn follow(&self, followed: &mut Followed) -> News {
        self.0.window.follow(followed, process_clock::now)
    }
}

/// Two are equal if they are the same window.
impl PartialEq for BackoffWindow {
    fn eq(&self, other: &BackoffWindow) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for BackoffWindow {}

impl fmt::Debug for BackoffWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackoffWindow")
            .field("key", self.key())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
