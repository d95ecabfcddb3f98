//! The end of a call: slots come back, and the reservation becomes what the call really cost.

use crate::admission::resources::Resources;
use crate::calls::Departure;
use crate::calls::{Grant, InFlightCall};
use crate::funding::loans;
use crate::limits::limit::Counts;
use crate::limits::meters::Meter;
use crate::model::Id;
use crate::model::MAX_UNIT_KINDS;
use crate::model::call::Cost;
use crate::model::dimension::Dimension;
use crate::model::time::Nanos;
use crate::model::{LimitId, SLOT, Units};
use crate::routing::route::Route;
use crate::routing::state::Base;
use crate::routing::{find, loop_table};
use crate::upstream::ended::Fate;
use crate::upstream::{bounds, breakers, call_marks, inference};
use std::collections::BTreeSet;

/// A call ended after so long.
fn note_duration(res: &mut Resources, grant: &Grant, now: Nanos) {
    let call = &res.calls[grant];
    let (service, took) = (res.base.routing.routes[call.route_id].service, now.since(call.at));
    if let Some(book) = &mut res.base.funding.book {
        book.durations.entry(service).or_default().add(took);
    }
}

/// Counts the calls that are in flight at limits on calls in flight that a new config brought: the upstream has them
/// already, be it that their service was removed and put back. They give their slots back when they end.
///
/// A call in flight is known by its route. If the config had no pattern for its endpoint or model when it went, or if
/// all API keys shared their limits, then limits of that endpoint, model or key do not count it.
pub(crate) fn count_calls_in_flight(res: &mut Resources, now: Nanos) {
    let is_new = |limit: &LimitId| {
        let held = &res.base.limits[*limit];
        held.since == res.base.limits.epoch
            && matches!(res.base.limits.specs[held.spec].definition.counts, Counts::Concurrency(_))
    };
    let new: BTreeSet<LimitId> = res.base.limits.all.ids().filter(is_new).collect();
    if new.is_empty() {
        return;
    }
    let routes: Vec<_> =
        res.calls.iter().map(|call| find::route_of(&res.base, call.route_id, call.loop_)).collect();
    for (limit, _) in routes.into_iter().flatten().filter(|(limit, _)| new.contains(limit)) {
        if let Meter::InFlight(slots) = &mut res.base.limits[limit].meter {
            slots.take(1);
            loans::charge_funded(&mut res.base.funding, &mut res.base.limits, limit, 1, now);
        }
    }
    for limit in new {
        res.base.limits[limit].since = 0;
    }
}

/// Ends a call. Returns whether calls that wait have to be looked at.
pub(crate) fn finish_call(
    res: &mut Resources,
    grant: Grant,
    actual: Option<&Cost>,
    waited_for: bool,
    now: Nanos,
) -> bool {
    res.calls.forget(&grant);
    let uncounted = res.calls.take_uncounted(&grant);
    if res.base.funding.book.is_some() {
        note_duration(res, &grant, now);
    }
    let noticed = actual.is_some() || !frees_no_waiter(res, &grant, waited_for) || !free_slots(res, &grant);
    noticed && settle(res, grant, &uncounted, actual, waited_for, now)
}

/// Whether the upstream counts a call that ended so.
pub(crate) fn is_counted(base: &Base, call: &InFlightCall, fate: &Fate) -> bool {
    let service = base.routing.routes[call.route_id].service;
    match fate {
        Fate::TurnedAway { .. } | Fate::OutOfQuota => base.routing.services[service].replies.failures_count,
        Fate::Unreached | Fate::Unprocessed => false,
        Fate::Answered | Fate::Failed { .. } | Fate::Unknown => true,
    }
}

#[inline(never)]
fn settle(
    res: &mut Resources,
    grant: Grant,
    uncounted: &Units,
    actual: Option<&Cost>,
    waited_for: bool,
    now: Nanos,
) -> bool {
    let grant = res.calls[&grant].clone();
    let keep = res.base.routing.routes[grant.route_id].terms.keep;
    end(res, &grant, waited_for, |res, limit, slot, reserved| {
        let dimension = res.base.routing.routes[grant.route_id].layout.dimension(slot);
        let stated = dimension.zip(actual).filter(|(dimension, actual)| actual.states(dimension));
        let Some(cost) = stated.map(|(dimension, actual)| actual.units(dimension)) else { return false };
        // No refund gives back what some limit never counted.
        let refundable = reserved.saturating_sub(uncounted[slot as usize]);
        let change = if cost > reserved {
            i128::from(bounds::charge_debt(&mut res.upstream, &mut res.base, limit, cost - reserved, now))
        } else if cost < refundable && !keep {
            res.base.limits[limit].meter.refund(refundable - cost, grant.counted, now);
            inference::widen_burst(&mut res.upstream, &mut res.base, limit, refundable);
            i128::from(cost) - i128::from(refundable)
        } else {
            return false;
        };
        res.base.limits.serve(grant.served(limit, change), &mut res.base.effects);
        true
    })
}

