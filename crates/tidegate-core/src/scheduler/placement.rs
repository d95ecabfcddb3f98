//! Calls come into lanes and leave them.

use crate::calls::Arrival;
use crate::model::call::Call;
use crate::model::priority::Priority;
use crate::model::time::Nanos;
use crate::model::tree::NIL;
use crate::model::{BatchId, LaneId, LimitId, LoopId, MAX_UNIT_KINDS, RouteId, Units, WaiterId};
use crate::routing::route::Route;
use crate::routing::state::Base;
use crate::routing::{find, loop_table};
use crate::scheduler::block_history::BlockHistory;
use crate::scheduler::lane::{Arrived, Batch, CallTraits, Lane, Waiter};
use crate::scheduler::state::Scheduler;
use crate::scheduler::{bind, lanes, marks, queue};
use hashbrown::HashMap;

/// Gives a call its place in its lane: the call, and the lane.
pub(crate) fn seat(
    s: &mut Scheduler,
    base: &mut Base,
    arrival: &Arrival,
    call: &Call,
    deadline: Nanos,
    arrived: Arrived,
) -> (WaiterId, LaneId) {
    let lane = lane_for(s, base, arrival.route_id, arrival.loop_, arrival.class);
    let waiter = new_waiter(s, arrived);
    let like =
        CallTraits { units: arrival.units, estimated: call.said.estimated, shape: call.said.shape.clone() };
    push_waiter(s, base, waiter, lane, like, deadline);
    (waiter, lane)
}

/// Returns the next arrival: a call that comes now ranks behind all that came before.
pub(crate) fn arrived(s: &mut Scheduler, now: Nanos) -> Arrived {
    s.seq += 1;
    Arrived { seq: s.seq, at: now }
}

/// The first call of a lane that came after this one.
fn first_later(s: &Scheduler, waiter: WaiterId, lane: LaneId) -> Option<WaiterId> {
    let seq = |waiter: WaiterId| s.waiters[waiter].seq;
    let Lane { tail, .. } = s.lanes[lane];
    match tail {
        WaiterId::NIL => None,
        tail if seq(tail) < seq(waiter) => None,
        _ => lanes::calls_of(s, lane).find(|other| seq(*other) > seq(waiter)),
    }
}

/// Puts a waiter before a call of its lane.
fn insert_before(s: &mut Scheduler, later: WaiterId, waiter: WaiterId, lane: LaneId, like: CallTraits) {
    let Waiter { run: later_run, ahead, .. } = s.waiters[later];
    let first_of_run = s.batches[later_run].first == later;
    let ahead_run = s.waiters.get(ahead).map_or(BatchId::NIL, |ahead| ahead.run);
    let is_like = |run: BatchId| s.batches.get(run).is_some_and(|run| run.like == like);
    let run = match (is_like(later_run), is_like(ahead_run)) {
        (true, _) => later_run,
        (false, true) if first_of_run => ahead_run,
        (false, _) if first_of_run => BatchId::NIL,
        (false, _) => return split(s, later, waiter, lane, like),
    };
    s.lanes[lane].count(&like.units);
    match ahead {
        WaiterId::NIL => s.lanes[lane].head = waiter,
        ahead => s.waiters[ahead].behind = waiter,
    }
    s.waiters[later].ahead = waiter;
    let held = &mut s.waiters[waiter];
    (held.ahead, held.behind) = (ahead, later);
    let run = match s.batches.get_mut(run) {
        Some(held) => {
            held.len += 1;
            if held.first == later {
                held.first = waiter;
            }
            run
        }
        None => {
            let run = begin_batch(s, waiter, lane, like);
            let seq = |run: BatchId| s.batches.get(run).map_or(0, |run| run.seq);
            if !(seq(ahead_run) < seq(run) && seq(run) < seq(later_run)) {
                order_batches(s, lane);
            }
            run
        }
    };
    s.waiters[waiter].run = run;
}

/// Puts a waiter into the midst of calls that are alike and unlike it.
fn split(s: &mut Scheduler, later: WaiterId, waiter: WaiterId, lane: LaneId, like: CallTraits) {
    let known = |call: WaiterId| (call, lanes::batch_of(s, call).like.clone());
    let mut calls: Vec<(WaiterId, CallTraits)> = lanes::calls_of(s, lane).map(known).collect();
    let place = calls.iter().position(|(call, _)| *call == later).unwrap_or(calls.len());
    calls.insert(place, (waiter, like));
    refill(s, lane, calls);
}

/// Runs are found by the arrival of the call that began them, which may have gone. A call that came back may
/// be older than that one, or younger: then runs are put in the order of the calls that are there.
fn order_batches(s: &mut Scheduler, lane: LaneId) {
    let mut batches = Vec::new();
    s.batch_order.each(s.lanes[lane].batches, &mut |(_, run)| {
        batches.push(run);
        true
    });
    for run in batches {
        let root = &mut s.lanes[lane].batches;
        let held = &mut s.batches[run];
        s.batch_order.remove(root, (held.seq, run));
        held.seq = s.waiters[held.first].seq;
        s.batch_order.insert(root, (held.seq, run), held.like.units);
    }
}

