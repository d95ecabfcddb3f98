//! What the gate's lock protects, and what calls in the queue consist of.

use std::time::Duration;

use tidegate_core::engine::Arrived;
use tidegate_core::{Admission, Call, Engine, Grant, Nanos, Refusal};

use super::wait_slots::SlotIndex;

/// How long a call waits if neither it nor the config says.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What the lock protects.
#[derive(Debug)]
pub(super) struct Inner {
    pub engine: Engine,
    pub slot_index: SlotIndex,
    /// Empty: exchanged for the calls of the hand-off queue.
    pub calls: Vec<HandedOff>,
    /// Empty: exchanged for the releases of the hand-off queue.
    pub released: Vec<Grant>,
    /// The wake-up time that the timer has.
    pub armed: Option<Nanos>,
    /// When the wall clock is to be read; never, if no limit follows a calendar.
    pub wall_due: Nanos,
}

/// A call that arrived while the lock was taken.
#[derive(Debug)]
pub(super) struct HandedOff {
    pub call: Call,
    pub terms: Option<QueueTerms>,
    pub slot: u32,
}

/// A call in the queue: its wait slot, and since when it waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub slot: u32,
    pub since: Nanos,
}

/// The terms on which an attempt enters the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueTerms {
    /// When its call first arrived, if it is not the first attempt.
    pub arrived: Option<Arrived>,
    /// How long it may wait.
    pub timeout: Duration,
}

/// What became of a call that is ready to wait.
pub(crate) enum Enqueued {
    Granted(Grant),
    Waiting(Waiting),
}

impl Inner {
    pub fn new(engine: Engine) -> Inner {
        Inner {
            engine,
            slot_index: SlotIndex::default(),
            calls: Vec::new(),
            released: Vec::new(),
            armed: None,
            wall_due: Nanos::ZERO,
        }
    }

    /// Returns whether the engine has something to publish, or calls wait whose time may have changed.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.engine.waiting() > 0 || self.engine.has_verdicts() || self.engine.has_pages()
    }

    /// Releases grants of whose calls nothing is known.
    pub fn settle(&mut self, released: &mut Vec<Grant>) {
        for grant in released.drain(..) {
            if let Err(grant) = self.engine.finish_unnoticed(grant) {
                let now = self.engine.now();
                self.engine.finish(grant, None, now);
            }
        }
    }

    /// Has the engine admit, queue or refuse a call that is ready to wait.
    pub fn enqueue(
        &mut self,
        call: &Call,
        terms: Option<QueueTerms>,
        now: Nanos,
    ) -> Result<Admission, Refusal> {
        match terms {
            Some(QueueTerms { arrived: Some(arrived), timeout }) => {
                self.engine.enqueue_again(call, arrived, timeout, now)
            }
            Some(QueueTerms { arrived: None, timeout }) => self.engine.enqueue(call, timeout, now),
            None => {
                let timeout = timeout_of(call, &self.engine);
                self.engine.enqueue(call, timeout, now)
            }
        }
    }
}

/// Returns how long a call may wait: as it says itself, else as the config says.
pub(super) fn timeout_of(call: &Call, engine: &Engine) -> Duration {
    call.stated_timeout().or_else(|| engine.timeout_of(call.service())).unwrap_or(TIMEOUT)
}
