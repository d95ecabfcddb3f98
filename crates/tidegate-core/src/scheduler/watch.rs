//! When a call that another limit holds back could go.

use crate::model::route_limit::RouteLimit;
use crate::model::time::Nanos;
use crate::model::{LaneId, LimitId, Units};
use crate::routing::state::Base;
use crate::scheduler::state::Scheduler;
use crate::scheduler::{eligibility, lanes, marks, queue, rank};

/// Looks at `limit` again when a call of `lane` could go that another limit holds back.
pub(crate) fn watch(s: &mut Scheduler, base: &mut Base, limit: LimitId, lane: LaneId, now: Nanos) {
    let route = s.lanes[lane].route.clone();
    for &(other, _) in route.iter().filter(|(other, _)| *other != limit) {
        let watchers = &mut queue::queue_at(&mut base.limits, other).watchers;
        if !watchers.contains(&limit) {
            watchers.push(limit);
        }
    }
    marks::arm_sooner(
        s,
        base,
        limit,
        rank::next_level(s, base, lane, now).min(eligibility::next_withheld(s, base, lane, now)),
    );
    let Some(least) = s.batch_order.summary(s.lanes[lane].batches) else { return };
    for &(other, slot) in route.iter() {
        for at in std::iter::once(other).chain(queue::through(&base.limits, other)) {
            if let Some(first) = rank::first(s, base, at, now) {
                let grows = grows_beside(s, base, other, first, least[slot as usize], now);
                marks::arm_sooner(s, base, limit, grows);
            }
        }
    }
    let open_at = opens(s, base, lane, &route, &least, now);
    if open_at > now {
        marks::arm_sooner(s, base, limit, open_at);
        return;
    }
    // Each kind of unit has room for some call, but no call for all kinds: look at each.
    let mut costs = Vec::new();
    s.batch_order.each(s.lanes[lane].batches, &mut |(_, run)| {
        costs.push(s.batches[run].like.units);
        true
    });
    for units in costs {
        let open_at = opens(s, base, lane, &route, &units, now);
        if open_at > now {
            marks::arm_sooner(s, base, limit, open_at);
        }
    }
}

/// When every limit of a route has room for `units`, other calls apart.
fn opens(s: &Scheduler, base: &Base, lane: LaneId, route: &[RouteLimit], units: &Units, now: Nanos) -> Nanos {
    let mut opens = Nanos::ZERO;
    for &(limit, slot) in route {
        let held = &base.limits[limit];
        let cost = units[slot as usize];
        if cost > 0 || held.meter.is_in_flight() {
            opens = opens.max(held.earliest(cost, eligibility::withheld(s, base, limit, lane, now), now));
        }
    }
    opens
}

/// A first call that has room and yet does not go, since another limit holds it, leaves more beside it as room
/// grows: when it leaves enough at `limit` for a call that costs at least `least`, or for a larger one.
pub(crate) fn grows_beside(
    s: &mut Scheduler,
    base: &mut Base,
    limit: LimitId,
    first: LaneId,
    least: u64,
    now: Nanos,
) -> Nanos {
    let cost = lanes::head_cost(s, first, limit);
    let in_flight = base.limits[limit].meter.is_in_flight();
    if in_flight || cost == 0 || eligibility::booking(s, base, first, now) > now {
        return Nanos::NEVER;
    }
    let withheld = eligibility::withheld(s, base, limit, first, now);
    let held = &mut base.limits[limit];
    let spare = held.meter.spare(now, cost, withheld, now);
    let grows = held.earliest(cost.saturating_add(least.max(spare.saturating_add(1))), withheld, now);
    if grows > now { grows } else { Nanos::NEVER }
}
