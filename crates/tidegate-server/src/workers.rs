//! Threads that serve connections.
//!
//! A connection stays on the thread that it was given to, with all its calls: to hand a call from one thread to another costs
//! more than the call itself. The thread that accepts connections serves too. A new connection goes to the thread that has
//! the fewest. Threads share the gate and the connections to upstreams; each thread prefers the upstream connections that
//! it opened itself.

use std::cell::Cell;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Identifies one of the threads. The accepting thread and all threads that are not workers are number 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkerId(usize);

impl WorkerId {
    pub fn current() -> WorkerId {
        CURRENT.get()
    }
}

thread_local! {
    static CURRENT: Cell<WorkerId> = const { Cell::new(WorkerId(0)) };
}

/// All threads that serve.
#[derive(Debug)]
pub(crate) struct Workers {
    /// The first is the runtime that called [`Workers::start`].
    workers: Vec<Worker>,
}

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
    /// Ends the thread and the tasks that run on it when it is dropped.
    _end: Option<oneshot::Sender<()>>,
}

/// Counts a connection on its thread until it is dropped.
struct Load(Arc<AtomicUsize>);

impl Drop for Load {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Workers {
    /// Starts `count` workers: the current runtime, and a thread for each further one.
    pub fn start(count: NonZeroUsize) -> io::Result<Workers> {
        let first = Worker { runtime: Handle::current(), connections: Arc::default(), _end: None };
        let more = (1..count.get()).map(|number| Worker::start(WorkerId(number)));
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
    fn start(id: WorkerId) -> io::Result<Worker> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new().name(format!("tidegate-{}", id.0)).spawn(move || {
            CURRENT.set(id);
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

    /// Spawns a connection. Returns its thread, and a sender that ends the connection when it is dropped.
    async fn connect(workers: &Workers) -> (WorkerId, oneshot::Sender<()>) {
        let (end, ended) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        workers.spawn(async move {
            tell.send(WorkerId::current()).ok();
            ended.await.ok();
        });
        (told.await.expect("served"), end)
    }

    #[tokio::test]
    async fn a_connection_goes_to_the_thread_that_has_the_fewest() {
        let workers = three();
        let mut open = Vec::new();
        for _ in 0..6 {
            open.push(connect(&workers).await);
        }
        for worker in 0..3 {
            assert_eq!(open.iter().filter(|(on, _)| *on == WorkerId(worker)).count(), 2, "{worker}");
        }
        open.retain(|(on, _)| *on != WorkerId(1));
        while workers.workers[1].connections.load(Ordering::Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
        open.push(connect(&workers).await);
        open.push(connect(&workers).await);
        assert!(open[4..].iter().all(|(on, _)| *on == WorkerId(1)));
    }

    #[tokio::test]
    async fn tasks_end_with_the_workers() {
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
