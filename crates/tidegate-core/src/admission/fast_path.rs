//! The fast path of most calls: no call waits at any limit of the route, and this call fits them all.
//!
//! It is kept short, since every call takes it: what it needs of the call was worked out when the call was made, and
//! each limit is first asked in the shortest way that can say yes. All or nothing holds by putting back: the call
//! takes from one limit after the other, and where one does not open, from none.

use crate::admission::resources::Resources;
use crate::admission::spend;
use crate::calls::{Arrival, Grant};
use crate::funding::loans;
use crate::limits::limit::{Limit, Spec};
use crate::model::call::Call;
use crate::model::priority::Priority;
use crate::model::route_limit::RouteLimit;
use crate::model::time::Nanos;
use crate::model::{Arena, LimitId, LoopId, RouteId, SLOT, SpecId, Units};
use crate::routing::route::Route;
use crate::routing::state::{Base, LoopRecord};
use crate::routing::{find, loops};
use std::ops::ControlFlow;

/// The limits of the loop itself, after those that all share. Else says of how many it took before one did not open.
#[inline(never)]
fn take_loop_limits(
    held: &Route,
    record: &mut LoopRecord,
    limits: &mut Arena<LimitId, Limit>,
    specs: &Arena<SpecId, Spec>,
    class: Priority,
    units: &Units,
    now: Nanos,
) -> Result<(), usize> {
    let mut at = record.first;
    for (taken, &slot) in held.loop_slots.iter().enumerate() {
        let Some(limit) = limits.get_mut(at) else { break };
        if !take_if_open(limit, specs, class, units[(slot & SLOT) as usize], now) {
            return Err(taken);
        }
        at = limit.sibling;
    }
    record.pins += 1;
    Ok(())
}

/// Takes from one limit after the other as long as each is open at first sight. Says which are left.
// By itself, since it is what takes most of the time: here all that it needs stays in registers.
#[inline(never)]
fn take_plain<'a>(
    mut uses: &'a [RouteLimit],
    limits: &mut Arena<LimitId, Limit>,
    units: &Units,
    now: Nanos,
) -> &'a [RouteLimit] {
    while let [(limit, slot), rest @ ..] = uses {
        let limit = &mut limits[*limit];
        if !limit.plain || !limit.meter.try_take_quickly(units[(slot & SLOT) as usize], now) {
            break;
        }
        uses = rest;
    }
    uses
}

/// Takes `cost` from a limit at which no call waits, if it fits.
fn take_if_open(
    limit: &mut Limit,
    specs: &Arena<SpecId, Spec>,
    class: Priority,
    cost: u64,
    now: Nanos,
) -> bool {
    // A cost of nothing passes a limit on a rate whatever its state; a budget still has to be open.
    limit.plain && limit.meter.try_take_quickly(cost, now)
        || limit.promised && cost > 0 && take_promised(limit, cost, now)
        || take_if_really_open(limit, specs, class, cost, now)
}

/// The same where units are lent. If it says no, it has changed nothing, and `cost` may fit all the same.
fn take_promised(limit: &mut Limit, cost: u64, now: Nanos) -> bool {
    let Some(lent) = &mut limit.lent else { return false };
    if !lent.try_spend_quickly(cost, now) {
        return false;
    }
    let taken = limit.meter.try_take_quickly(cost, now);
    if !taken {
        lent.undo(cost, now);
    }
    taken
}

#[cold]
fn take_if_really_open(
    limit: &mut Limit,
    specs: &Arena<SpecId, Spec>,
    class: Priority,
    cost: u64,
    now: Nanos,
) -> bool {
    if limit.queue.is_some() {
        return false;
    }
    let withheld = specs[limit.spec].withheld[class as usize];
    let Limit { meter, lent, .. } = limit;
    let nothing = cost == 0 && !meter.is_in_flight();
    let Some(lent) = lent else { return nothing || meter.try_take(cost, withheld, now) };
    if nothing {
        return true;
    }
    let taken = lent.room(now) >= cost && meter.try_take(cost, withheld, now);
    if taken {
        lent.spend(cost, now);
    }
    taken
}

pub(crate) fn arrive(base: &mut Base, route_id: RouteId, call: &Call, now: Nanos) -> Arrival {
    let (loop_, class) = on_behalf_of(base, route_id, call, now);
    Arrival { route_id, loop_, class, units: base.routing.routes[route_id].layout.units_of(&call.said.cost) }
}

