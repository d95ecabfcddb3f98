//! The calls that were made and are not over: where each stands, and how far it has come.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};
use std::time::Duration;

use tidegate_core::engine::Arrived;
use tidegate_core::retry::Tries;
use tidegate_core::{Call, Cost, Grant, Nanos, Ticket};

use super::plan::{CallId, Worker};
use crate::upstream::{Headers, Held};

/// A call that was made and is not over.
#[derive(Debug)]
pub(crate) struct CallState {
    pub no: u64,
    pub kind: u32,
    pub source: usize,
    pub worker: Option<Worker>,
    pub generation: u32,
    pub call: Call,
    pub real: Real,
    pub times: Times,
    pub tries: Tries,
    pub stage: Stage,
}

/// What a call really takes.
#[derive(Debug)]
pub(crate) struct Real {
    pub cost: Cost,
    /// The cost is not what it was expected to be.
    pub differs: bool,
    /// How long it runs, if that is known.
    pub runs: Option<Duration>,
}

/// When a call came, and how long it waits.
#[derive(Debug)]
pub(crate) struct Times {
    /// When it first came, as the engine and as we know it.
    pub arrived: Option<Arrived>,
    pub came: Nanos,
    /// When its present attempt came.
    pub since: Nanos,
    /// How long it may wait in all, and how long it has, between attempts too.
    pub timeout: Duration,
    pub waited: Duration,
}

impl Times {
    /// Returns how long the call may still wait.
    pub fn left(&self) -> Duration {
        self.timeout.saturating_sub(self.waited)
    }
}

/// How far a call has come.
#[derive(Debug)]
pub(crate) enum Stage {
    Over,
    Waiting(Ticket),
    /// On its way to the upstream.
    Sent(Grant),
    /// The upstream holds it, or has answered.
    Answered(Grant, Reply),
    /// Until it is made again.
    Resting,
    /// Its process is gone; the upstream does not know.
    Orphan(Option<Held>),
}

/// What the upstream said, until it is back.
#[derive(Debug)]
pub(crate) enum Reply {
    /// It went well, and what was written on it.
    Done(Option<Held>, Headers),
    /// Turned away or failed, and what was written on it.
    Bad { status: u16, headers: Headers },
    /// The connection broke.
    Broken(Option<Held>),
    /// It never comes.
    Lost(Option<Held>),
}

impl Reply {
    /// Returns what the upstream holds until it has answered.
    pub fn held(self) -> Option<Held> {
        match self {
            Reply::Done(held, _) | Reply::Broken(held) | Reply::Lost(held) => held,
            Reply::Bad { .. } => None,
        }
    }
}

/// All calls, by their places. A place is used again when its call is over.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    calls: Vec<CallState>,
    free: Vec<u32>,
    tickets: HashMap<Ticket, u32>,
    made: u64,
}

impl Calls {
    /// Returns the number of the next call.
    pub fn next_no(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// Returns all places, those that are free too.
    pub fn places(&self) -> std::ops::Range<u32> {
        0..self.calls.len() as u32
    }

    /// Puts a call into a free place.
    pub fn place(&mut self, state: CallState) -> u32 {
        match self.free.pop() {
            Some(place) => {
                let generation = self[place].generation;
                self[place] = CallState { generation, ..state };
                place
            }
            None => {
                self.calls.push(state);
                self.calls.len() as u32 - 1
            }
        }
    }

    /// Frees the place of a call that is over.
    pub fn vacate(&mut self, place: u32) {
        let state = &mut self[place];
        state.generation = state.generation.wrapping_add(1);
        state.stage = Stage::Over;
        self.free.push(place);
    }

    /// Returns what tells the call at a place from those that had it before.
    pub fn id(&self, place: u32) -> CallId {
        CallId { place, generation: self[place].generation }
    }

    /// Returns the place of a call, if it still has it.
    pub fn find(&self, id: CallId) -> Option<u32> {
        (self[id.place].generation == id.generation).then_some(id.place)
    }

    /// Puts a call into the queue.
    pub fn wait(&mut self, place: u32, ticket: Ticket) {
        self[place].stage = Stage::Waiting(ticket);
        self.tickets.insert(ticket, place);
    }

    /// Takes the call that waits with a ticket out of the queue.
    pub fn take_waiting(&mut self, ticket: Ticket) -> Option<u32> {
        self.tickets.remove(&ticket)
    }

    /// Forgets the queue of a process that is gone.
    pub fn forget_waiting(&mut self) {
        self.tickets.clear();
    }
}

impl Index<u32> for Calls {
    type Output = CallState;

    fn index(&self, place: u32) -> &CallState {
        &self.calls[place as usize]
    }
}

impl IndexMut<u32> for Calls {
    fn index_mut(&mut self, place: u32) -> &mut CallState {
        &mut self.calls[place as usize]
    }
}
