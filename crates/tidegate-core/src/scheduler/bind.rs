//! Binds a lane to the limit that decides its time, and keeps the fair shares of loops there.

use crate::limits::queue::LaneKey;
use crate::model::{LaneId, LimitId, LoopId, RouteId};
use crate::routing::loop_table;
use crate::routing::state::Base;
use crate::scheduler::lane::Lane;
use crate::scheduler::state::Scheduler;
use crate::scheduler::{marks, queue};

/// A weight in units of 2⁻³² from the inverse in units of 2⁻³².
fn weight(inverse: u64) -> u128 {
    (1_u128 << 64) / u128::from(inverse.max(1))
}

/// Makes `limit` the one that decides the lane's time.
pub(crate) fn bind(s: &mut Scheduler, base: &mut Base, lane: LaneId, limit: LimitId) {
    let Lane { ref route, loop_, class, route_id, .. } = s.lanes[lane];
    let route = route.clone();
    let slot = route.iter().find(|(id, _)| *id == limit).map_or(0, |(_, slot)| *slot);
    let inverse = base.routing.routes[route_id].terms.inverse;
    let demand = s.lanes[lane].demand[slot as usize];

    pin_flow(base, limit, class as u8, loop_);
    let queue = queue::queue_at(&mut base.limits, limit);
    queue.bound += 1;
    let held = queue.classes[class as usize].get_or_insert_default();
    held.demand += demand;
    let vtime = held.vtime;
    let flow = held.flows.entry(loop_).or_default();
    if flow.lanes.is_empty() {
        flow.finish = flow.finish.max(vtime);
        flow.weight = weight(inverse);
        held.weights += flow.weight;
        held.active += 1;
    }
    flow.lanes.push(lane);

    let target = &mut s.lanes[lane];
    target.bound = limit;
    target.block_history.note(limit, base.now);
    target.slot = slot;
    enter(s, base, lane);
    for (other, _) in route.iter().filter(|(other, _)| *other != limit) {
        if queue::concerns(&base.limits, *other, limit) {
            *queue::queue_at(&mut base.limits, *other).through.entry(limit).or_default() += 1;
        }
    }
    queue_changed(s, base, limit);
}

/// Takes a lane out of the queue it stands in.
pub(crate) fn unbind(s: &mut Scheduler, base: &mut Base, lane: LaneId) {
    let Lane { ref route, loop_, class, bound, slot, .. } = s.lanes[lane];
    if bound.is_nil() {
        return;
    }
    let route = route.clone();
    let demand = s.lanes[lane].demand[slot as usize];
    leave(s, base, lane);
    s.lanes[lane].bound = LimitId::NIL;
    let mut forgotten = Vec::new();
    let queue = queue::queue_at(&mut base.limits, bound);
    queue.bound -= 1;
    let was_first = queue.first == lane;
    if was_first {
        queue.first = LaneId::NIL;
    }
    if let Some(held) = &mut queue.classes[class as usize] {
        held.demand -= demand;
        if let Some(flow) = held.flows.get_mut(&loop_) {
            flow.lanes.retain(|known| *known != lane);
            if flow.lanes.is_empty() {
                held.weights -= flow.weight;
                held.active -= 1;
                forgotten = held.forget_idle();
            }
        }
    }
    let emptied = queue.bound == 0;
    for loop_ in forgotten {
        loop_table::unpin_loop(base, loop_);
    }
    if emptied {
        forget_served(base, bound);
    }
    for (other, _) in route.iter().filter(|(other, _)| *other != bound) {
        if let Some(through) = base.limits[*other].queue.as_mut() {
            // Whoever else is bound there watches again when that limit is looked at, which it is
            // now. A watch that outlived its lane would keep an idle loop from being forgotten.
            through.watchers.retain(|watcher| *watcher != bound);
            if let Some(count) = through.through.get_mut(&bound) {
                *count -= 1;
                if *count == 0 {
                    through.through.remove(&bound);
                }
            }
        }
        marks::tidy(s, base, *other);
    }
    queue_changed(s, base, bound);
    if was_first {
        marks::mark_route(s, base, &route);
    }
}

/// Forgets the service that loops had at a limit: no call waits there any more, and all loops start equal.
pub(crate) fn forget_served(base: &mut Base, limit: LimitId) {
    let classes = std::mem::take(&mut queue::queue_at(&mut base.limits, limit).classes);
    for loop_ in classes.iter().flatten().flat_map(|class| class.flows.keys()) {
        loop_table::unpin_loop(base, *loop_);
    }
}

/// A lane has that much more waiting at the limit that holds it.
pub(crate) fn change_demand(s: &mut Scheduler, base: &mut Base, lane: LaneId, demand: i128) {
    let Lane { bound, class, .. } = s.lanes[lane];
    if !bound.is_nil()
        && let Some(held) = &mut queue::queue_at(&mut base.limits, bound).classes[class as usize]
    {
        held.demand = held.demand.saturating_add_signed(demand);
    }
}

