//! The state of the engine, by the machine that owns it.
//!
//! The order is that in which machines may depend on each other: limits, funding, routing, upstream, scheduler. The rules
//! over them are still methods of [`Engine`](super::Engine).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{DefaultHashBuilder, HashMap};

use super::book::Book;
use super::circuit::Passed;
use super::deadlines::Deadlines;
use super::lane::{Lane, Run, Waiter};
use super::loop_index::LoopIndex;
use super::loops::LoopRecord;
use super::names::KeyLimits;
use super::news::Bulletin;
use super::pump::Candidate;
use super::retired::Retired;
use super::roster::Rosters;
use super::route::{LoopType, MAX_KEY_SKELETONS, Service, Skeleton, SkeletonKey};
use super::school::School;
use super::scope::Overlay;
use super::windows::Window;
use super::{Ticket, Units, Verdict};
use crate::contention::LaneKey;
use crate::limit::{Limit, Spec};
use crate::model::call::Shape;
use crate::model::fingerprint::Salt;
use crate::model::priority::Priority;
use crate::model::time::Nanos;
use crate::model::tree::{Sorted, Trees};
use crate::model::{Arena, BatchId, LaneId, LimitId, LoopId, RouteId, RouteTag, ServiceId, SpecId, WaiterId};

/// Limits and their definitions.
#[derive(Debug, Default)]
pub(super) struct Limits {
    pub all: Arena<LimitId, Limit>,
    pub specs: Arena<SpecId, Spec>,
    /// Definitions by name.
    pub spec_names: HashMap<Arc<str>, SpecId>,
    pub key_limits: KeyLimits,
    /// How many configs were in force before this one.
    pub epoch: u32,
    /// Unix time of `Nanos::ZERO`, for calendar windows.
    pub unix_offset: i128,
    /// Units of debt above the bound that were dropped, by limit.
    pub dropped_debt: HashMap<LimitId, u64>,
    /// What the config no longer has, and still counts.
    pub retired: Retired,
    /// The time before which the fast path is open: then a window, a ramp or a slot held from before a restart is due.
    pub attention: Nanos,
    /// By how much calls may overtake each other on their way before replies show it.
    pub apart: Duration,
    /// Limits that changed since their snapshot was taken, if snapshots are kept.
    pub unsaved: Option<BTreeSet<LimitId>>,
}

impl Limits {
    /// Notes that a limit's snapshot is out of date. Returns whether snapshots are kept.
    pub fn note_unsaved(&mut self, limit: LimitId) -> bool {
        let Some(unsaved) = &mut self.unsaved else { return false };
        unsaved.insert(limit);
        true
    }
}

impl Index<LimitId> for Limits {
    type Output = Limit;

    #[inline(always)]
    fn index(&self, limit: LimitId) -> &Limit {
        &self.all[limit]
    }
}

impl IndexMut<LimitId> for Limits {
    #[inline(always)]
    fn index_mut(&mut self, limit: LimitId) -> &mut Limit {
        &mut self.all[limit]
    }
}

/// What limits spend that a lender must grant first.
#[derive(Debug, Default)]
pub(super) struct Funding {
    /// Which limits want how many units, and what they have spent since they last asked.
    pub loan_requests: Vec<(LimitId, u64, u64)>,
    pub lent_limits: BTreeSet<LimitId>,
    /// What is written down before it is spent, if anything is.
    pub book: Option<Box<Book>>,
}

