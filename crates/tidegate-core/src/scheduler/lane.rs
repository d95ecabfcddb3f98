//! Lanes, and the calls that wait in them.
//!
//! A lane is a list, since its calls come at the end, mostly go at the head, and may leave from anywhere. Calls
//! that came one right after the other and are alike form a *run*; most lanes are a single one. What a lane
//! must be able to find, the first call that would fit, it finds by its runs, which stand in a tree.

use crate::limits::queue::LaneKey;
use crate::model::call::Shape;
use crate::model::priority::Priority;
use crate::model::route_limit::RouteLimit;
use crate::model::time::Nanos;
use crate::model::{BatchId, LaneId, LimitId, LoopId, MAX_UNIT_KINDS, RouteId, Units, WaiterId};
use crate::scheduler::block_history::BlockHistory;
use std::sync::Arc;

/// When a call first came, and before whom. See [`Engine::arrived`](crate::Engine::arrived).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrived {
    pub(crate) seq: u64,
    pub(crate) at: Nanos,
}

impl Arrived {
    /// When that was.
    #[must_use]
    pub fn at(self) -> Nanos {
        self.at
    }
}

/// Calls of one route, loop and priority, first come first served.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub route_id: RouteId,
    pub loop_: LoopId,
    pub class: Priority,
    pub route: Arc<[RouteLimit]>,
    /// The first and the last of its calls.
    pub head: WaiterId,
    pub tail: WaiterId,
    pub len: u32,
    /// Its runs, by arrival.
    pub batches: u32,
    /// Units waiting, by kind.
    pub demand: [u128; MAX_UNIT_KINDS],
    /// The limit that decides its time, and its place there.
    pub bound: LimitId,
    pub slot: u8,
    pub key: LaneKey,
    pub block_history: BlockHistory,
    /// The least that any of its calls costs at that limit.
    pub least: u64,
    /// Where the roster counts it.
    pub(crate) roster: u32,
}

/// A waiting call.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub generation: u32,
    pub run: BatchId,
    /// Its neighbours in its lane.
    pub ahead: WaiterId,
    pub behind: WaiterId,
    pub seq: u64,
    pub enqueued: Nanos,
}

/// Calls of a lane that came one right after the other and are alike.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub lane: LaneId,
    /// The first of its calls, and how many there are.
    pub first: WaiterId,
    pub len: u32,
    /// The arrival of the call that began it.
    pub seq: u64,
    pub like: CallTraits,
}

/// What calls of one lane may differ in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CallTraits {
    pub units: Units,
    pub estimated: crate::model::call::Estimated,
    pub shape: Arc<Shape>,
}

impl Lane {
    /// One more call waits here, which costs that much.
    pub fn count(&mut self, units: &Units) {
        self.len += 1;
        for (sum, units) in self.demand.iter_mut().zip(units) {
            *sum += u128::from(*units);
        }
    }
}

/// A call that may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) lane: LaneId,
    pub(crate) waiter: WaiterId,
    pub(crate) in_turn: bool,
}
