//! Refusals, of new calls and of calls that wait.

use crate::calls::Arrival;
use crate::model::call::Call;
use crate::model::refusal::{Reason, Refusal};
use crate::model::route_limit::RouteLimit;
use crate::model::time::Nanos;
use crate::model::{LimitId, RouteId, WaiterId};
use crate::routing::route::Route;
use crate::routing::state::Base;
use crate::routing::{find, names};
use crate::scheduler::decision::{Ticket, Verdict};
use crate::scheduler::state::Scheduler;
use crate::scheduler::{forecast, lanes, placement};
use crate::upstream::breakers;

/// Refuses a stated cost that can never fit, and brings an estimated one down to what can.
pub(crate) fn fit_or_refuse(
    s: &mut Scheduler,
    base: &mut Base,
    arrival: &mut Arrival,
    call: &Call,
    now: Nanos,
) -> Result<(), Refusal> {
    if base.routing.routes[arrival.route_id].terms.observe {
        return Ok(());
    }
    let own;
    let route: &[RouteLimit] = match lanes::lane_of(s, arrival) {
        Some(lane) => &s.lanes[lane].route,
        None => {
            own = find::route_of(base, arrival.route_id, arrival.loop_);
            &own
        }
    };
    let refused = base.limits.fit_units(&mut arrival.units, route, arrival.class, call.said.estimated);
    refused.map_or(Ok(()), |(limit, cost, capacity)| {
        Err(Refusal {
            reason: Reason::TooLarge { cost, capacity },
            limit: Some(names::limit_name(base, limit)),
            wait: None,
            reset: base.limits.reset_of(limit, now),
        })
    })
}

/// Refuses a waiting call.
pub(crate) fn refuse_waiting(
    s: &mut Scheduler,
    base: &mut Base,
    waiter: WaiterId,
    reason: Reason,
    now: Nanos,
) {
    let ticket = Ticket { index: waiter, generation: s.waiters[waiter].generation };
    let run = lanes::batch_of(s, waiter);
    let lane = &s.lanes[run.lane];
    let (bound, class, units) = (lane.bound, lane.class, run.like.units);
    let arrival = Arrival { route_id: lane.route_id, loop_: lane.loop_, class, units };
    let Route { service, breaker, .. } = base.routing.routes[arrival.route_id];
    let refusal = match reason {
        // Whatever it waited for, that is not why it is refused.
        Reason::CircuitOpen => breakers::circuit_open(base, breaker, now),
        reason if bound.is_nil() => refusal_by(base, reason, bound, Nanos::NEVER, &arrival, now),
        // Its time is up while the breaker is open: what would help is known.
        reason if bound == breaker => Refusal { reason, ..breakers::circuit_open(base, breaker, now) },
        reason => {
            let until = forecast::forecast(s, base, ticket, now);
            refusal_by(base, reason, bound, until, &arrival, now)
        }
    };
    let counts = &mut base.routing.services[service].counts;
    match refusal.reason {
        Reason::QueueFull => counts.shed += 1,
        Reason::CircuitOpen => counts.refused += 1,
        _ => counts.timed_out += 1,
    }
    placement::pull_waiter(s, base, waiter);
    s.verdicts.push((ticket, Verdict::Refused(refusal)));
}

/// Why a call may not go: `limit` holds it until then.
pub(crate) fn refusal_by(
    base: &Base,
    reason: Reason,
    limit: LimitId,
    until: Nanos,
    arrival: &Arrival,
    now: Nanos,
) -> Refusal {
    if limit.is_nil() {
        return Refusal::bare(reason);
    }
    let mut until = until;
    if until.is_never() {
        let route = find::route_of(base, arrival.route_id, arrival.loop_);
        let slot = route.iter().find(|(id, _)| *id == limit).map_or(0, |(_, slot)| *slot);
        let withheld = base.limits.specs[base.limits[limit].spec].withheld;
        let cost = arrival.units[slot as usize];
        until = base.limits[limit].earliest(cost, withheld[arrival.class as usize], now);
    }
    Refusal {
        reason,
        limit: Some(names::limit_name(base, limit)),
        wait: (!until.is_never()).then(|| until.since(now)),
        reset: base.limits.reset_of(limit, now),
    }
}

/// A breaker opened, and those who wait do not want to.
pub(crate) fn refuse_all_at(s: &mut Scheduler, base: &mut Base, breaker: LimitId, now: Nanos) {
    let on_it = |route_id: &RouteId| base.routing.routes[*route_id].breaker == breaker;
    let routes = base.routing.route_index.values().copied().filter(on_it).collect();
    let mut waiting = Vec::new();
    for lane in lanes::lanes_of(s, &routes) {
        waiting.extend(lanes::calls_of(s, lane).map(|call| (s.waiters[call].seq, call)));
    }
    waiting.sort_unstable();
    for (_, waiter) in waiting {
        refuse_waiting(s, base, waiter, Reason::CircuitOpen, now);
    }
}