/// Returns whether no waiting call can use what the end of a call frees, if it cost what it reserved.
#[inline]
pub(crate) fn frees_no_waiter(res: &Resources, grant: &Grant, waited_for: bool) -> bool {
    !waited_for || frees_nothing(res, grant)
}

/// Whether a call holds nothing that another could have.
#[inline]
fn frees_nothing(res: &Resources, grant: &Grant) -> bool {
    let InFlightCall { route_id, loop_, penalty, .. } = res.calls[grant];
    let own = res.base.routing.loops.all.get(loop_).map_or(LimitId::NIL, |record| record.first);
    let Route { ref slots, breaker, .. } = res.base.routing.routes[route_id];
    slots.is_empty() && own.is_nil() && penalty == 0 && breaker.is_nil()
}

/// Whether something is to be remembered of a call when it ends.
#[inline(always)]
pub(crate) fn is_noted(res: &Resources, grant: &Grant) -> bool {
    res.calls[grant].noted || res.base.funding.book.is_some()
}

/// Returns whether the end of a call frees nothing that any later waiter could use, and nothing is noted of it.
pub(crate) fn is_of_no_concern(res: &Resources, grant: &Grant) -> bool {
    !is_noted(res, grant) && frees_nothing(res, grant)
}

/// Forgets what was noted of a call when it went. Returns whether its breaker has a probe back.
#[inline(always)]
pub(crate) fn report_lost(res: &mut Resources, grant: &Grant, now: Nanos) -> bool {
    call_marks::unmark(&mut res.upstream, grant.index());
    let was_probe = res.upstream.passes.get(grant.index().index()).is_some_and(Option::is_some);
    if was_probe {
        report_lost_probe(res, grant, now);
    }
    was_probe
}

#[cold]
fn report_lost_probe(res: &mut Resources, grant: &Grant, now: Nanos) {
    let call = res.calls[grant].clone();
    breakers::report(&mut res.upstream, &mut res.base, grant, &call, &Fate::Unknown, now);
}

/// The end of most calls: nothing to settle and nobody concerned. Only slots come back, and only if no
/// config came between; else says that there is more to do.
#[inline]
pub(crate) fn free_slots(res: &mut Resources, grant: &Grant) -> bool {
    let (limits, epoch) = (&mut res.base.limits.all, res.base.limits.epoch);
    let (routes, loops) = (&mut res.base.routing.routes, &mut res.base.routing.loops.all);
    let grant = &res.calls[grant];
    let held = &mut routes[grant.route_id];
    if grant.epoch != epoch || grant.penalty > 0 {
        return false;
    }
    for &(limit, slot) in &held.slots {
        limits[limit].release(grant.units[(slot & SLOT) as usize]);
    }
    held.in_flight -= 1;
    if let Some(record) = loops.get_mut(grant.loop_) {
        let mut own = record.first;
        for &slot in &held.loop_slots {
            let Some(limit) = limits.get_mut(own) else { break };
            limit.release(grant.units[(slot & SLOT) as usize]);
            own = limit.sibling;
        }
        record.pins -= 1;
    }
    true
}

/// A call that went throttled gives back what it took as such, though others may no longer go so.
fn end_throttled(base: &mut Base, grant: &InFlightCall) -> bool {
    if grant.penalty == 0 {
        return false;
    }
    let throttles = base.routing.routes[grant.route_id].throttle.limits.clone();
    for &(limit, slot) in &throttles {
        if base.limits[limit].since <= grant.epoch {
            base.limits[limit].release(grant.units[slot as usize]);
            base.limits.touch(limit, &mut base.effects);
        }
    }
    !throttles.is_empty()
}

/// The upstream refused the call and does not count it: tokens and bytes come back. The request was sent, so it
/// stays spent: attempts stay within the limit whatever the upstream says of them. Only a later reply that states
/// more `remaining` gives it back.
pub(crate) fn give_back_refused(res: &mut Resources, grant: Grant, waited_for: bool, now: Nanos) -> bool {
    let call = res.calls[&grant].clone();
    for (limit, slot) in find::route_of(&res.base, call.route_id, call.loop_) {
        let is_request =
            res.base.routing.routes[call.route_id].layout.dimension(slot) == Some(&Dimension::Requests);
        if is_request
            && res.base.limits[limit].since <= call.epoch
            && let Some(mirror) = res.upstream.learning.mirrors.get_mut(&limit)
        {
            mirror.keep(call.units[slot as usize], call.counted);
        }
    }
    give_back(res, grant, |dimension| dimension != Some(&Dimension::Requests), waited_for, now)
}

