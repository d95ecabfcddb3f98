//! Waiting for a permit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tidegate_core::engine::Place;
use tidegate_core::{Call, Nanos, Verdict};

use super::inner::{Enqueued, QueueTerms, Waiting};
use super::permit::Permit;
use super::shared::Shared;
use super::timer::Sleeper;
use crate::refused::Refused;

/// A call that waits for its permit; made by [`Gate::acquire`](crate::Gate::acquire).
///
/// Dropping it is always safe: its place is freed and those behind it advance; a permit that was already on
/// its way is given back whole.
#[must_use = "nothing happens until it is awaited"]
#[derive(Debug)]
pub struct Acquire {
    /// Moves into the permit once the decision is known.
    gate: Option<Arc<Shared>>,
    call: Call,
    state: State,
}

// Not with a `Waiting` in it: that would make the future larger than 32 bytes.
#[derive(Clone, Copy, Debug)]
enum State {
    New,
    Waiting { slot: u32, since: Nanos },
}

impl Acquire {
    pub(crate) fn new(gate: Arc<Shared>, call: Call) -> Acquire {
        Acquire { gate: Some(gate), call, state: State::New }
    }

    /// Returns where the call stands in the queue, if it waits.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        match (&self.gate, &self.state) {
            (Some(gate), State::Waiting { slot, .. }) => gate.place(*slot),
            _ => None,
        }
    }

    /// Blocks this thread until the call is decided.
    pub(crate) fn block(self) -> Result<Permit, Refused> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut this = self;
        loop {
            match this.poll_with(&mut context, Sleeper::Thread, || None) {
                Poll::Ready(result) => return result,
                // A thread that is unparked without cause polls again.
                Poll::Pending => std::thread::park(),
            }
        }
    }

    /// Turns a decision into the result of the future.
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

    /// Polls the call. The caller chooses the timer and, on the first poll, the terms of the queue.
    pub(crate) fn poll_with(
        &mut self,
        context: &mut Context<'_>,
        sleeper: Sleeper,
        terms: impl FnOnce() -> Option<QueueTerms>,
    ) -> Poll<Result<Permit, Refused>> {
        let Some(gate) = &self.gate else { return Poll::Pending };
        let verdict = match self.state {
            State::New => match gate.enqueue_or_hand_off(&self.call, terms(), context.waker()) {
                Ok(Enqueued::Granted(grant)) => Some(Verdict::Granted(grant)),
                Ok(Enqueued::Waiting(Waiting { slot, since })) => {
                    self.state = State::Waiting { slot, since };
                    None
                }
                Err(refusal) => Some(Verdict::Refused(refusal)),
            },
            State::Waiting { slot, .. } => gate.poll_slot(slot, context.waker()),
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
        self.poll_with(context, Sleeper::Task, || None)
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let (Some(gate), State::Waiting { slot, .. }) = (&self.gate, self.state) {
            gate.abandon(slot);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// There are as many as calls wait, and each is moved more than once.
    #[test]
    fn a_future_that_waits_is_small() {
        assert_eq!(size_of::<Acquire>(), 32);
    }
}
