//! Spends the units of a call at every limit of its route, and records the call.

use crate::admission::resources::Resources;
use crate::calls::{Grant, InFlightCall};
use crate::funding::loans;
use crate::limits::meters::Meter;
use crate::model::priority::Priority;
use crate::model::route_limit::RouteLimit;
use crate::model::time::Nanos;
use crate::model::{LoopId, RouteId, Units};
use crate::routing::loop_table;
use crate::routing::state::Base;
use crate::upstream::state::Marked;
use crate::upstream::{breakers, call_marks, slowdown};

/// Remembers what a call took that goes now.
pub(crate) fn record(
    res: &mut Resources,
    route_id: RouteId,
    loop_: LoopId,
    class: Priority,
    units: &Units,
    now: Nanos,
) -> Grant {
    loop_table::pin_loop(&mut res.base, loop_);
    let held = &mut res.base.routing.routes[route_id];
    let grant = res.calls.record(held, (route_id, loop_, res.base.limits.epoch), class, units, now);
    if held.noted {
        note(res, &grant, now);
    }
    grant
}

/// Spends a call's units at every limit of its route.
#[allow(clippy::too_many_arguments, reason = "the parts of a grant, each of its own type")]
pub(crate) fn spend(
    res: &mut Resources,
    route_id: RouteId,
    loop_: LoopId,
    class: Priority,
    units: Units,
    route: &[RouteLimit],
    stamp: Nanos,
    now: Nanos,
) -> Grant {
    let penalty = res.base.routing.routes[route_id].penalty;
    let first_after_window = is_first_after_window(&res.base, route);
    for &(limit, slot) in route {
        let cost = units[slot as usize];
        let held = &mut res.base.limits[limit];
        // A call that costs nothing here does not meet the window of this limit.
        let dear = held.meter.dearer(cost, penalty);
        if cost > 0 || held.meter.counts() {
            held.meter.take(dear, stamp, now);
        }
        if held.lent.is_some() {
            loans::spend_funded(&mut res.base.funding, &mut res.base.limits, limit, dear, now);
        }
    }
    if first_after_window {
        // A limit of which it takes nothing is not affected.
        for &(limit, _) in route.iter().filter(|(_, slot)| units[*slot as usize] > 0) {
            res.base.limits[limit].meter.empty_pacer(now);
        }
    }
    record(res, route_id, loop_, class, &units, now)
}

/// Returns whether this call is the first on its route since a window there was shut: it empties the pacers it takes from.
pub(crate) fn is_first_after_window(base: &Base, route: &[RouteLimit]) -> bool {
    let is_fresh =
        |(limit, _): &RouteLimit| matches!(&base.limits[*limit].meter, Meter::Hold(hold) if hold.is_fresh());
    !base.routing.overlays.is_empty() && route.iter().any(is_fresh)
}

/// A call goes, of which something is to be remembered.
#[inline(never)]
pub(crate) fn note(res: &mut Resources, grant: &Grant, now: Nanos) {
    let index = grant.index();
    let InFlightCall { route_id, units, .. } = res.calls[grant];
    let held = &res.base.routing.routes[route_id];
    let breaker = held.breaker;
    let mut marks = std::mem::take(call_marks::marks_of(&mut res.upstream, index));
    let Resources { base: Base { limits, routing, .. }, upstream, .. } = res;
    let (routes, learning) = (&routing.routes, &mut upstream.learning);
    marks.clear();
    for &(limit, slot) in &routes[route_id].mirrored {
        let (held, cost) = (&mut limits[limit], units[slot as usize]);
        let Some(mirror) = learning.mirrors.get_mut(&limit) else { continue };
        let mark = mirror.mark(cost, held.meter.used(now));
        marks.push(Marked { limit, since: held.since, cost, mark });
    }
    if !marks.is_empty() {
        *call_marks::marks_of(&mut res.upstream, index) = marks;
    }
    if !breaker.is_nil() {
        breakers::note_pass(&mut res.upstream, &mut res.base, index, breaker);
    }
    if !res.upstream.learning.ramps.is_empty() {
        let service = res.base.routing.routes[route_id].service;
        slowdown::note_departure(&mut res.upstream, &mut res.base, service, now);
    }
}