/// Ends a call. What it reserved of the dimensions that `returns` names comes back.
pub(crate) fn give_back(
    res: &mut Resources,
    grant: Grant,
    returns: impl Fn(Option<&Dimension>) -> bool,
    waited_for: bool,
    now: Nanos,
) -> bool {
    res.calls.forget(&grant);
    let uncounted = res.calls.take_uncounted(&grant);
    let grant = res.calls[&grant].clone();
    end(res, &grant, waited_for, |res, limit, slot, reserved| {
        if !returns(res.base.routing.routes[grant.route_id].layout.dimension(slot)) {
            return false;
        }
        let reserved = reserved.saturating_sub(uncounted[slot as usize]);
        let held = &mut res.base.limits[limit];
        held.meter.refund(reserved, grant.counted, now);
        if let Some(lent) = &mut held.lent {
            lent.give_back(reserved, grant.at, now);
        }
        res.base.limits.serve(grant.served(limit, -i128::from(reserved)), &mut res.base.effects);
        true
    })
}

/// Ends a call at every limit it took from: slots are freed, `settle` sees to the rates and says whether
/// it changed anything. A call that cost what it reserved and held no slot leaves everything as it is:
/// then nobody need be looked at, however many wait.
fn end(
    res: &mut Resources,
    grant: &InFlightCall,
    waited_for: bool,
    mut settle: impl FnMut(&mut Resources, LimitId, u8, u64) -> bool,
) -> bool {
    let mut changed = false;
    let route_id = grant.route_id;
    let shared = res.base.routing.routes[route_id].uses.len();
    let mut own = res.base.routing.loops.all.get(grant.loop_).map_or(LimitId::NIL, |record| record.first);
    let mut index = 0;
    loop {
        let (limit, slot) = if index < shared {
            res.base.routing.routes[route_id].uses[index]
        } else if !own.is_nil() {
            let next = (own, res.base.routing.routes[route_id].loop_slots[index - shared]);
            own = res.base.limits[own].sibling;
            next
        } else {
            break;
        };
        index += 1;
        // A limit made after the grant was given has nothing of it, nor has one that holds others only.
        let held = &res.base.limits[limit];
        let throttles = res.base.routing.routes[route_id].throttle.active
            && res.base.routing.routes[route_id]
                .throttle
                .limits
                .iter()
                .any(|(throttle, _)| *throttle == limit);
        if held.since > grant.epoch || !held.meter.counts() || throttles {
            continue;
        }
        let reserved = grant.units[slot as usize];
        let changed_here = if held.meter.is_in_flight() {
            let held = held.meter.dearer(reserved, grant.penalty);
            res.base.limits[limit].release(held);
            true
        } else {
            settle(res, limit, slot, reserved)
        };
        if waited_for && changed_here {
            res.base.limits.touch(limit, &mut res.base.effects);
            changed = true;
        }
    }
    changed |= end_throttled(&mut res.base, grant) && waited_for;
    res.base.routing.routes[route_id].in_flight -= 1;
    loop_table::unpin_loop(&mut res.base, grant.loop_);
    changed
}

/// Counts a call that left late from when it left: in windows, not at pacers, which have let it go already. A call that has
/// ended since is left alone.
pub(crate) fn count_from_departure(res: &mut Resources, departure: Departure, now: Nanos) {
    let Some(call) = res.calls.leaves_late(departure, now) else { return };
    for (limit, slot) in find::route_of(&res.base, call.route_id, call.loop_) {
        let held = &mut res.base.limits[limit];
        if held.since <= call.epoch && held.meter.count_from(call.units[slot as usize], call.counted, now) {
            res.base.limits.touch(limit, &mut res.base.effects);
        }
    }
}

/// Grows the reservation of a call that goes on to what it has cost so far.
pub(crate) fn grow(res: &mut Resources, grant: &Grant, so_far: &Cost, now: Nanos) {
    let call = res.calls[grant].clone();
    let (mut more, mut uncounted) = ([0; MAX_UNIT_KINDS], [0; MAX_UNIT_KINDS]);
    for (limit, slot) in find::route_of(&res.base, call.route_id, call.loop_) {
        let held = &res.base.limits[limit];
        let layout = &res.base.routing.routes[call.route_id].layout;
        let dimension = layout.dimension(slot).filter(|dimension| **dimension != Dimension::Bytes);
        let Some(dimension) = dimension.filter(|dimension| so_far.states(dimension)) else { continue };
        let (cost, reserved) = (so_far.units(dimension), call.units[slot as usize]);
        if cost <= reserved {
            continue;
        }
        if held.since > call.epoch || !held.meter.counts() || held.meter.is_in_flight() {
            continue;
        }
        let charged = bounds::charge_debt(&mut res.upstream, &mut res.base, limit, cost - reserved, now);
        let slot = slot as usize;
        more[slot] = cost - reserved;
        uncounted[slot] = uncounted[slot].max(cost - reserved - charged);
        let served = call.served(limit, charged.into());
        res.base.limits.serve(served, &mut res.base.effects);
        res.base.limits.touch(limit, &mut res.base.effects);
    }
    res.calls.grow(grant, &more, &uncounted);
}
