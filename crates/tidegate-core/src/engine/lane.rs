//! Lanes, and the calls that wait in them.
//!
//! A lane is a list, since its calls come at the end, mostly go at the head, and may leave from anywhere. Calls
//! that came one right after the other and are alike form a *run*; most lanes are a single one. What a lane
//! must be able to find, the first call that would fit, it finds by its runs, which stand in a tree.

use std::sync::Arc;

use hashbrown::HashMap;

use super::held::Stations;
use super::layout::Use;
use super::route::Skeleton;
use super::{Engine, MAX_UNIT_KINDS, Units};
use crate::contention::LaneKey;
use crate::model::call::Shape;
use crate::model::priority::Priority;
use crate::model::time::Nanos;
use crate::model::tree::NIL;
use crate::model::{BatchId, LaneId, LimitId, LoopId, RouteId, WaiterId};

/// When a call first came, and before whom. See [`Engine::arrived`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrived {
    pub(super) seq: u64,
    pub(super) at: Nanos,
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
    pub skeleton: RouteId,
    pub loop_: LoopId,
    pub class: Priority,
    pub route: Arc<[Use]>,
    /// The first and the last of its calls.
    pub head: WaiterId,
    pub tail: WaiterId,
    pub len: u32,
    /// Its runs, by arrival.
    pub runs: u32,
    /// Units waiting, by kind.
    pub demand: [u128; MAX_UNIT_KINDS],
    /// The limit that decides its time, and its place there.
    pub bound: LimitId,
    pub slot: u8,
    pub key: LaneKey,
    pub stations: Stations,
    /// The least that any of its calls costs at that limit.
    pub least: u64,
    /// Where the roster counts it.
    roster: u32,
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
pub(crate) struct Run {
    pub lane: LaneId,
    /// The first of its calls, and how many there are.
    pub first: WaiterId,
    pub len: u32,
    /// The arrival of the call that began it.
    pub seq: u64,
    pub like: Like,
}

/// What calls of one lane may differ in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Like {
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

impl Engine {
    /// The lane of a route, loop and priority, made if it is not there.
    pub(super) fn lane_for(&mut self, skeleton: RouteId, loop_: LoopId, class: Priority) -> LaneId {
        if let Some(lane) = self.scheduler.lane_index.get(&(skeleton, loop_, class)) {
            return *lane;
        }
        let service = self.routing.skeletons[skeleton].service;
        let lane = Lane {
            skeleton,
            loop_,
            class,
            route: self.route_of(skeleton, loop_).into(),
            head: WaiterId::NIL,
            tail: WaiterId::NIL,
            len: 0,
            runs: NIL,
            demand: [0; MAX_UNIT_KINDS],
            bound: LimitId::NIL,
            slot: 0,
            key: (0, 0, LaneId::NIL),
            stations: Stations::default(),
            least: 0,
            roster: 0,
        };
        let index = self.scheduler.lanes.insert(lane);
        self.scheduler.lanes[index].roster =
            self.scheduler.rosters.of(service)[class as usize].add_lane(loop_, index);
        self.scheduler.lane_index.insert((skeleton, loop_, class), index);
        self.routing.skeletons[skeleton].lanes += 1;
        self.pin_loop(loop_);
        self.count_passing(index, 1);
        index
    }

    /// A lane begins or ceases to wait. Limits on its route know who passes through them, wherever that one is
    /// bound: what is saved up for going by age lasts as long as anybody waits, and whom a reserve holds back
    /// depends on who does.
    pub(super) fn count_passing(&mut self, lane: LaneId, by: i32) {
        let Lane { class, ref route, .. } = self.scheduler.lanes[lane];
        let route = route.clone();
        for &(limit, _) in route.iter() {
            let contention = self.contention(limit);
            let passing = &mut contention.passing[class as usize];
            let before = *passing;
            *passing = passing.saturating_add_signed(by);
            let changed = before == 0 || *passing == 0;
            if contention.passing == [0; 4] {
                contention.credit = 0;
            }
            if changed && self.reserves(limit) {
                self.touched(limit);
            }
            self.tidy(limit);
        }
    }

