//! Lanes and waiters: the calls that wait, and where they stand.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;

use super::{Engine, MAX_UNIT_KINDS, Units};
use crate::call::Shape;
use crate::priority::Priority;
use crate::time::Nanos;
use crate::tree::NIL;

/// One limit of a route, and which of the call's units it counts.
pub(crate) type Use = (u32, u8);

/// Calls of one route, loop and priority, first come first served.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub skeleton: u32,
    pub loop_: u32,
    pub class: Priority,
    pub route: Arc<[Use]>,
    /// The waiting calls, by arrival.
    pub calls: u32,
    pub len: u32,
    /// Units waiting, by kind.
    pub demand: [u128; MAX_UNIT_KINDS],
    /// The limit that decides its time, and its place there.
    pub bound: u32,
    pub slot: u8,
    pub tag: u128,
    pub seq: u64,
}

/// A waiting call.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub generation: u32,
    pub lane: u32,
    pub seq: u64,
    pub units: Units,
    pub enqueued: Nanos,
    pub deadline: Nanos,
    pub estimated: bool,
    pub shape: Arc<Shape>,
}

/// Who waits in one service and priority, to find whom to shed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roster {
    pub waiting: u32,
    flows: HashMap<u32, RosterFlow>,
    /// Loops by how much they have waiting for their weight.
    order: BTreeSet<(u128, u32)>,
}

#[derive(Clone, Debug, Default)]
struct RosterFlow {
    waiting: u32,
    /// Its place in the order. Its calls may name loop types of different weights.
    place: u128,
    lanes: Vec<u32>,
}

impl Roster {
    pub fn count(&mut self, loop_: u32, inverse: u64, by: i32) {
        let flow = self.flows.entry(loop_).or_default();
        self.order.remove(&(flow.place, loop_));
        flow.waiting = flow.waiting.saturating_add_signed(by);
        self.waiting = self.waiting.saturating_add_signed(by);
        if flow.waiting > 0 {
            flow.place = u128::from(flow.waiting) * u128::from(inverse);
            self.order.insert((flow.place, loop_));
        } else {
            self.flows.remove(&loop_);
        }
    }

    pub fn add_lane(&mut self, loop_: u32, lane: u32) {
        self.flows.entry(loop_).or_default().lanes.push(lane);
    }

    pub fn remove_lane(&mut self, loop_: u32, lane: u32) {
        if let Some(flow) = self.flows.get_mut(&loop_) {
            flow.lanes.retain(|known| *known != lane);
        }
    }

    /// The loop with the most waiting for its weight, and how much that is.
    pub fn largest(&self) -> Option<(u128, u32)> {
        self.order.last().copied()
    }

    pub fn lanes_of(&self, loop_: u32) -> &[u32] {
        self.flows.get(&loop_).map_or(&[], |flow| &flow.lanes)
    }
}

impl Engine {
    /// The lane of a route, loop and priority, made if it is not there.
    pub(super) fn lane_for(&mut self, skeleton: u32, loop_: u32, class: Priority) -> u32 {
        if let Some(lane) = self.lane_index.get(&(skeleton, loop_, class)) {
            return *lane;
        }
        let lane = Lane {
            skeleton,
            loop_,
            class,
            route: self.route_of(skeleton, loop_).into(),
            calls: NIL,
            len: 0,
            demand: [0; MAX_UNIT_KINDS],
            bound: NIL,
            slot: 0,
            tag: 0,
            seq: 0,
        };
        let index = match self.free_lanes.pop() {
            Some(index) => {
                self.lanes[index as usize] = lane;
                index
            }
            None => {
                self.lanes.push(lane);
                (self.lanes.len() - 1) as u32
            }
        };
        self.lane_index.insert((skeleton, loop_, class), index);
        self.skeletons[skeleton as usize].lanes += 1;
        self.pin_loop(loop_);
        let service = self.skeletons[skeleton as usize].service;
        self.services[service as usize].rosters[class as usize].add_lane(loop_, index);
        index
    }

    /// Puts a waiter into its lane and says whether the lane's place may have changed.
    pub(super) fn push_waiter(&mut self, waiter: u32) {
        let (lane, seq, units) = {
            let waiter = &self.waiters[waiter as usize];
            (waiter.lane, waiter.seq, waiter.units)
        };
        let held = &mut self.lanes[lane as usize];
        let mut root = held.calls;
        held.len += 1;
        for (sum, units) in held.demand.iter_mut().zip(units) {
            *sum += u128::from(units);
        }
        self.calls.insert(&mut root, (seq, waiter), units);
        self.lanes[lane as usize].calls = root;
        self.waiting += 1;
        self.count_waiting(lane, 1);
        self.replace_lane(lane, units[self.lanes[lane as usize].slot as usize] as i128);
    }

    /// Takes a waiter out of its lane; an empty lane goes.
    pub(super) fn pull_waiter(&mut self, waiter: u32) {
        let (lane, seq, units, deadline) = {
            let waiter = &mut self.waiters[waiter as usize];
            waiter.generation = waiter.generation.wrapping_add(1);
            (waiter.lane, waiter.seq, waiter.units, waiter.deadline)
        };
        if !deadline.is_never() {
            self.deadlines.remove(&(deadline, waiter));
        }
        let held = &mut self.lanes[lane as usize];
        let mut root = held.calls;
        held.len -= 1;
        for (sum, units) in held.demand.iter_mut().zip(units) {
            *sum -= u128::from(units);
        }
        self.calls.remove(&mut root, (seq, waiter));
        self.lanes[lane as usize].calls = root;
        self.waiting -= 1;
        self.count_waiting(lane, -1);
        self.free_waiters.push(waiter);
        self.replace_lane(lane, -(units[self.lanes[lane as usize].slot as usize] as i128));
        if self.lanes[lane as usize].len == 0 {
            self.drop_lane(lane);
        }
    }

    /// The first call of a lane.
    pub(super) fn head(&self, lane: u32) -> Option<u32> {
        self.calls.first(self.lanes[lane as usize].calls).map(|(_, waiter)| waiter)
    }

    fn count_waiting(&mut self, lane: u32, by: i32) {
        let Lane { skeleton, loop_, class, .. } = self.lanes[lane as usize];
        let (service, inverse) = {
            let skeleton = &self.skeletons[skeleton as usize];
            (skeleton.service, skeleton.inverse)
        };
        self.services[service as usize].rosters[class as usize].count(loop_, inverse, by);
    }

    fn drop_lane(&mut self, lane: u32) {
        self.unbind(lane);
        let Lane { skeleton, loop_, class, .. } = self.lanes[lane as usize];
        self.lane_index.remove(&(skeleton, loop_, class));
        self.skeletons[skeleton as usize].lanes -= 1;
        self.unpin_loop(loop_);
        let service = self.skeletons[skeleton as usize].service;
        self.services[service as usize].rosters[class as usize].remove_lane(loop_, lane);
        self.free_lanes.push(lane);
    }
}
