//! The clock, and what will happen, in order: by time, and then by when it was foreseen.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Duration;

use tidegate_core::Nanos;

/// Unix time at the start of a simulation, so that runs do not depend on when they are made.
const UNIX: Duration = Duration::from_secs(1_767_225_600);

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
    /// A backoff window is opened or ended by hand.
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

/// The present time, and the events to come.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    now: Nanos,
    /// Events that have happened.
    events: u64,
    heap: BinaryHeap<Reverse<Planned>>,
    /// Events that were foreseen.
    foreseen: u64,
}

impl Plan {
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Returns the Unix time by a clock that is right.
    pub fn unix(&self) -> Duration {
        UNIX + self.now.since(Nanos::ZERO)
    }

    /// Returns how many events have happened.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Adds an event that happens at `at`, or now if that has passed.
    pub fn foresee(&mut self, at: Nanos, event: Event) {
        self.foreseen += 1;
        self.heap.push(Reverse(Planned { at: at.max(self.now), seq: self.foreseen, event }));
    }

    /// Returns when the next event happens.
    pub fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(planned)| planned.at)
    }

    /// Takes the next event off the plan.
    pub fn pop(&mut self) -> Option<Event> {
        self.heap.pop().map(|Reverse(planned)| planned.event)
    }

    /// Lets time pass up to an event that happens at `at`, and counts it.
    pub fn begin_event(&mut self, at: Nanos) {
        self.now = self.now.max(at);
        self.events += 1;
    }

    /// Lets time pass up to the end.
    pub fn finish(&mut self, end: Nanos) {
        self.now = end;
    }
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    at: Nanos,
    seq: u64,
    event: Event,
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
