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
    sleeper: Sleeper,
    state: State,
}

#[derive(Debug)]
enum State {
    New(Option<Turn>),
    Waiting(Waiting),
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
    pub(crate) fn new(gate: Arc<Shared>, call: Call, sleeper: Sleeper) -> Acquire {
        Acquire { gate: Some(gate), call, sleeper, state: State::New(None) }
    }

    /// For an attempt of a call that came before.
    pub(crate) fn again(gate: Arc<Shared>, call: Call, sleeper: Sleeper, turn: Turn) -> Acquire {
        Acquire { gate: Some(gate), call, sleeper, state: State::New(Some(turn)) }
    }

    /// Where the call stands in the queue, if it waits.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        match (&self.gate, &self.state) {
            (Some(gate), State::Waiting(waiting)) => gate.place(waiting.seat),
            _ => None,
        }
    }

    /// Blocks this thread until the verdict is there.
    pub(crate) fn block(self) -> Result<Permit, Refused> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut this = std::pin::pin!(self);
        loop {
            match this.as_mut().poll(&mut context) {
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
                let waited = match &self.state {
                    State::Waiting(Waiting { since, .. }) => grant.granted_at().since(*since),
                    State::New(_) => Duration::ZERO,
                };
                Ok(Permit::new(grant, waited, self.call.shared_model(), gate))
            }
            Verdict::Refused(refusal) => Err(gate.refused(refusal)),
        })
    }
}

impl Future for Acquire {
    type Output = Result<Permit, Refused>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(gate) = &this.gate else { return Poll::Pending };
        let verdict = match this.state {
            State::New(turn) => match gate.enqueue(&this.call, turn, context.waker()) {
                Ok(Entered::Granted(grant)) => Some(Verdict::Granted(grant)),
                Ok(Entered::Waiting(waiting)) => {
                    this.state = State::Waiting(waiting);
                    None
                }
                Err(refusal) => Some(Verdict::Refused(refusal)),
            },
            State::Waiting(Waiting { seat, .. }) => gate.look(seat, context.waker()),
        };
        match verdict {
            None => gate.timer.ensure(gate, this.sleeper),
            Some(verdict) => {
                if let Some(result) = this.end(verdict) {
                    return Poll::Ready(result);
                }
            }
        }
        Poll::Pending
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let (Some(gate), State::Waiting(waiting)) = (&self.gate, &self.state) {
            gate.leave(*waiting);
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
        self.acquire_with(call.into(), Sleeper::Task)
    }

    /// The same for threads without a runtime: blocks until the call may go.
    ///
    /// # Errors
    /// As [`Gate::acquire`].
    pub fn acquire_blocking(&self, call: impl Into<Call>) -> Result<Permit, Refused> {
        self.acquire_with(call.into(), Sleeper::Thread).block()
    }

    fn acquire_with(&self, call: Call, sleeper: Sleeper) -> Acquire {
        Acquire::new(self.shared.clone(), self.shared.priced(call), sleeper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There are as many as calls wait, and each is moved more than once.
    #[test]
    fn a_future_that_waits_is_small() {
        assert_eq!(size_of::<Acquire>(), 64);
    }
}
