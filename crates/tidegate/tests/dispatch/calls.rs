//! Calls of a dispatch that a test holds in flight for as long as it likes.

use std::time::Duration;

use tidegate::{BackoffWindow, Dispatch, DispatchBuilder, Registry};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub const MS: Duration = Duration::from_millis(1);

pub fn limiter() -> BackoffWindow {
    Registry::new().for_key("api")
}

pub fn dispatch(with: impl FnOnce(DispatchBuilder) -> DispatchBuilder) -> Dispatch {
    with(Dispatch::builder(limiter())).build().unwrap()
}

/// What is in flight: calls, throttled calls, bytes.
pub fn counts(dispatch: &Dispatch) -> (u64, u64, u64) {
    let snapshot = dispatch.snapshot();
    (snapshot.concurrency.in_use, snapshot.throttled_concurrency.in_use, snapshot.bytes.in_use)
}

/// Lets everything happen that needs no time.
pub async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

/// A call that is in flight until it is told to end.
pub struct Held {
    task: Option<JoinHandle<()>>,
    end: watch::Sender<bool>,
    in_flight: watch::Receiver<bool>,
}

impl Held {
    pub fn start(dispatch: &Dispatch, bytes: usize) -> Held {
        let (end, mut ended) = watch::channel(false);
        let (entered, in_flight) = watch::channel(false);
        let dispatch = dispatch.clone();
        let task = tokio::spawn(async move {
            let call = || async move {
                entered.send_replace(true);
                ended.wait_for(|ended| *ended).await.unwrap();
            };
            dispatch.with_rate_limit(bytes, call).await;
        });
        Held { task: Some(task), end, in_flight }
    }

    pub fn is_in_flight(&self) -> bool {
        *self.in_flight.borrow()
    }

    pub async fn end(mut self) {
        self.finish().await;
    }

    /// Ends it; does nothing if it has ended.
    pub async fn finish(&mut self) {
        self.end.send_replace(true);
        if let Some(task) = self.task.take() {
            task.await.unwrap();
        }
    }

    /// Drops it where it stands.
    pub async fn abort(mut self) {
        let task = self.task.take().unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    }
}

/// A call that is in flight.
pub async fn hold(dispatch: &Dispatch, bytes: usize) -> Held {
    let mut held = Held::start(dispatch, bytes);
    held.in_flight.wait_for(|in_flight| *in_flight).await.unwrap();
    held
}
