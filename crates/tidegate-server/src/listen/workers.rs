//! Threads that serve connections, each its own.
//!
//! A connection stays on the thread that it was given to, with all its calls: nothing of a call is handed from one thread to
//! another, which costs more than the call itself. Who accepts serves too; a new connection goes to whoever has the fewest.
//! What all share is what must be shared: the gate, and the connections to upstreams, of which each takes its own first.

use std::cell::Cell;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Which of the threads this is; that of whoever accepts, and any that is none of ours, is the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lane(usize);

impl Lane {
    pub fn current() -> Lane {
        LANE.get()
    }
}

thread_local! {
    static LANE: Cell<Lane> = const { Cell::new(Lane(0)) };
}

/// All threads that serve.
#[derive(Debug)]
pub(crate) struct Workers {
    /// The first is the runtime that this was made in.
    workers: Vec<Worker>,
}

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
    /// Dropped, it ends the thread and what still goes on there.
    _end: Option<oneshot::Sender<()>>,
}

/// A connection that a thread has.
struct Load(Arc<AtomicUsize>);

impl Drop for Load {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Workers {
    /// The current runtime, and as many threads more as it takes.
    pub fn start(count: NonZeroUsize) -> io::Result<Workers> {
        let first = Worker { runtime: Handle::current(), connections: Arc::default(), _end: None };
        let more = (1..count.get()).map(|lane| Worker::start(Lane(lane)));
        let workers = std::iter::once(Ok(first)).chain(more).collect::<io::Result<_>>()?;
        Ok(Workers { workers })
    }

    /// Serves a connection on the thread that has the fewest.
    pub fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static) {
        let fewest = self.workers.iter().min_by_key(|worker| worker.connections.load(Ordering::Relaxed));
        let Some(worker) = fewest else { return };
        worker.connections.fetch_add(1, Ordering::Relaxed);
        let load = Load(worker.connections.clone());
        worker.runtime.spawn(async move {
            connection.await;
            drop(load);
        });
    }
}

impl Worker {
    fn start(lane: Lane) -> io::Result<Worker> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new().name(format!("tidegate-{}", lane.0)).spawn(move || {
            LANE.set(lane);
            runtime.block_on(ended).ok();
        })?;
        Ok(Worker { runtime: handle, connections: Arc::default(), _end: Some(end) })
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    fn three() -> Workers {
        Workers::start(NonZeroUsize::new(3).expect("some")).expect("threads")
    }

    /// Gives one a connection that tells where it is and lasts until the other end of what it gives is dropped.
    async fn connect(workers: &Workers) -> (Lane, oneshot::Sender<()>) {
        let (end, ended) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        workers.spawn(async move {
            tell.send(Lane::current()).ok();
            ended.await.ok();
        });
        (told.await.expect("served"), end)
    }

    #[tokio::test]
    async fn a_connection_goes_to_whoever_has_the_fewest() {
        let workers = three();
        let mut open = Vec::new();
        for _ in 0..6 {
            open.push(connect(&workers).await);
        }
        for lane in 0..3 {
            assert_eq!(open.iter().filter(|(on, _)| *on == Lane(lane)).count(), 2, "{lane}");
        }
        open.retain(|(on, _)| *on != Lane(1));
        while workers.workers[1].connections.load(Ordering::Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
        open.push(connect(&workers).await);
        open.push(connect(&workers).await);
        assert!(open[4..].iter().all(|(on, _)| *on == Lane(1)));
    }

    #[tokio::test]
    async fn what_goes_on_there_ends_with_them() {
        let workers = three();
        let (held, mut dropped) = mpsc::channel::<()>(1);
        for worker in &workers.workers[1..] {
            let held = held.clone();
            worker.runtime.spawn(async move {
                let _held = held;
                std::future::pending::<()>().await;
            });
        }
        drop((held, workers));
        assert_eq!(dropped.recv().await, None);
    }
}
