//! The state of the scheduler.

use crate::limits::queue::LaneKey;
use crate::model::priority::Priority;
use crate::model::time::Nanos;
use crate::model::tree::{Sorted, Trees};
use crate::model::{Arena, BatchId, LaneId, LimitId, LoopId, RouteId, Units, WaiterId};
use crate::scheduler::deadlines::Deadlines;
use crate::scheduler::decision::{Ticket, Verdict};
use crate::scheduler::lane::{Batch, Candidate, Lane, Waiter};
use crate::scheduler::shed_order::ShedOrders;
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Calls that wait.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pub lanes: Arena<LaneId, Lane>,
    pub lane_index: HashMap<(RouteId, LoopId, Priority), LaneId>,
    pub waiters: Arena<WaiterId, Waiter>,
    pub batches: Arena<BatchId, Batch>,
    pub waiting: usize,
    pub seq: u64,
    /// The largest cost that ever waited.
    pub largest: u64,
    pub order: Trees<LaneKey, u64>,
    pub batch_order: Trees<(u64, BatchId), Units>,
    pub timers: Sorted<(Nanos, LimitId)>,
    pub deadlines: Deadlines,
    /// Limits to look at, some of them more than once.
    pub dirty: BinaryHeap<Reverse<LimitId>>,
    /// Empty between two searches; its memory is kept.
    pub candidates: Vec<(LimitId, Candidate)>,
    pub verdicts: Vec<(Ticket, Verdict)>,
    pub shed_orders: ShedOrders,
}

impl Default for Scheduler {
    fn default() -> Self {
        Scheduler {
            lanes: Arena::default(),
            lane_index: HashMap::new(),
            waiters: Arena::default(),
            batches: Arena::default(),
            waiting: 0,
            seq: 0,
            largest: 1,
            order: Trees::default(),
            batch_order: Trees::default(),
            timers: Sorted::default(),
            deadlines: Deadlines::default(),
            dirty: BinaryHeap::new(),
            candidates: Vec::new(),
            verdicts: Vec::new(),
            shed_orders: ShedOrders::default(),
        }
    }
}
