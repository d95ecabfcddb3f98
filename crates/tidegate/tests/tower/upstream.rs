//! A service that does what it is asked, in half a second, and is ready when it is told to be.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tower::Service;

pub const LATENCY: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug)]
pub enum Ask {
    Answer { tokens: u64 },
    Fail,
    PanicAtOnce,
    PanicLater,
}

#[derive(Debug)]
pub struct Reply {
    pub tokens: u64,
}

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("it failed")]
pub struct Failed;

/// Clones share their state, as connections to one upstream do.
#[derive(Clone, Debug, Default)]
pub struct Upstream {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    readiness: AtomicU8,
    called: AtomicUsize,
}

#[derive(Clone, Copy)]
pub enum Readiness {
    Ready,
    Busy,
    Broken,
}

impl Upstream {
    pub fn set(&self, readiness: Readiness) {
        self.shared.readiness.store(readiness as u8, Ordering::SeqCst);
    }

    pub fn called(&self) -> usize {
        self.shared.called.load(Ordering::SeqCst)
    }
}

impl Service<Ask> for Upstream {
    type Response = Reply;
    type Error = Failed;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, Failed>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        match self.shared.readiness.load(Ordering::SeqCst) {
            readiness if readiness == Readiness::Ready as u8 => Poll::Ready(Ok(())),
            readiness if readiness == Readiness::Busy as u8 => Poll::Pending,
            _ => Poll::Ready(Err(Failed)),
        }
    }

    fn call(&mut self, ask: Ask) -> Self::Future {
        self.shared.called.fetch_add(1, Ordering::SeqCst);
        assert!(!matches!(ask, Ask::PanicAtOnce), "as asked");
        Box::pin(async move {
            tokio::time::sleep(LATENCY).await;
            match ask {
                Ask::Answer { tokens } => Ok(Reply { tokens }),
                Ask::Fail => Err(Failed),
                Ask::PanicAtOnce | Ask::PanicLater => panic!("as asked"),
            }
        })
    }
}