/// Gives a lane the place that its first call and its smallest cost deserve, after a call came or went.
pub(crate) fn replace_lane(s: &mut Scheduler, base: &mut Base, lane: LaneId) {
    let bound = s.lanes[lane].bound;
    if bound.is_nil() {
        return;
    }
    move_up_or_down(s, base, lane);
    queue_changed(s, base, bound);
    if queue::queue_at(&mut base.limits, bound).first == lane {
        let route = s.lanes[lane].route.clone();
        marks::mark_route(s, base, &route);
    }
}

/// Others came to be first at a limit, or may have. What a limit withholds from a lane that passes through it
/// depends on who waits there, wherever that lane is bound.
fn queue_changed(s: &mut Scheduler, base: &mut Base, limit: LimitId) {
    match base.limits.reserves(limit) {
        true => marks::touched(s, base, limit),
        false => marks::mark(s, base, limit),
    }
}

/// Charges a loop at a limit where somebody waits. `in_turn` says that the call went because it was
/// first here; `units` may be negative when a call settles for less than it reserved. The lane `going`
/// is left where it is: it gets another place anyway.
pub(crate) fn charge_flow(
    s: &mut Scheduler,
    base: &mut Base,
    limit: LimitId,
    payer: (LoopId, RouteId, u8),
    units: i128,
    in_turn: bool,
    going: LaneId,
) {
    let (loop_, route_id, class) = payer;
    if queue::class(&base.limits, limit, class).is_none() {
        return;
    }
    pin_flow(base, limit, class, loop_);
    let inverse = i128::from(base.routing.routes[route_id].terms.inverse);
    let Some(queue) = base.limits[limit].queue.as_mut() else { return };
    let Some(held) = queue.classes[class as usize].as_mut() else { return };
    let vtime = held.vtime;
    let flow = held.flows.entry(loop_).or_default();
    let start = flow.finish.max(vtime);
    flow.finish = start.saturating_add_signed(units.saturating_mul(inverse));
    if in_turn {
        held.vtime = vtime.max(start);
    }
    if flow.lanes[..] != [going] {
        let lanes = flow.lanes.clone();
        for loop_ in held.forget_idle() {
            loop_table::unpin_loop(base, loop_);
        }
        for lane in lanes.into_iter().filter(|lane| *lane != going) {
            move_up_or_down(s, base, lane);
        }
    }
    marks::mark(s, base, limit);
}

/// A loop is about to have service at a limit: it must not be forgotten meanwhile.
fn pin_flow(base: &mut Base, limit: LimitId, class: u8, loop_: LoopId) {
    if queue::class(&base.limits, limit, class).is_none_or(|class| !class.flows.contains_key(&loop_)) {
        loop_table::pin_loop(base, loop_);
    }
}

/// Where a lane belongs in the queue it is bound to: its key there, and the least that it costs.
fn rank(s: &Scheduler, base: &Base, lane: LaneId) -> Option<(LaneKey, u64)> {
    let Lane { head, batches, bound, class, loop_, slot, .. } = s.lanes[lane];
    let least = s.batch_order.summary(batches)?[slot as usize];
    let tag = queue::class(&base.limits, bound, class as u8)?.tag(loop_);
    Some(((tag, s.waiters[head].seq, lane), least))
}

fn enter(s: &mut Scheduler, base: &mut Base, lane: LaneId) {
    let Some((key, least)) = rank(s, base, lane) else { return };
    let held = &mut s.lanes[lane];
    (held.key, held.least) = (key, least);
    if let Some(queue) = base.limits[held.bound].queue.as_mut()
        && let Some(class) = &mut queue.classes[held.class as usize]
    {
        s.order.insert(&mut class.root, key, least);
    }
}

/// Moves a lane to where it now belongs.
fn move_up_or_down(s: &mut Scheduler, base: &mut Base, lane: LaneId) {
    let Some((key, least)) = rank(s, base, lane) else { return };
    let held = &mut s.lanes[lane];
    if (key, least) == (held.key, held.least) {
        return;
    }
    let before = std::mem::replace(&mut held.key, key);
    held.least = least;
    if let Some(queue) = base.limits[held.bound].queue.as_mut()
        && let Some(class) = &mut queue.classes[held.class as usize]
    {
        s.order.replace(&mut class.root, before, key, least);
    }
}

fn leave(s: &mut Scheduler, base: &mut Base, lane: LaneId) {
    let Lane { key, bound, class, .. } = s.lanes[lane];
    if let Some(queue) = base.limits[bound].queue.as_mut()
        && let Some(held) = queue.classes[class as usize].as_mut()
    {
        s.order.remove(&mut held.root, key);
    }
}
