//! Forecasts when a waiting call goes, and counts the calls before it.
//!
//! A forecast adds up what ranks before the call at the limit that blocks it: all calls of a higher priority that wait there, the
//! earlier calls of its own loop, and of the other loops of its priority what their weights give them meanwhile. Waits for
//! slots are not forecast.

use crate::model::time::Nanos;
use crate::model::{LaneId, LimitId, MAX_UNIT_KINDS, Units, WaiterId};
use crate::routing::state::Base;
use crate::scheduler::decision::Ticket;
use crate::scheduler::lane::{Arrived, Batch, CallTraits, Lane};
use crate::scheduler::state::Scheduler;
use crate::scheduler::{eligibility, lanes, rank};

fn add(sum: &mut [u128; MAX_UNIT_KINDS], units: &Units) {
    for (sum, units) in sum.iter_mut().zip(units) {
        *sum += u128::from(*units);
    }
}

/// When a waiting call is expected to go; the present time if that cannot be known.
pub(crate) fn forecast(s: &mut Scheduler, base: &mut Base, ticket: Ticket, now: Nanos) -> Nanos {
    let Batch { lane, like: CallTraits { units, .. }, .. } = *lanes::batch_of(s, ticket.index);
    let ahead = ahead_in_lane(s, lane, ticket.index);
    forecast_behind(s, base, lane, &ahead, &units, s.lanes[lane].bound, now)
}

/// When a call of `lane` is expected to go that has `ahead` of its own lane before it, if `bound` holds the
/// lane.
pub(crate) fn forecast_behind(
    s: &mut Scheduler,
    base: &mut Base,
    lane: LaneId,
    ahead: &[u128; MAX_UNIT_KINDS],
    units: &Units,
    bound: LimitId,
    now: Nanos,
) -> Nanos {
    let mut when = now;
    // What its own lane takes before it is sure to be ahead of it at every limit.
    for index in 0..s.lanes[lane].route.len() {
        let (limit, slot) = s.lanes[lane].route[index];
        let cost = units[slot as usize];
        if cost == 0 || base.limits[limit].meter.is_in_flight() {
            continue;
        }
        let mut ahead = ahead[slot as usize];
        if limit == bound {
            ahead = ahead.saturating_add(ahead_of_lane(s, base, lane, bound, slot, ahead));
        }
        let needs = ahead.saturating_add(u128::from(cost));
        let withheld = eligibility::withheld(s, base, limit, lane, now);
        when = when.max(base.limits[limit].meter.flows_by(needs, withheld, now));
    }
    when
}

/// Units of the calls of a lane that came before one that is about to wait there.
pub(crate) fn ahead_of_arrival(s: &Scheduler, lane: LaneId, arrived: Arrived) -> [u128; MAX_UNIT_KINDS] {
    let Lane { tail, demand, .. } = s.lanes[lane];
    let earlier = |call: &WaiterId| s.waiters[*call].seq < arrived.seq;
    if earlier(&tail) {
        return demand;
    }
    let mut ahead = [0; MAX_UNIT_KINDS];
    for call in lanes::calls_of(s, lane).take_while(earlier) {
        add(&mut ahead, &lanes::batch_of(s, call).like.units);
    }
    ahead
}

/// Units of earlier calls of the same lane.
fn ahead_in_lane(s: &Scheduler, lane: LaneId, waiter: WaiterId) -> [u128; MAX_UNIT_KINDS] {
    let held = &s.lanes[lane];
    let mut ahead = [0; MAX_UNIT_KINDS];
    if held.tail == waiter {
        let own = &lanes::batch_of(s, waiter).like.units;
        ahead = std::array::from_fn(|slot| held.demand[slot] - u128::from(own[slot]));
    } else {
        for earlier in lanes::calls_of(s, lane).take_while(|earlier| *earlier != waiter) {
            add(&mut ahead, &lanes::batch_of(s, earlier).like.units);
        }
    }
    ahead
}