    /// A place for a call that is about to wait.
    pub(super) fn new_waiter(&mut self, arrived: Arrived) -> WaiterId {
        let Arrived { seq, at: enqueued } = arrived;
        match self.scheduler.waiters.reuse() {
            Some(index) => {
                let waiter = &mut self.scheduler.waiters[index];
                (waiter.seq, waiter.enqueued) = (seq, enqueued);
                index
            }
            None => {
                let (run, ahead, behind) = (BatchId::NIL, WaiterId::NIL, WaiterId::NIL);
                self.scheduler.waiters.insert(Waiter { generation: 0, run, ahead, behind, seq, enqueued })
            }
        }
    }

    /// Puts a waiter where it belongs in a lane: at the end, unless calls wait there that came later.
    pub(super) fn push_waiter(&mut self, waiter: WaiterId, lane: LaneId, like: Like, deadline: Nanos) {
        let units = like.units;
        for &(limit, slot) in self.scheduler.lanes[lane].route.iter() {
            if !self.limits[limit].meter.is_in_flight() {
                self.scheduler.largest = self.scheduler.largest.max(units[slot as usize]);
            }
        }
        self.scheduler.deadlines.insert(waiter, deadline);
        self.scheduler.waiting += 1;
        self.count_waiting(lane, 1);
        match self.first_later(waiter, lane) {
            None => self.append(waiter, lane, like),
            Some(later) => self.insert_before(later, waiter, lane, like),
        }
        let behind_another = self.scheduler.lanes[lane].head != waiter;
        self.length_changed(lane, behind_another, &units, 1);
    }

    /// Takes a waiter out of its lane; an empty lane goes.
    pub(super) fn pull_waiter(&mut self, waiter: WaiterId) {
        self.scheduler.deadlines.remove(waiter);
        self.scheduler.waiters.free(waiter);
        self.scheduler.waiting -= 1;
        let Waiter { ref mut generation, run, ahead, behind, .. } = self.scheduler.waiters[waiter];
        *generation = generation.wrapping_add(1);
        let held = &mut self.scheduler.runs[run];
        let (lane, units) = (held.lane, held.like.units);
        held.len -= 1;
        if held.first == waiter {
            held.first = behind;
        }
        if held.len == 0 {
            let key = (held.seq, run);
            self.scheduler.run_order.remove(&mut self.scheduler.lanes[lane].runs, key);
            self.scheduler.runs.free(run);
        }
        let held = &mut self.scheduler.lanes[lane];
        held.len -= 1;
        for (sum, units) in held.demand.iter_mut().zip(units) {
            *sum -= u128::from(units);
        }
        match ahead {
            WaiterId::NIL => held.head = behind,
            ahead => self.scheduler.waiters[ahead].behind = behind,
        }
        match behind {
            WaiterId::NIL => held.tail = ahead,
            behind => self.scheduler.waiters[behind].ahead = ahead,
        }
        self.count_waiting(lane, -1);
        self.length_changed(lane, !ahead.is_nil(), &units, -1);
        if self.scheduler.lanes[lane].head.is_nil() {
            self.drop_lane(lane);
        }
    }

    /// Gives calls of a lane other units. The lane keeps its place, and they keep theirs in it.
    pub(super) fn resize(&mut self, lane: LaneId, changed: &HashMap<WaiterId, Units>) {
        let alike = |waiter: WaiterId| {
            let like = &self.run_of(waiter).like;
            let units = *changed.get(&waiter).unwrap_or(&like.units);
            (waiter, Like { units, ..like.clone() })
        };
        let calls: Vec<(WaiterId, Like)> = self.calls_of(lane).map(alike).collect();
        let Lane { demand: before, slot, .. } = self.scheduler.lanes[lane];
        let slot = slot as usize;
        self.refill(lane, calls);
        let demand = self.scheduler.lanes[lane].demand[slot];
        self.change_demand(lane, demand as i128 - before[slot] as i128);
        self.replace_lane(lane);
    }

