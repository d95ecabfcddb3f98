//! Lines: lanes of calls that are all alike, as most are.
//!
//! A call that *joins* a batch goes after all of its calls, so no other call is affected. Whether the batch can move by now is
//! left to its timer, which moves many calls at once. If the timer is overdue, because the program is busy, the arriving call
//! moves the batch.
//!
//! A line *moves* in one step where nobody else waits for anything on its way: what one of its calls is let go for, the
//! next one is let go for too, as long as there is room. What each takes is taken call by call, as it would be if each
//! were judged anew; what they are to others, which is rank, credit and what to look at again, is seen to once for all.

use crate::admission::resources::Resources;
use crate::admission::{settle, spend};
use crate::calls::Arrival;
use crate::limits::store::Limits;
use crate::model::call::Call;
use crate::model::route_limit::RouteLimit;
use crate::model::time::Nanos;
use crate::model::{BatchId, LaneId, Units, WaiterId};
use crate::routing::route::Route;
use crate::routing::state::Base;
use crate::scheduler::decision::{Ticket, Verdict};
use crate::scheduler::lane::{Batch, Lane, Waiter};
use crate::scheduler::shed_order::ShedOrder;
use crate::scheduler::state::Scheduler;
use crate::scheduler::{bind, eligibility, forecast, lanes, placement, rank};
use std::time::Duration;

/// A line that should have moved so long ago is not left to its timer.
const OVERDUE: Duration = Duration::from_millis(2);

/// How far back a late timer is made good: a call booked for a time at most this long ago is paced from
/// that time.
const LATE: u64 = 20_000_000;

/// A call comes to a line of calls that cost what it costs. Not where more has to be known: who has left a queue that
/// is full, how a breaker is, who goes past the line because it would wait there for too long.
pub(crate) fn join(
    s: &mut Scheduler,
    base: &mut Base,
    arrival: &mut Arrival,
    call: &Call,
    deadline: Nanos,
    now: Nanos,
) -> Option<Ticket> {
    let lane = lanes::lane_of(s, arrival)?;
    let Route { service, breaker, ref terms, .. } = base.routing.routes[arrival.route_id];
    let waiting = ShedOrder::waiting(s.shed_orders.of(service));
    if !breaker.is_nil() || terms.observe || waiting >= base.routing.services[service].queue.max_waiting {
        return None;
    }
    let Lane { tail, len, bound, ref route, .. } = s.lanes[lane];
    let Batch { len: alike, ref like, .. } = *lanes::batch_of(s, tail);
    if like.units != arrival.units {
        // Those who wait may have been brought down to what fits.
        base.limits.fit_units(&mut arrival.units, route, arrival.class, call.said.estimated);
    }
    if alike != len || like.units != arrival.units {
        return None;
    }
    let wake = base.limits.all.get(bound).and_then(|held| Some(held.queue.as_ref()?.wake));
    if wake.is_none_or(|wake| now.since(wake) > OVERDUE) {
        return None;
    }
    let same = like.estimated == call.said.estimated && like.shape == call.said.shape;
    let arrived = placement::arrived(s, now);
    let ahead = forecast::ahead_of_arrival(s, lane, arrived);
    if forecast::forecast_behind(s, base, lane, &ahead, &arrival.units, bound, now) > deadline {
        return None;
    }
    let waiter = match same {
        false => placement::seat(s, base, arrival, call, deadline, arrived).0,
        true => {
            let waiter = placement::new_waiter(s, arrived);
            follow(s, base, waiter, lane, deadline);
            waiter
        }
    };
    Some(Ticket { index: waiter, generation: s.waiters[waiter].generation })
}

/// Puts a call behind the last of a lane, which it is like.
fn follow(s: &mut Scheduler, base: &mut Base, waiter: WaiterId, lane: LaneId, deadline: Nanos) {
    s.deadlines.insert(waiter, deadline);
    s.waiting += 1;
    placement::count_waiting(s, base, lane, 1);
    let held = &mut s.lanes[lane];
    let tail = std::mem::replace(&mut held.tail, waiter);
    let last = &mut s.waiters[tail];
    last.behind = waiter;
    let index = last.run;
    let run = &mut s.batches[index];
    run.len += 1;
    held.count(&run.like.units);
    let cost = run.like.units[held.slot as usize];
    let own = &mut s.waiters[waiter];
    (own.run, own.ahead, own.behind) = (index, tail, WaiterId::NIL);
    bind::change_demand(s, base, lane, cost.into());
}