/// Units of other lanes at the limit that holds this one, or will, which go before a call that has `own`
/// units of its own lane before it.
fn ahead_of_lane(s: &Scheduler, base: &Base, lane: LaneId, limit: LimitId, slot: u8, own: u128) -> u128 {
    let Lane { bound, class, loop_, route_id, .. } = s.lanes[lane];
    let Some(queue) = &base.limits[limit].queue else { return 0 };
    if bound == limit && queue.bound == 1 {
        return 0;
    }
    let higher = queue.classes[class as usize + 1..].iter().flatten().map(|class| class.demand);
    let mut ahead = higher.fold(0_u128, u128::saturating_add);
    if let Some(held) = &queue.classes[class as usize] {
        let inverse = u128::from(base.routing.routes[route_id].terms.inverse);
        let mine = if bound == limit { s.lanes[lane].demand[slot as usize] } else { 0 };
        let start = held.tag(loop_).saturating_add(own.saturating_mul(inverse));
        // While this loop's tag goes from the virtual time to `start`, each other loop is served its
        // weight times that stretch.
        let waits = held.flows.get(&loop_).filter(|flow| !flow.lanes.is_empty());
        let others = held.weights.saturating_sub(waits.map_or(0, |flow| flow.weight));
        let stretch = start.saturating_sub(held.vtime) >> 32;
        let served = stretch.saturating_mul(others) >> 32;
        ahead = ahead.saturating_add(served.min(held.demand.saturating_sub(mine)));
    }
    ahead
}

/// How many calls at the same limit rank before one. Looks at all of them.
pub(crate) fn ranked_before(s: &Scheduler, base: &Base, lane: LaneId, waiter: WaiterId, now: Nanos) -> usize {
    let ahead = ahead_in_lane(s, lane, waiter);
    let seq = s.waiters[waiter].seq;
    ranked_ahead(s, base, s.lanes[lane].bound, lane, &ahead, seq, now)
}

/// How many calls at `limit` rank before one of `lane` that has `ahead` of its own lane before it, whether the lane
/// stands there or would.
pub(crate) fn ranked_ahead(
    s: &Scheduler,
    base: &Base,
    limit: LimitId,
    lane: LaneId,
    ahead: &[u128; MAX_UNIT_KINDS],
    seq: u64,
    now: Nanos,
) -> usize {
    let Lane { bound, class, key: (own_tag, ..), route_id, loop_, ref route, .. } = s.lanes[lane];
    let Some(queue) = &base.limits[limit].queue else { return 0 };
    let slot = route.iter().find(|(id, _)| *id == limit).map_or(0, |(_, slot)| *slot);
    let inverse = u128::from(base.routing.routes[route_id].terms.inverse);
    let tag = match &queue.classes[class as usize] {
        Some(held) if bound != limit => held.tag(loop_),
        _ => own_tag,
    };
    let mine = (tag.saturating_add(ahead[slot as usize].saturating_mul(inverse)), seq);
    let mut before = 0;
    for (index, held) in queue.classes.iter().enumerate() {
        let Some(held) = held else { continue };
        s.order.each(held.root, &mut |(_, _, other)| {
            let higher = index > class as usize && !rank::passes_by_age(s, base, limit, lane, other, now);
            let older = index < class as usize && rank::passes_by_age(s, base, limit, other, lane, now);
            if higher {
                before += s.lanes[other].len as usize;
            } else if older {
                before += 1;
            } else if index == class as usize {
                before += start_tags(s, base, other).take_while(|theirs| *theirs < mine).count();
            }
            true
        });
    }
    before
}

/// The start tags that the calls of a lane will have at the limit that holds the lane, and their arrivals.
fn start_tags(s: &Scheduler, base: &Base, lane: LaneId) -> impl Iterator<Item = (u128, u64)> {
    let Lane { slot, route_id, key: (mut tag, ..), .. } = s.lanes[lane];
    let inverse = u128::from(base.routing.routes[route_id].terms.inverse);
    lanes::calls_of(s, lane).map(move |call| {
        let cost = u128::from(lanes::batch_of(s, call).like.units[slot as usize]);
        let start = tag;
        tag = tag.saturating_add(cost.saturating_mul(inverse));
        (start, s.waiters[call].seq)
    })
}