/// The lane of a route, loop and priority, made if it is not there.
pub(crate) fn lane_for(
    s: &mut Scheduler,
    base: &mut Base,
    route_id: RouteId,
    loop_: LoopId,
    class: Priority,
) -> LaneId {
    if let Some(lane) = s.lane_index.get(&(route_id, loop_, class)) {
        return *lane;
    }
    let service = base.routing.routes[route_id].service;
    let lane = Lane {
        route_id,
        loop_,
        class,
        route: find::route_of(base, route_id, loop_).into(),
        head: WaiterId::NIL,
        tail: WaiterId::NIL,
        len: 0,
        batches: NIL,
        demand: [0; MAX_UNIT_KINDS],
        bound: LimitId::NIL,
        slot: 0,
        key: (0, 0, LaneId::NIL),
        block_history: BlockHistory::default(),
        least: 0,
        roster: 0,
    };
    let index = s.lanes.insert(lane);
    s.lanes[index].roster = s.shed_orders.of(service)[class as usize].add_lane(loop_, index);
    s.lane_index.insert((route_id, loop_, class), index);
    base.routing.routes[route_id].lanes += 1;
    loop_table::pin_loop(base, loop_);
    count_passing(s, base, index, 1);
    index
}

/// A lane begins or ceases to wait. Limits on its route know who passes through them, wherever that one is
/// bound: what is saved up for going by age lasts as long as anybody waits, and whom a reserve holds back
/// depends on who does.
pub(crate) fn count_passing(s: &mut Scheduler, base: &mut Base, lane: LaneId, by: i32) {
    let Lane { class, ref route, .. } = s.lanes[lane];
    let route = route.clone();
    for &(limit, _) in route.iter() {
        let queue = queue::queue_at(&mut base.limits, limit);
        let passing = &mut queue.passing[class as usize];
        let before = *passing;
        *passing = passing.saturating_add_signed(by);
        let changed = before == 0 || *passing == 0;
        if queue.passing == [0; 4] {
            queue.credit = 0;
        }
        if changed && base.limits.reserves(limit) {
            marks::touched(s, base, limit);
        }
        marks::tidy(s, base, limit);
    }
}

/// A place for a call that is about to wait.
pub(crate) fn new_waiter(s: &mut Scheduler, arrived: Arrived) -> WaiterId {
    let Arrived { seq, at: enqueued } = arrived;
    match s.waiters.reuse() {
        Some(index) => {
            let waiter = &mut s.waiters[index];
            (waiter.seq, waiter.enqueued) = (seq, enqueued);
            index
        }
        None => {
            let (run, ahead, behind) = (BatchId::NIL, WaiterId::NIL, WaiterId::NIL);
            s.waiters.insert(Waiter { generation: 0, run, ahead, behind, seq, enqueued })
        }
    }
}

/// Puts a waiter where it belongs in a lane: at the end, unless calls wait there that came later.
pub(crate) fn push_waiter(
    s: &mut Scheduler,
    base: &mut Base,
    waiter: WaiterId,
    lane: LaneId,
    like: CallTraits,
    deadline: Nanos,
) {
    let units = like.units;
    for &(limit, slot) in s.lanes[lane].route.iter() {
        if !base.limits[limit].meter.is_in_flight() {
            s.largest = s.largest.max(units[slot as usize]);
        }
    }
    s.deadlines.insert(waiter, deadline);
    s.waiting += 1;
    count_waiting(s, base, lane, 1);
    match first_later(s, waiter, lane) {
        None => append(s, waiter, lane, like),
        Some(later) => insert_before(s, later, waiter, lane, like),
    }
    let behind_another = s.lanes[lane].head != waiter;
    length_changed(s, base, lane, behind_another, &units, 1);
}

/// Takes a waiter out of its lane; an empty lane goes.
pub(crate) fn pull_waiter(s: &mut Scheduler, base: &mut Base, waiter: WaiterId) {
    s.deadlines.remove(waiter);
    s.waiters.free(waiter);
    s.waiting -= 1;
    let Waiter { ref mut generation, run, ahead, behind, .. } = s.waiters[waiter];
    *generation = generation.wrapping_add(1);
    let held = &mut s.batches[run];
    let (lane, units) = (held.lane, held.like.units);
    held.len -= 1;
    if held.first == waiter {
        held.first = behind;
    }
    if held.len == 0 {
        let key = (held.seq, run);
        s.batch_order.remove(&mut s.lanes[lane].batches, key);
        s.batches.free(run);
    }
    let held = &mut s.lanes[lane];
    held.len -= 1;
    for (sum, units) in held.demand.iter_mut().zip(units) {
        *sum -= u128::from(units);
    }
    match ahead {
        WaiterId::NIL => held.head = behind,
        ahead => s.waiters[ahead].behind = behind,
    }
    match behind {
        WaiterId::NIL => held.tail = ahead,
        behind => s.waiters[behind].ahead = ahead,
    }
    count_waiting(s, base, lane, -1);
    length_changed(s, base, lane, !ahead.is_nil(), &units, -1);
    if s.lanes[lane].head.is_nil() {
        drop_lane(s, base, lane);
    }
}

