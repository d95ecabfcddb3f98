//! Idle connections of clients, and which of them to close when there is no room for a new one.
//!
//! A connection that is kept alive between calls holds a file descriptor. When descriptors or places are short, the ones that
//! have been idle for longest are closed: HTTP lets a server do so at any time, and clients connect again. A connection is
//! idle while none of its calls waits for an answer and no reply is being sent on it.
//!
//! When the sidecar stops, a connection without a call has nothing to wait for and is closed: see [`Activity::unused`].

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::body::{Body, BoxError};
use crate::descriptors::ConnectionHolder;

/// A connection that was used this recently is kept: its client may be about to use it again.
const RECENT: Duration = Duration::from_millis(50);
/// One part of this many of the idle connections is closed at once, so that the search for the oldest is not made for each
/// new connection.
const PART: usize = 16;

/// A connection that has carried no call is closed this long after the sidecar began to stop. A head that is on its way has
/// this time to arrive.
const NO_CALL: Duration = Duration::from_secs(1);
/// A connection that has carried calls is closed if nothing was written to it for this long after the last one. The end of
/// a reply may still wait for its client.
const NO_WRITE: Duration = Duration::from_secs(2);

/// All open connections.
#[derive(Debug)]
pub(super) struct Connections {
    began: Instant,
    open: Mutex<HashMap<u64, Arc<Activity>>>,
    next: AtomicU64,
}

/// The activity of one connection.
#[derive(Debug)]
pub(super) struct Activity {
    began: Instant,
    /// Calls that wait for an answer or whose reply is being sent.
    calls: AtomicUsize,
    /// Whether a reply of an upstream was ever sent.
    carried: AtomicBool,
    /// How often something was written.
    writes: AtomicU64,
    /// When the last reply was sent, in milliseconds since `began`.
    idle_since: AtomicU64,
    chosen: AtomicBool,
    close: Notify,
}

/// Registers a connection as open until it is dropped.
#[derive(Debug)]
pub(super) struct Registered {
    all: Arc<Connections>,
    number: u64,
    pub activity: Arc<Activity>,
}

/// Keeps a connection busy with a call until it is dropped.
#[derive(Debug)]
pub(super) struct Busy(Arc<Activity>);

/// The body of a reply, which keeps its connection busy.
pub(super) struct Sending {
    body: Body,
    _busy: Busy,
}

impl Connections {
    pub fn new() -> Connections {
        Connections { began: Instant::now(), open: Mutex::default(), next: AtomicU64::new(0) }
    }

    pub fn register(self: &Arc<Connections>) -> Registered {
        let activity = Arc::new(Activity {
            began: self.began,
            calls: AtomicUsize::new(0),
            carried: AtomicBool::new(false),
            writes: AtomicU64::new(0),
            idle_since: AtomicU64::new(millis_since(self.began)),
            chosen: AtomicBool::new(false),
            close: Notify::new(),
        });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.lock().insert(number, activity.clone());
        Registered { all: self.clone(), number, activity }
    }
}

impl ConnectionHolder for Connections {
    /// Closes a part of the idle connections.
    fn close_idle(&self) -> usize {
        let latest = millis_since(self.began).saturating_sub(RECENT.as_millis() as u64);
        let open = self.open.lock();
        let mut idle: Vec<(u64, &Arc<Activity>)> = open
            .values()
            .filter(|activity| activity.is_idle())
            .map(|activity| (activity.idle_since.load(Ordering::Relaxed), activity))
            .filter(|(since, _)| *since <= latest)
            .collect();
        let part = idle.len().div_ceil(PART);
        if part == 0 {
            return 0;
        }
        idle.select_nth_unstable_by_key(part - 1, |(since, _)| *since);
        for (_, activity) in &idle[..part] {
            activity.chosen.store(true, Ordering::Relaxed);
            activity.close.notify_one();
        }
        part
    }
}

impl Activity {
    /// Notes that a call begins.
    pub fn busy(self: &Arc<Activity>) -> Busy {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Busy(self.clone())
    }

    /// Waits until the connection is to be closed.
    pub async fn closing(&self) {
        self.close.notified().await;
    }

    /// Returns whether no call is being answered.
    pub fn is_free(&self) -> bool {
        self.calls.load(Ordering::Relaxed) == 0
    }