/// The loop and the base priority of a call.
#[inline(always)]
fn on_behalf_of(base: &mut Base, route_id: RouteId, call: &Call, now: Nanos) -> (LoopId, Priority) {
    let loop_ = loops::loop_for(base, call.said.loop_id.as_ref(), now);
    (loop_, call.said.priority.unwrap_or(base.routing.routes[route_id].terms.priority))
}

/// Lets a call go that fits, if nobody waits at any of its limits. Else it has arrived, and it is for others to say
/// what becomes of it.
#[inline(always)]
pub(crate) fn grant_or_arrive(
    res: &mut Resources,
    route_id: RouteId,
    call: &Call,
    now: Nanos,
) -> ControlFlow<Grant, Arrival> {
    let (loop_, class) = on_behalf_of(&mut res.base, route_id, call, now);
    let arranged;
    let layout = &res.base.routing.routes[route_id].layout;
    let units = match layout.as_in_cost() {
        true => call.said.cost.known(),
        false => {
            arranged = layout.units_of(&call.said.cost);
            &arranged
        }
    };
    match pass(res, route_id, loop_, class, units, now) {
        Some(grant) => ControlFlow::Break(grant),
        None => ControlFlow::Continue(Arrival { route_id, loop_, class, units: *units }),
    }
}

/// The way of most calls: nobody waits at any of its limits, and it fits them all. It takes from one
/// after the other; where one does not open, what was taken is put back.
#[inline(always)]
fn pass(
    res: &mut Resources,
    route_id: RouteId,
    loop_: LoopId,
    class: Priority,
    units: &Units,
    now: Nanos,
) -> Option<Grant> {
    let (limits, specs) = (&mut res.base.limits.all, &res.base.limits.specs);
    let (routes, loops) = (&mut res.base.routing.routes, &mut res.base.routing.loops.all);
    let in_flight = &mut res.calls;
    let held = &mut routes[route_id];
    // Throttled calls count several times, which is for the longer way to see to.
    if held.penalty > 0 {
        return None;
    }
    let mut left = take_plain(&held.uses, limits, units, now);
    while let [(limit, slot), rest @ ..] = left {
        let cost = units[(slot & SLOT) as usize];
        if !take_if_open(&mut limits[*limit], specs, class, cost, now) {
            let taken = held.uses.len() - left.len();
            undo(&mut res.base, route_id, loop_, units, taken, now);
            return None;
        }
        left = take_plain(rest, limits, units, now);
    }
    if !loop_.is_nil()
        && let Err(taken) = take_loop_limits(held, &mut loops[loop_], limits, specs, class, units, now)
    {
        let taken = held.uses.len() + taken;
        undo(&mut res.base, route_id, loop_, units, taken, now);
        return None;
    }
    let grant = in_flight.record(held, (route_id, loop_, res.base.limits.epoch), class, units, now);
    if held.noted {
        spend::note(res, &grant, now);
    }
    if !res.base.funding.funded_limits.is_empty() {
        ask_on_route(&mut res.base, route_id, loop_, now);
    }
    Some(grant)
}

/// Undoes the first `taken` limits of a route.
#[cold]
fn undo(base: &mut Base, route_id: RouteId, loop_: LoopId, units: &Units, taken: usize, now: Nanos) {
    if taken == 0 {
        return;
    }
    let route = find::route_of(base, route_id, loop_);
    for &(limit, slot) in &route[..taken] {
        let (held, cost) = (&mut base.limits[limit], units[slot as usize]);
        if cost > 0 || held.meter.is_in_flight() {
            held.meter.undo(cost, now);
            held.lent.iter_mut().for_each(|lent| lent.undo(cost, now));
        }
    }
}

/// Limits of a route that have little left of what was lent to them ask for more.
fn ask_on_route(base: &mut Base, route_id: RouteId, loop_: LoopId, now: Nanos) {
    let is_low = |limit: &Limit| limit.lent.as_ref().is_some_and(|lent| lent.is_low());
    let held = &base.routing.routes[route_id];
    let mut low = held.uses.iter().any(|(limit, _)| is_low(&base.limits[*limit]));
    let mut own = base.routing.loops.all.get(loop_).map_or(LimitId::NIL, |record| record.first);
    while let Some(limit) = base.limits.all.get(own) {
        low |= is_low(limit);
        own = limit.sibling;
    }
    if low {
        for (limit, _) in find::route_of(base, route_id, loop_) {
            loans::want_loan(&mut base.funding, &mut base.limits, limit, 0, now);
        }
    }
}