/// Gives calls of a lane other units. The lane keeps its place, and they keep theirs in it.
pub(crate) fn resize(s: &mut Scheduler, base: &mut Base, lane: LaneId, changed: &HashMap<WaiterId, Units>) {
    let alike = |waiter: WaiterId| {
        let like = &lanes::batch_of(s, waiter).like;
        let units = *changed.get(&waiter).unwrap_or(&like.units);
        (waiter, CallTraits { units, ..like.clone() })
    };
    let calls: Vec<(WaiterId, CallTraits)> = lanes::calls_of(s, lane).map(alike).collect();
    let Lane { demand: before, slot, .. } = s.lanes[lane];
    let slot = slot as usize;
    refill(s, lane, calls);
    let demand = s.lanes[lane].demand[slot];
    bind::change_demand(s, base, lane, demand as i128 - before[slot] as i128);
    bind::replace_lane(s, base, lane);
}

/// Has just these calls wait in a lane, in this order.
fn refill(s: &mut Scheduler, lane: LaneId, calls: Vec<(WaiterId, CallTraits)>) {
    let held = &mut s.lanes[lane];
    (held.head, held.tail, held.len) = (WaiterId::NIL, WaiterId::NIL, 0);
    held.demand = [0; MAX_UNIT_KINDS];
    while let Some(key) = s.batch_order.first(held.batches) {
        s.batch_order.remove(&mut held.batches, key);
        s.batches.free(key.1);
    }
    for (waiter, like) in calls {
        append(s, waiter, lane, like);
    }
}

fn append(s: &mut Scheduler, waiter: WaiterId, lane: LaneId, like: CallTraits) {
    let held = &mut s.lanes[lane];
    held.count(&like.units);
    let tail = std::mem::replace(&mut held.tail, waiter);
    let last_batch = match tail {
        WaiterId::NIL => {
            held.head = waiter;
            BatchId::NIL
        }
        tail => {
            s.waiters[tail].behind = waiter;
            s.waiters[tail].run
        }
    };
    let run = match s.batches.get_mut(last_batch) {
        Some(run) if run.like == like => {
            run.len += 1;
            last_batch
        }
        _ => begin_batch(s, waiter, lane, like),
    };
    let held = &mut s.waiters[waiter];
    (held.run, held.ahead, held.behind) = (run, tail, WaiterId::NIL);
}

fn begin_batch(s: &mut Scheduler, waiter: WaiterId, lane: LaneId, like: CallTraits) -> BatchId {
    let seq = s.waiters[waiter].seq;
    let units = like.units;
    let run = Batch { lane, first: waiter, len: 1, seq, like };
    let index = s.batches.insert(run);
    s.batch_order.insert(&mut s.lanes[lane].batches, (seq, index), units);
    index
}

/// A call came to a lane or left it. Behind a first call that costs the same it makes no difference to
/// anybody but itself: whenever it could go, that one could, and goes before it. Only the demand changes.
fn length_changed(
    s: &mut Scheduler,
    base: &mut Base,
    lane: LaneId,
    behind_another: bool,
    units: &Units,
    sign: i128,
) {
    bind::change_demand(s, base, lane, sign * i128::from(units[s.lanes[lane].slot as usize]));
    if !(behind_another && lanes::head_units(s, lane) == *units) {
        bind::replace_lane(s, base, lane);
    }
}

pub(crate) fn count_waiting(s: &mut Scheduler, base: &mut Base, lane: LaneId, by: i32) {
    let Lane { route_id, class, roster, .. } = s.lanes[lane];
    let Route { service, ref terms, .. } = base.routing.routes[route_id];
    s.shed_orders.of(service)[class as usize].count(roster, terms.inverse, by);
}

pub(crate) fn drop_lane(s: &mut Scheduler, base: &mut Base, lane: LaneId) {
    bind::unbind(s, base, lane);
    count_passing(s, base, lane, -1);
    let Lane { route_id, loop_, class, .. } = s.lanes[lane];
    s.lane_index.remove(&(route_id, loop_, class));
    base.routing.routes[route_id].lanes -= 1;
    loop_table::unpin_loop(base, loop_);
    let service = base.routing.routes[route_id].service;
    s.shed_orders.of(service)[class as usize].remove_lane(loop_, lane);
    s.lanes.free(lane);
}