    /// Notes that something was written.
    pub fn wrote(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until no call is under way and the last reply has been written.
    pub async fn unused(&self) {
        let seen = || (self.calls.load(Ordering::Relaxed), self.writes.load(Ordering::Relaxed));
        loop {
            let before = seen();
            let carried = || self.carried.load(Ordering::Relaxed);
            tokio::time::sleep(if carried() { NO_WRITE } else { NO_CALL }).await;
            let (calls, writes) = seen();
            if calls == 0 && (!carried() || before == (calls, writes)) {
                return;
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.is_free() && !self.chosen.load(Ordering::Relaxed)
    }
}

impl Busy {
    /// Keeps the connection busy until the reply is sent.
    pub fn until_sent(self, body: Body) -> Sending {
        if matches!(body, Body::Proxied(_)) {
            self.0.carried.store(true, Ordering::Relaxed);
        }
        Sending { body, _busy: self }
    }
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.idle_since.store(millis_since(self.0.began), Ordering::Relaxed);
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.all.open.lock().remove(&self.number);
    }
}

fn millis_since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Registers connections that have been idle since these times, in milliseconds after `began`.
    fn idle_since(all: &Arc<Connections>, times: &[u64]) -> Vec<Registered> {
        let at = |ms: &u64| {
            let registered = all.register();
            registered.activity.idle_since.store(*ms, Ordering::Relaxed);
            registered
        };
        times.iter().map(at).collect()
    }

    fn long_ago() -> Arc<Connections> {
        let began = Instant::now().checked_sub(Duration::from_secs(10)).expect("the machine runs for longer");
        Arc::new(Connections { began, ..Connections::new() })
    }

    fn chosen(connections: &[Registered]) -> Vec<bool> {
        connections.iter().map(|registered| registered.activity.chosen.load(Ordering::Relaxed)).collect()
    }

    #[tokio::test]
    async fn the_one_that_has_been_idle_for_longest_is_closed_first() {
        let all = long_ago();
        let connections = idle_since(&all, &[300, 100, 200]);
        assert_eq!(all.close_idle(), 1);
        assert_eq!(chosen(&connections), [false, true, false]);
        connections[1].activity.closing().await;
        assert_eq!((all.close_idle(), chosen(&connections)), (1, vec![false, true, true]));
    }

    #[test]
    fn those_that_answer_a_call_or_were_used_just_now_stay() {
        let all = long_ago();
        let connections = idle_since(&all, &[100, 200]);
        let busy = connections[0].activity.busy();
        drop(connections[1].activity.busy());
        assert_eq!(all.close_idle(), 0);
        drop(busy);
        assert_eq!(all.close_idle(), 0, "its client may be about to use it again");
        connections[0].activity.idle_since.store(0, Ordering::Relaxed);
        assert_eq!((all.close_idle(), chosen(&connections)), (1, vec![true, false]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_unused_after_its_calls_and_what_they_wrote() {
        let all = Arc::new(Connections::new());
        let registered = all.register();
        let began = tokio::time::Instant::now();
        registered.activity.unused().await;
        assert_eq!(began.elapsed(), NO_CALL);
        let busy = registered.activity.busy();
        registered.activity.carried.store(true, Ordering::Relaxed);
        let (activity, began) = (registered.activity.clone(), tokio::time::Instant::now());
        tokio::spawn(async move {
            tokio::time::sleep(3 * NO_WRITE - Duration::from_millis(1)).await;
            drop(busy);
            tokio::time::sleep(NO_WRITE).await;
            activity.wrote();
        });
        registered.activity.unused().await;
        assert_eq!(began.elapsed(), 5 * NO_WRITE, "a call for three times as long, a write in the fourth");
    }

    #[test]
    fn of_many_a_part_is_closed_at_once_and_what_is_closed_is_forgotten() {
        let all = long_ago();
        let connections = idle_since(&all, &(0..160).collect::<Vec<u64>>());
        assert_eq!(all.close_idle(), 10);
        assert!(chosen(&connections)[..10].iter().all(|chosen| *chosen));
        drop(connections);
        assert_eq!((all.close_idle(), all.open.lock().len()), (0, 0));
    }
}