    /// Has just these calls wait in a lane, in this order.
    pub(super) fn refill(&mut self, lane: LaneId, calls: Vec<(WaiterId, Like)>) {
        let held = &mut self.scheduler.lanes[lane];
        (held.head, held.tail, held.len) = (WaiterId::NIL, WaiterId::NIL, 0);
        held.demand = [0; MAX_UNIT_KINDS];
        while let Some(key) = self.scheduler.run_order.first(held.runs) {
            self.scheduler.run_order.remove(&mut held.runs, key);
            self.scheduler.runs.free(key.1);
        }
        for (waiter, like) in calls {
            self.append(waiter, lane, like);
        }
    }

    fn append(&mut self, waiter: WaiterId, lane: LaneId, like: Like) {
        let held = &mut self.scheduler.lanes[lane];
        held.count(&like.units);
        let tail = std::mem::replace(&mut held.tail, waiter);
        let last_run = match tail {
            WaiterId::NIL => {
                held.head = waiter;
                BatchId::NIL
            }
            tail => {
                self.scheduler.waiters[tail].behind = waiter;
                self.scheduler.waiters[tail].run
            }
        };
        let run = match self.scheduler.runs.get_mut(last_run) {
            Some(run) if run.like == like => {
                run.len += 1;
                last_run
            }
            _ => self.begin_run(waiter, lane, like),
        };
        let held = &mut self.scheduler.waiters[waiter];
        (held.run, held.ahead, held.behind) = (run, tail, WaiterId::NIL);
    }

    pub(super) fn begin_run(&mut self, waiter: WaiterId, lane: LaneId, like: Like) -> BatchId {
        let seq = self.scheduler.waiters[waiter].seq;
        let units = like.units;
        let run = Run { lane, first: waiter, len: 1, seq, like };
        let index = self.scheduler.runs.insert(run);
        self.scheduler.run_order.insert(&mut self.scheduler.lanes[lane].runs, (seq, index), units);
        index
    }

    /// A call came to a lane or left it. Behind a first call that costs the same it makes no difference to
    /// anybody but itself: whenever it could go, that one could, and goes before it. Only the demand changes.
    fn length_changed(&mut self, lane: LaneId, behind_another: bool, units: &Units, sign: i128) {
        self.change_demand(lane, sign * i128::from(units[self.scheduler.lanes[lane].slot as usize]));
        if !(behind_another && self.head_units(lane) == *units) {
            self.replace_lane(lane);
        }
    }

    /// The first call of a lane.
    pub(super) fn head(&self, lane: LaneId) -> Option<WaiterId> {
        let head = self.scheduler.lanes[lane].head;
        (!head.is_nil()).then_some(head)
    }

    /// The run that a waiting call is of.
    pub(super) fn run_of(&self, waiter: WaiterId) -> &Run {
        &self.scheduler.runs[self.scheduler.waiters[waiter].run]
    }

    /// The calls of a lane, by arrival.
    pub(super) fn calls_of(&self, lane: LaneId) -> impl Iterator<Item = WaiterId> + '_ {
        let head = self.head(lane);
        std::iter::successors(head, |call| {
            let behind = self.scheduler.waiters[*call].behind;
            (!behind.is_nil()).then_some(behind)
        })
    }

    pub(super) fn count_waiting(&mut self, lane: LaneId, by: i32) {
        let Lane { skeleton, class, roster, .. } = self.scheduler.lanes[lane];
        let Skeleton { service, inverse, .. } = self.routing.skeletons[skeleton];
        self.scheduler.rosters.of(service)[class as usize].count(roster, inverse, by);
    }

    pub(super) fn drop_lane(&mut self, lane: LaneId) {
        self.unbind(lane);
        self.count_passing(lane, -1);
        let Lane { skeleton, loop_, class, .. } = self.scheduler.lanes[lane];
        self.scheduler.lane_index.remove(&(skeleton, loop_, class));
        self.routing.skeletons[skeleton].lanes -= 1;
        self.unpin_loop(loop_);
        let service = self.routing.skeletons[skeleton].service;
        self.scheduler.rosters.of(service)[class as usize].remove_lane(loop_, lane);
        self.scheduler.lanes.free(lane);
    }
}
