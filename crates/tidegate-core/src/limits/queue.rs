//! Who waits at a limit, and in what order.
//!
//! Calls of one route, loop and priority form a *lane*, first come first served; what is ranked at a limit
//! is the lane, by its first call. Inside a base priority lanes are ordered by their loop's start tag at
//! this limit (start-time fair queueing in the limit's own units), then by arrival. Tags live as long as
//! somebody waits here: a limit without a queue has no history, and everybody starts equal.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use crate::model::time::Nanos;
use crate::model::tree::NIL;
use crate::model::{LaneId, LimitId, LoopId};

/// Orders lanes inside a class: start tag, arrival of its first call, the lane itself.
pub(crate) type LaneKey = (u128, u64, LaneId);

/// One limit's queue and the bookings that pass through it.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// Waiting lanes by base priority.
    pub classes: [Option<Box<Class>>; 4],
    /// How many lanes are bound here.
    pub bound: u32,
    /// The rate limits at which lanes are bound whose route passes through here, and how many lanes.
    pub through: BTreeMap<LimitId, u32>,
    /// How many waiting lanes of each priority pass through here, wherever they are bound.
    pub passing: [u32; 4],
    /// Limits to look at again when something changes here.
    pub watchers: Vec<LimitId>,
    /// What may still go past a higher priority by age alone, in millionths of a unit.
    pub credit: i128,
    /// When to look again.
    pub wake: Nanos,
    /// The lane that was first when last looked at, and what it was booked for.
    pub first: LaneId,
    pub booked: Nanos,
}

impl Default for Queue {
    fn default() -> Self {
        Queue {
            classes: [None, None, None, None],
            bound: 0,
            through: BTreeMap::new(),
            passing: [0; 4],
            watchers: Vec::new(),
            credit: 0,
            wake: Nanos::NEVER,
            first: LaneId::NIL,
            booked: Nanos::NEVER,
        }
    }
}

impl Queue {
    /// Whether nobody waits here or passes through.
    pub fn is_over(&self) -> bool {
        self.passing == [0; 4] && self.bound == 0 && self.through.is_empty() && self.watchers.is_empty()
    }
}

/// The lanes of one base priority at one limit.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    /// The start tag of the last call that went in turn.
    pub vtime: u128,
    /// Loops with something waiting, or with more service than the virtual time.
    pub flows: HashMap<LoopId, Flow>,
    /// The root of the order.
    pub root: u32,
    /// Units waiting.
    pub demand: u128,
    /// The sum of the active loops' weights, in units of 2⁻³².
    pub weights: u128,
    pub active: u32,
}

impl Default for Class {
    fn default() -> Self {
        Class { vtime: 0, flows: HashMap::new(), root: NIL, demand: 0, weights: 0, active: 0 }
    }
}

/// One loop's service at one limit. The loop is not forgotten as long as this is here: another would get its
/// place, and pay for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    /// The start tag of its next call.
    pub finish: u128,
    /// What it adds to the class's weights while it has something waiting: the weight under which it began
    /// to wait, whatever loop types its other calls name.
    pub weight: u128,
    pub lanes: Vec<LaneId>,
}

impl Class {
    /// The start tag of the next call of a loop.
    pub fn tag(&self, loop_: LoopId) -> u128 {
        self.flows.get(&loop_).map_or(self.vtime, |flow| flow.finish.max(self.vtime))
    }

    /// Forgets loops that are no better or worse off than one that was never here; says which.
    #[must_use]
    pub fn forget_idle(&mut self) -> Vec<LoopId> {
        let mut forgotten = Vec::new();
        if self.flows.len() > 64 + 2 * self.active as usize {
            let vtime = self.vtime;
            self.flows.retain(|loop_, flow| {
                let kept = !flow.lanes.is_empty() || flow.finish > vtime;
                if !kept {
                    forgotten.push(*loop_);
                }
                kept
            });
        }
        forgotten
    }
}
