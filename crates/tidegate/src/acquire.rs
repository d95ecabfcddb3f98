//! Waiting for a permit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tidegate_core::engine::{Arrived, Place};
use tidegate_core::{Call, Grant, Nanos, Verdict};

use crate::gate::{Gate, Shared};
use crate::permit::Permit;
use crate::refused::Refused;
use crate::timer::Sleeper;

/// A call that waits for its permit; made by [`Gate::acquire`].
///
/// Dropping it is always safe: its place is freed and those behind it advance; a permit that was already on
/// its way is given back whole.
#[must_use = "nothing happens until it is awaited"]
#[derive(Debug)]
pub struct Acquire {
    /// The permit takes it along: gone once the verdict is known.
    gate: Option<Arc<Shared>>,
    call: Call,
    state: State,
}

// Not with a `Waiting` in it, which would be larger.
#[derive(Clone, Copy, Debug)]
enum State {
    New,
    Waiting { seat: u32, since: Nanos },
}

/// A call in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub seat: u32,
    pub since: Nanos,
}

/// When an attempt takes its turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// When its call first came, if it is not the first attempt.
    pub arrived: Option<Arrived>,
    /// How long it may wait.
    pub timeout: Duration,
}

/// What became of a call that is ready to wait.
pub(crate) enum Entered {
    Granted(Grant),
    Waiting(Waiting),
}

impl Acquire {
    pub(crate) fn new(gate: Arc<Shared>, call: Call) -> Acquire {
        Acquire { gate: Some(gate), call, state: State::New }
    }

    /// Where the call stands in the queue, if it waits.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        match (&self.gate, &self.state) {
            (Some(gate), State::Waiting { seat, .. }) => gate.place(*seat),
            _ => None,
        }
    }

    /// Blocks this thread until the verdict is there.
    pub(crate) fn block(self) -> Result<Permit, Refused> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut this = self;
        loop {
            match this.poll_turn(&mut context, Sleeper::Thread, || None) {
                Poll::Ready(result) => return result,
                // Woken without cause it just looks again.
                Poll::Pending => std::thread::park(),
            }
        }
    }

    /// What comes of a verdict. Nobody waits any more.
    fn end(&mut self, verdict: Verdict) -> Option<Result<Permit, Refused>> {
        let gate = self.gate.take()?;
        Some(match verdict {
            Verdict::Granted(grant) => {
                let waited = match self.state {
                    State::Waiting { since, .. } => grant.granted_at().since(since),
                    State::New => Duration::ZERO,
                };
                Ok(Permit::new(grant, waited, self.call.shared_model(), gate))
            }
            Verdict::Refused(refusal) => Err(gate.refused(refusal)),
        })
    }

    /// Polls it. Who sleeps for it is for whoever does to say, and which turn it takes if it has none yet.
    pub(crate) fn poll_turn(
        &mut self,
        context: &mut Context<'_>,
        sleeper: Sleeper,
        turn: impl FnOnce() -> Option<Turn>,
    ) -> Poll<Result<Permit, Refused>> {
        let Some(gate) = &self.gate else { return Poll::Pending };
        let verdict = match self.state {
            State::New => match gate.enqueue(&self.call, turn(), context.waker()) {
                Ok(Entered::Granted(grant)) => Some(Verdict::Granted(grant)),
                Ok(Entered::Waiting(Waiting { seat, since })) => {
                    self.state = State::Waiting { seat, since };
                    None
                }
                Err(refusal) => Some(Verdict::Refused(refusal)),
            },
            State::Waiting { seat, .. } => gate.look(seat, context.waker()),
        };
        match verdict {
            None => gate.timer.ensure(gate, sleeper),
            Some(verdict) => {
                if let Some(result) = self.end(verdict) {
                    return Poll::Ready(result);
                }
            }
        }
        Poll::Pending
    }
}

impl Future for Acquire {
    type Output = Result<Permit, Refused>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_turn(context, Sleeper::Task, || None)
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let (Some(gate), State::Waiting { seat, .. }) = (&self.gate, self.state) {
            gate.leave(seat);
        }
    }
}

/// Wakes a parked thread.
pub(crate) struct Unpark(pub std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Gate {
    /// Waits until the call may go.
    ///
    /// # Errors
    /// If it could never fit, would have to wait longer than its timeout, or was pushed out of a full queue:
    /// with the limit, the wait and the reset.
    pub fn acquire(&self, call: impl Into<Call>) -> Acquire {
        Acquire::new(self.shared.clone(), self.shared.priced(call.into()))
    }

    /// The same for threads without a runtime: blocks until the call may go.
    ///
    /// # Errors
    /// As [`Gate::acquire`].
    pub fn acquire_blocking(&self, call: impl Into<Call>) -> Result<Permit, Refused> {
        self.acquire(call).block()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There are as many as calls wait, and each is moved more than once.
    #[test]
    fn a_future_that_waits_is_small() {
        assert_eq!(size_of::<Acquire>(), 32);
    }
}
