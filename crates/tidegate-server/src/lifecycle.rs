//! The life of a sidecar: which phase it is in, and how many calls and connections it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, watch};

/// What happens to connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Connections are accepted and served.
    Serving,
    /// Connections close after the calls that are under way.
    Draining,
    /// Calls whose reply has not begun are answered with 503.
    Refusing,
    /// All connections are dropped.
    Cut,
}

/// The phase of a sidecar, and what it has open.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    started: Instant,
    phase: watch::Sender<Phase>,
    calls: AtomicUsize,
    connections: AtomicUsize,
    stopping: AtomicBool,
    refusing: AtomicBool,
}

/// Counts a call or a connection until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    lifecycle: Arc<Lifecycle>,
    count: fn(&Lifecycle) -> &AtomicUsize,
}

/// The place of a connection among all that may be open, until it is dropped. An upgraded connection keeps it.
#[derive(Clone)]
pub(crate) struct ConnectionPlace {
    _held: Arc<(Counted, OwnedSemaphorePermit)>,
}

impl Lifecycle {
    pub fn new() -> Lifecycle {
        Lifecycle {
            started: Instant::now(),
            phase: watch::Sender::new(Phase::Serving),
            calls: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            refusing: AtomicBool::new(false),
        }
    }

    /// Returns how long the sidecar has been running.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns a receiver of the phase. The sidecar does not end before all receivers are dropped.
    pub fn subscribe(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Waits until the last receiver of the phase is dropped.
    pub async fn drained(&self) {
        self.phase.closed().await;
    }

    /// Stops taking new calls. Connections go on until the next phase.
    pub fn stop_taking_calls(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Enters a phase and wakes all receivers.
    pub fn enter(&self, phase: Phase) {
        if phase == Phase::Refusing {
            // Set first: calls that the phase wakes must see it.
            self.refusing.store(true, Ordering::Relaxed);
        }
        self.phase.send_replace(phase);
    }

    /// Returns whether new calls are taken.
    pub fn is_ready(&self) -> bool {
        !self.stopping.load(Ordering::SeqCst)
    }

    /// Returns whether calls without a reply are to be answered with 503.
    pub fn is_refusing(&self) -> bool {
        self.refusing.load(Ordering::Relaxed)
    }

    /// Returns how many calls are waiting or at their upstreams.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Returns how many clients are connected.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Counts a call until the returned guard is dropped.
    pub fn count_call(self: &Arc<Lifecycle>) -> Counted {
        Counted::new(self, |lifecycle| &lifecycle.calls)
    }

    /// Counts a connection until the returned guard is dropped. `place` is its permit among all that may be open.
    pub fn count_connection(self: &Arc<Lifecycle>, place: OwnedSemaphorePermit) -> ConnectionPlace {
        let counted = Counted::new(self, |lifecycle| &lifecycle.connections);
        ConnectionPlace { _held: Arc::new((counted, place)) }
    }
}

impl Counted {
    fn new(lifecycle: &Arc<Lifecycle>, count: fn(&Lifecycle) -> &AtomicUsize) -> Counted {
        count(lifecycle).fetch_add(1, Ordering::Relaxed);
        Counted { lifecycle: lifecycle.clone(), count }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.count)(&self.lifecycle).fetch_sub(1, Ordering::Relaxed);
    }
}