/// Returns whether only the calls of this lane wait at the limits of its route, and room is all that matters there.
pub(crate) fn waits_alone_on_route(s: &Scheduler, base: &Base, lane: LaneId) -> bool {
    let Lane { route_id, ref route, .. } = s.lanes[lane];
    let alone = |&(limit, _): &RouteLimit| {
        let held = &base.limits[limit];
        let passing = held.queue.as_ref().map(|queue| queue.passing.iter().sum::<u32>());
        passing == Some(1) && held.lent.is_none() && held.meter.counts() && !base.limits.reserves(limit)
    };
    base.routing.routes[route_id].penalty == 0 && route.iter().all(alone)
}

/// Grants the first call of a lane that has its way to itself, and those behind it that are alike and fit.
pub(crate) fn grant_batch(s: &mut Scheduler, res: &mut Resources, lane: LaneId, now: Nanos) {
    let Lane { ref route, bound, loop_, class, route_id, head, .. } = s.lanes[lane];
    let route = route.clone();
    let index = s.waiters[head].run;
    let Batch { len, ref like, .. } = s.batches[index];
    let units = like.units;
    let by_time = !bound.is_nil() && !res.base.limits[bound].meter.is_in_flight();
    let paced = by_time && route.iter().any(|(limit, _)| res.base.limits[*limit].meter.is_paced());

    let (mut next, mut went, mut quiet) = (head, 0, false);
    while went < len && (went == 0 || have_room(&mut res.base.limits, &route, &units, now)) {
        let Waiter { behind, enqueued, ref mut generation, .. } = s.waiters[next];
        let ticket = Ticket { index: next, generation: *generation };
        *generation = generation.wrapping_add(1);
        let stamp = match paced {
            true => booked_for(s, &res.base, lane, enqueued, now),
            false => now,
        };
        for &(limit, slot) in route.iter() {
            res.base.limits[limit].meter.take(units[slot as usize], stamp, now);
        }
        let grant = spend::record(res, route_id, loop_, class, &units, now);
        res.calls[&grant].held_by = s.lanes[lane].block_history.longest(enqueued, now);
        if went == 0 {
            quiet = settle::is_of_no_concern(res, &grant);
        }
        let grant = if quiet { grant.quiet() } else { grant };
        s.verdicts.push((ticket, Verdict::Granted(grant)));
        s.deadlines.remove(next);
        s.waiters.free(next);
        next = behind;
        went += 1;
    }

    for &(limit, slot) in route.iter() {
        let cost = units[slot as usize];
        let payer = (loop_, route_id, class as u8);
        rank::earn_credit(&mut res.base, limit, route_id, cost.saturating_mul(went.into()));
        // The last one by itself: the time of the others goes by when it began.
        if went > 1 {
            let before = i128::from(cost) * i128::from(went - 1);
            bind::charge_flow(s, &mut res.base, limit, payer, before, false, lane);
        }
        bind::charge_flow(s, &mut res.base, limit, payer, cost.into(), limit == bound, lane);
    }
    remove_head(s, &mut res.base, lane, index, went, next);
    bind::replace_lane(s, &mut res.base, lane);
    if next.is_nil() {
        placement::drop_lane(s, &mut res.base, lane);
    }
}

/// The first calls of a lane, all of its first run, are gone.
fn remove_head(s: &mut Scheduler, base: &mut Base, lane: LaneId, index: BatchId, went: u32, next: WaiterId) {
    s.waiting -= went as usize;
    placement::count_waiting(s, base, lane, -(went as i32));
    let held = &mut s.lanes[lane];
    let run = &mut s.batches[index];
    run.len -= went;
    run.first = next;
    held.len -= went;
    held.head = next;
    for (sum, units) in held.demand.iter_mut().zip(run.like.units) {
        *sum -= u128::from(units) * u128::from(went);
    }
    let less = i128::from(run.like.units[held.slot as usize]) * i128::from(went);
    if run.len == 0 {
        s.batch_order.remove(&mut held.batches, (run.seq, index));
        s.batches.free(index);
    }
    match next {
        WaiterId::NIL => held.tail = WaiterId::NIL,
        next => s.waiters[next].ahead = WaiterId::NIL,
    }
    bind::change_demand(s, base, lane, -less);
}

/// Whether there is room for one more on a way that a lane has to itself.
fn have_room(limits: &mut Limits, route: &[RouteLimit], units: &Units, now: Nanos) -> bool {
    route.iter().all(|&(limit, slot)| {
        let (held, cost) = (&mut limits[limit], units[slot as usize]);
        cost == 0 && !held.meter.is_in_flight() || held.meter.fits(cost, 0, now)
    })
}

/// The time that a call which goes in turn is paced from: when it was booked for, unless that is too long ago.
pub(crate) fn booked_for(s: &Scheduler, base: &Base, lane: LaneId, enqueued: Nanos, now: Nanos) -> Nanos {
    eligibility::booking(s, base, lane, now).max(enqueued).max(Nanos(now.0.saturating_sub(LATE))).min(now)
}
