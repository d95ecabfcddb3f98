//! What a waiting call tells of itself.
//!
//! Once before each wait, and about once a second while it lasts: in the queue for a permit as well as between
//! two attempts. A listener is foreign code. It is called without any lock, and one that panics is heard no more
//! while the call goes on. Where nobody listens nothing is looked at, and nobody is woken.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc;

/// How a waiting call stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The attempt that is waited for; 1 is the first.
    pub attempt: u32,
    /// How long this wait is, from its beginning to its expected end; unknown if the call waits for a slot.
    pub delay: Option<Duration>,
    /// How much of that is still to come.
    pub expected_wait: Option<Duration>,
    /// What is left of the tightest rate on the call's way; unknown if nothing but slots bounds it.
    pub tokens_left: Option<u64>,
    /// What it waits for in the queue, by its name: a limit or a backoff window. Nothing between two attempts.
    pub limit: Option<Arc<str>>,
    /// Where it stands in that queue, 1 for the next to go.
    pub position: Option<usize>,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {}", self.attempt)?;
        match self.expected_wait {
            Some(wait) => write!(f, " in {:.1}s", wait.as_secs_f64())?,
            None => f.write_str(" as soon as a slot is free")?,
        }
        if let (Some(position), Some(limit)) = (self.position, &self.limit) {
            write!(f, ", number {position} in line at `{limit}`")?;
        }
        match self.tokens_left {
            Some(left) => write!(f, ", {left} left"),
            None => Ok(()),
        }
    }
}

/// Those who want to know.
#[derive(Default)]
pub(super) struct Listeners<'a>(Vec<Listener<'a>>);

type Listener<'a> = Box<dyn FnMut(&Progress) + Send + 'a>;

impl<'a> Listeners<'a> {
    pub fn add(&mut self, listener: impl FnMut(&Progress) + Send + 'a) {
        self.0.push(Box::new(listener));
    }

    pub fn stream(&mut self) -> ProgressStream {
        // A reader that is this far behind is not told what it missed: the next one says it all again.
        let (told, receiver) = mpsc::channel(16);
        self.add(move |progress| drop(told.try_send(progress.clone())));
        ProgressStream { receiver }
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn tell(&mut self, progress: &Progress) {
        self.0.retain_mut(|listener| catch_unwind(AssertUnwindSafe(|| listener(progress))).is_ok());
    }
}

impl fmt::Debug for Listeners<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} listeners", self.0.len())
    }
}

/// The progress of a call as a stream, which ends with the call; made by
/// [`Execute::progress`](super::Execute::progress).
#[derive(Debug)]
pub struct ProgressStream {
    receiver: mpsc::Receiver<Progress>,
}

impl ProgressStream {
    /// What is told next; nothing once the call has ended.
    pub async fn next(&mut self) -> Option<Progress> {
        self.receiver.recv().await
    }
}

impl futures_core::Stream for ProgressStream {
    type Item = Progress;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Progress>> {
        self.receiver.poll_recv(context)
    }
}