/// Which limits a call passes.
#[derive(Debug)]
pub(super) struct Routing {
    /// Marks routes found under this config by this engine; no other has the same.
    pub tag: RouteTag,
    pub global: Vec<SpecId>,
    pub services: Arena<ServiceId, Service>,
    pub service_index: HashMap<Box<str>, ServiceId>,
    pub loop_types: HashMap<Box<str>, LoopType>,
    pub loop_specs: Vec<SpecId>,
    pub customs: Vec<Arc<str>>,
    pub skeletons: Arena<RouteId, Skeleton>,
    pub key_gc_at: usize,
    pub skeleton_index: HashMap<SkeletonKey, RouteId>,
    pub shapes: HashMap<Arc<Shape>, RouteId>,
    pub loops: Loops,
    /// The salt of the fingerprints that API keys are named by.
    pub salt: Salt,
    /// Backoff windows as routes see them: a limit that joins the routes of a scope.
    pub overlays: Vec<Overlay>,
    /// How many calls may be in flight at once while calls go throttled, by the definition of the rate that they share.
    pub herds: BTreeMap<SpecId, u64>,
}

impl Default for Routing {
    fn default() -> Self {
        Routing {
            tag: RouteTag::fresh(),
            global: Vec::new(),
            services: Arena::default(),
            service_index: HashMap::new(),
            loop_types: HashMap::new(),
            loop_specs: Vec::new(),
            customs: Vec::new(),
            skeletons: Arena::default(),
            key_gc_at: MAX_KEY_SKELETONS,
            skeleton_index: HashMap::new(),
            shapes: HashMap::new(),
            loops: Loops::default(),
            salt: Salt::default(),
            overlays: Vec::new(),
            herds: BTreeMap::new(),
        }
    }
}

/// Loops by id and by name.
#[derive(Debug, Default)]
pub(super) struct Loops {
    pub all: Arena<LoopId, LoopRecord>,
    pub index: LoopIndex,
    pub hasher: DefaultHashBuilder,
    /// The loop at which the sweep for idle loops goes on.
    pub hand: usize,
}

/// What is known of upstreams: windows, breakers, what replies teach.
#[derive(Debug)]
pub(super) struct Upstream {
    pub windows: Vec<Window>,
    /// What all limits of windows are made from.
    pub window_spec: SpecId,
    /// The breaker that each call in flight went through, and in which of its states.
    pub passes: Vec<Option<Passed>>,
    /// Whether a new call waits for a breaker that is open.
    pub patient: bool,
    /// What replies teach.
    pub school: School,
    /// What happened to windows and breakers.
    pub bulletin: Bulletin,
}

impl Default for Upstream {
    fn default() -> Self {
        Upstream {
            windows: Vec::new(),
            window_spec: SpecId::NIL,
            passes: Vec::new(),
            patient: false,
            school: School::default(),
            bulletin: Bulletin::default(),
        }
    }
}

/// Calls that wait.
#[derive(Debug)]
pub(super) struct Scheduler {
    pub lanes: Arena<LaneId, Lane>,
    pub lane_index: HashMap<(RouteId, LoopId, Priority), LaneId>,
    pub waiters: Arena<WaiterId, Waiter>,
    pub runs: Arena<BatchId, Run>,
    pub waiting: usize,
    pub seq: u64,
    /// The largest cost that ever waited.
    pub largest: u64,
    pub order: Trees<LaneKey, u64>,
    pub run_order: Trees<(u64, BatchId), Units>,
    pub timers: Sorted<(Nanos, LimitId)>,
    pub deadlines: Deadlines,
    /// Limits to look at, some of them more than once.
    pub dirty: BinaryHeap<Reverse<LimitId>>,
    /// Empty between two searches; its memory is kept.
    pub candidates: Vec<(LimitId, Candidate)>,
    pub verdicts: Vec<(Ticket, Verdict)>,
    pub rosters: Rosters,
}

impl Default for Scheduler {
    fn default() -> Self {
        Scheduler {
            lanes: Arena::default(),
            lane_index: HashMap::new(),
            waiters: Arena::default(),
            runs: Arena::default(),
            waiting: 0,
            seq: 0,
            largest: 1,
            order: Trees::default(),
            run_order: Trees::default(),
            timers: Sorted::default(),
            deadlines: Deadlines::default(),
            dirty: BinaryHeap::new(),
            candidates: Vec::new(),
            verdicts: Vec::new(),
            rosters: Rosters::default(),
        }
    }
}
