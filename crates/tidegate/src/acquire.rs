//! Waiting for a permit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::engine::Place;
use tidegate_core::{Admission, Call, Nanos, Ticket, Verdict};

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
    gate: Arc<Shared>,
    call: Call,
    timeout: Duration,
    sleeper: Sleeper,
    state: State,
}

#[derive(Debug)]
enum State {
    New,
    Waiting { ticket: Ticket, slot: Arc<Slot>, since: Nanos },
    Done,
}

/// Where a waiting call finds its verdict.
#[derive(Debug, Default)]
pub(crate) struct Slot(Mutex<Cell>);

#[derive(Debug, Default)]
enum Cell {
    #[default]
    Empty,
    Waiting(Waker),
    Decided(Verdict),
}

impl Slot {
    /// Stores the verdict; the waker is for the caller to wake once it holds no lock.
    pub fn decide(&self, verdict: Verdict) -> Option<Waker> {
        match std::mem::replace(&mut *self.0.lock(), Cell::Decided(verdict)) {
            Cell::Waiting(waker) => Some(waker),
            Cell::Empty | Cell::Decided(_) => None,
        }
    }

    pub fn waker(&self) -> Option<Waker> {
        match &*self.0.lock() {
            Cell::Waiting(waker) => Some(waker.clone()),
            Cell::Empty | Cell::Decided(_) => None,
        }
    }

    fn take(&self, waker: &Waker) -> Option<Verdict> {
        let mut cell = self.0.lock();
        match std::mem::take(&mut *cell) {
            Cell::Decided(verdict) => Some(verdict),
            Cell::Waiting(known) if known.will_wake(waker) => {
                *cell = Cell::Waiting(known);
                None
            }
            Cell::Waiting(_) | Cell::Empty => {
                *cell = Cell::Waiting(waker.clone());
                None
            }
        }
    }

    fn take_verdict(&self) -> Option<Verdict> {
        match std::mem::take(&mut *self.0.lock()) {
            Cell::Decided(verdict) => Some(verdict),
            Cell::Empty | Cell::Waiting(_) => None,
        }
    }
}

impl Acquire {
    pub(crate) fn new(gate: Arc<Shared>, call: Call, timeout: Duration, sleeper: Sleeper) -> Acquire {
        Acquire { gate, call, timeout, sleeper, state: State::New }
    }

    /// Where the call stands in the queue, if it waits.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        match &self.state {
            State::Waiting { ticket, .. } => self.gate.place(*ticket),
            State::New | State::Done => None,
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

    fn decided(&mut self, verdict: Verdict, since: Nanos) -> Poll<Result<Permit, Refused>> {
        self.state = State::Done;
        Poll::Ready(match verdict {
            Verdict::Granted(grant) => {
                let waited = grant.granted_at().since(since);
                Ok(Permit::new(grant, waited, self.gate.clone()))
            }
            Verdict::Refused(refusal) => Err(self.gate.refused(refusal)),
        })
    }
}

impl Future for Acquire {
    type Output = Result<Permit, Refused>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        match &this.state {
            State::New => {
                let slot = Arc::new(Slot::default());
                // The slot knows the waker before the engine knows the call: no verdict is missed.
                let _ = slot.take(context.waker());
                match this.gate.enqueue(&this.call, this.timeout, &slot) {
                    Ok((Admission::Granted(grant), now)) => this.decided(Verdict::Granted(grant), now),
                    Ok((Admission::Waiting(ticket), since)) => {
                        this.gate.timer.ensure(&this.gate, this.sleeper);
                        this.state = State::Waiting { ticket, slot, since };
                        Poll::Pending
                    }
                    Err(refused) => {
                        this.state = State::Done;
                        Poll::Ready(Err(refused))
                    }
                }
            }
            State::Waiting { slot, since, .. } => {
                let since = *since;
                match slot.take(context.waker()) {
                    Some(verdict) => this.decided(verdict, since),
                    None => {
                        this.gate.timer.ensure(&this.gate, this.sleeper);
                        Poll::Pending
                    }
                }
            }
            State::Done => Poll::Pending,
        }
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let State::Waiting { ticket, slot, .. } = &self.state {
            self.gate.withdraw(*ticket);
            // Granted, but nobody came for it: the call never left.
            if let Some(Verdict::Granted(grant)) = slot.take_verdict() {
                self.gate.cancel(grant);
            }
        }
    }
}

/// Wakes a parked thread.
struct Unpark(std::thread::Thread);

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
        let timeout = call.stated_timeout().unwrap_or_else(|| self.shared.timeout_of(call.service()));
        Acquire::new(self.shared.clone(), call, timeout, sleeper)
    }
}
