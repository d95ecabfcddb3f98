//! Looks at lanes and the calls in them.

use crate::calls::Arrival;
use crate::model::{LaneId, LimitId, RouteId, Units, WaiterId};
use crate::routing::state::Base;
use crate::scheduler::lane::Batch;
use crate::scheduler::state::Scheduler;
use std::collections::BTreeSet;

/// The lane in which calls of its kind wait already.
pub(crate) fn lane_of(s: &Scheduler, arrival: &Arrival) -> Option<LaneId> {
    s.lane_index.get(&(arrival.route_id, arrival.loop_, arrival.class)).copied()
}

/// The first call of a lane.
pub(crate) fn head(s: &Scheduler, lane: LaneId) -> Option<WaiterId> {
    let head = s.lanes[lane].head;
    (!head.is_nil()).then_some(head)
}

/// The run that a waiting call is of.
pub(crate) fn batch_of(s: &Scheduler, waiter: WaiterId) -> &Batch {
    &s.batches[s.waiters[waiter].run]
}

/// The calls of a lane, by arrival.
pub(crate) fn calls_of(s: &Scheduler, lane: LaneId) -> impl Iterator<Item = WaiterId> + '_ {
    let head = head(s, lane);
    std::iter::successors(head, |call| {
        let behind = s.waiters[*call].behind;
        (!behind.is_nil()).then_some(behind)
    })
}

/// What the lane's first call costs at a limit of its route.
pub(crate) fn head_cost(s: &Scheduler, lane: LaneId, limit: LimitId) -> u64 {
    let route = &s.lanes[lane].route;
    let slot = route.iter().find(|(id, _)| *id == limit).map(|(_, slot)| *slot);
    match (slot, head(s, lane)) {
        (Some(slot), Some(head)) => batch_of(s, head).like.units[slot as usize],
        _ => 0,
    }
}

pub(crate) fn head_units(s: &Scheduler, lane: LaneId) -> Units {
    head(s, lane).map_or(Units::default(), |head| batch_of(s, head).like.units)
}

/// The lanes of these routes, in an order of their own: a hash map's differs from run to run.
pub(crate) fn lanes_of(s: &Scheduler, routes: &BTreeSet<RouteId>) -> BTreeSet<LaneId> {
    let is_theirs = |lane: &LaneId| routes.contains(&s.lanes[*lane].route_id);
    s.lane_index.values().copied().filter(is_theirs).collect()
}

/// How many calls wait because of a limit.
pub(crate) fn waiting_at(s: &Scheduler, base: &Base, limit: LimitId) -> usize {
    let mut waiting = 0;
    if let Some(queue) = &base.limits[limit].queue {
        for class in queue.classes.iter().flatten() {
            s.order.each(class.root, &mut |(_, _, lane)| {
                waiting += s.lanes[lane].len as usize;
                true
            });
        }
    }
    waiting
}
