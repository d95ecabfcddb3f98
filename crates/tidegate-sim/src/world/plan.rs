//! What will happen, in order: by time, and then by when it was foreseen.

use std::cmp::Ordering;

use tidegate_core::Nanos;

/// Something that will happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A source makes its next call.
    Arrive(usize),
    /// A worker of a closed loop makes its next call.
    Work(usize, Worker),
    /// A call reaches its upstream.
    Reach(CallId),
    /// Its reply is back, or is given up.
    Reply(CallId),
    /// It is made again.
    Again(CallId),
    /// Its caller loses patience.
    GiveUp(CallId),
    Crash(usize),
    Restart,
    StepClock(usize),
    Change(usize),
    /// A lender answers.
    Lend(usize, u64),
    LendFails(usize),
    /// Somebody opens or ends a backoff window.
    Window(usize),
}

/// A worker of a closed loop, and how many calls it has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Worker {
    pub loop_: u64,
    pub number: u64,
    pub made: u64,
}

/// A call, told apart from others that had the same place before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallId {
    pub place: u32,
    pub generation: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    pub at: Nanos,
    pub seq: u64,
    pub event: Event,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Planned {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.seq).cmp(&(other.at, other.seq))
    }
}
