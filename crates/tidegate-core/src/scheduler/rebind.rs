//! Planning anew: a waiting call keeps its ticket, arrival and deadline when the limits on its route change, be it by another
//! config or because a backoff window joins or leaves the route.

use crate::admission::resources::Resources;
use crate::admission::spend;
use crate::model::dimension::Dimension;
use crate::model::priority::Priority;
use crate::model::refusal::{Reason, Refusal};
use crate::model::time::Nanos;
use crate::model::{LaneId, LimitId, LoopId, RouteId, SLOT, ServiceId, Units, WaiterId};
use crate::routing::state::Base;
use crate::routing::{find, names};
use crate::scheduler::decision::{Ticket, Verdict};
use crate::scheduler::lane::{Batch, CallTraits, Waiter};
use crate::scheduler::state::Scheduler;
use crate::scheduler::{bind, lanes, marks, placement, queue};
use hashbrown::HashMap;
use std::collections::BTreeSet;

/// A waiting call between two configs. What its lane and its route knew of it is written down here, since
/// both places may be another's by the time it is seated again.
pub(crate) struct Displaced {
    index: WaiterId,
    waiter: Waiter,
    deadline: Nanos,
    loop_: LoopId,
    class: Priority,
    like: CallTraits,
    units: Vec<(Dimension, u64)>,
}

/// Has the lanes of these routes wait at the limits that the routes have now.
pub(crate) fn rebind(s: &mut Scheduler, res: &mut Resources, routes: &BTreeSet<RouteId>, now: Nanos) {
    if routes.is_empty() {
        return;
    }
    let lanes = lanes::lanes_of(s, routes);
    let bounds: Vec<LimitId> = lanes.iter().map(|lane| s.lanes[*lane].bound).collect();
    // A queue that is empty for a moment must not forget whom it served.
    let queues: BTreeSet<LimitId> = bounds.iter().copied().filter(|bound| !bound.is_nil()).collect();
    for &limit in &queues {
        queue::queue_at(&mut res.base.limits, limit).bound += 1;
    }
    for &lane in &lanes {
        bind::unbind(s, &mut res.base, lane);
        placement::count_passing(s, &mut res.base, lane, -1);
    }
    for (&lane, before) in lanes.iter().zip(bounds) {
        let held = &s.lanes[lane];
        let route = find::route_of(&res.base, held.route_id, held.loop_);
        let limits = || route.iter().map(|(limit, _)| *limit);
        // Where it stood, if that is still on its way; else anywhere, it is looked at in any case.
        let bound = limits().find(|limit| *limit == before).or_else(|| limits().next());
        s.lanes[lane].route = route.into();
        placement::count_passing(s, &mut res.base, lane, 1);
        if let Some(bound) = bound {
            bind::bind(s, &mut res.base, lane, bound);
        }
    }
    for limit in queues {
        let queue = queue::queue_at(&mut res.base.limits, limit);
        queue.bound -= 1;
        if queue.bound == 0 {
            bind::forget_served(&mut res.base, limit);
        }
        marks::tidy(s, &mut res.base, limit);
    }
    // One whose every limit is gone has nothing to wait for.
    grant_unlimited_lanes(s, res, now);
}

/// Takes every waiting call out of the queue, in order of arrival.
pub(crate) fn displace_all(s: &mut Scheduler, base: &mut Base) -> Vec<Displaced> {
    let all = s.lane_index.values().flat_map(|lane| lanes::calls_of(s, *lane)).collect();
    let all = displace(s, base, all);
    s.dirty.clear();
    base.effects.touched.clear();
    all
}

/// The same for those who ask for a model that no pattern of a service names.
pub(crate) fn displace_model(
    s: &mut Scheduler,
    base: &mut Base,
    service: ServiceId,
    model: &str,
) -> Vec<Displaced> {
    let of_service = |lane: &&LaneId| {
        let route_id = &base.routing.routes[s.lanes[**lane].route_id];
        route_id.service == service
    };
    let lanes = s.lane_index.values().filter(of_service);
    let asks = |call: &WaiterId| {
        let shape = &lanes::batch_of(s, *call).like.shape;
        [&shape.model, &shape.other_model].into_iter().flatten().any(|name| **name == *model)
    };
    let asking = lanes.flat_map(|lane| lanes::calls_of(s, *lane)).filter(asks).collect();
    displace(s, base, asking)
}

fn displace(s: &mut Scheduler, base: &mut Base, calls: Vec<WaiterId>) -> Vec<Displaced> {
    let note = |index: WaiterId| {
        let Batch { lane, ref like, .. } = *lanes::batch_of(s, index);
        let held = &s.lanes[lane];
        Displaced {
            index,
            waiter: s.waiters[index].clone(),
            deadline: s.deadlines.of(index),
            loop_: held.loop_,
            class: held.class,
            units: relayout(base, held.route_id, &like.units),
            like: like.clone(),
        }
    };
    let mut all: Vec<Displaced> = calls.into_iter().map(note).collect();
    all.sort_by_key(|displaced| displaced.waiter.seq);
    for displaced in &all {
        placement::pull_waiter(s, base, displaced.index);
    }
    all
}

/// Puts waiting calls back under the config in force, each with its ticket, its arrival and its
/// deadline. One that can no longer go is refused.
pub(crate) fn place_again(s: &mut Scheduler, res: &mut Resources, waiting: Vec<Displaced>, now: Nanos) {
    // Their places are free now; they get the same ones, so that tickets stay good.
    let places: BTreeSet<WaiterId> = waiting.iter().map(|displaced| displaced.index).collect();
    s.waiters.retain_free(|index| !places.contains(&index));
    for Displaced { index, waiter, deadline, loop_, class, mut like, units } in waiting {
        let ticket = Ticket { index, generation: waiter.generation };
        let routed = find::resolve_shape(&mut res.base, &like.shape, now);
        let refused = match routed {
            Err(refusal) => Some(refusal),
            Ok(route_id) => {
                like.units = layout(&res.base, route_id, &units);
                let route = find::route_of(&res.base, route_id, loop_);
                let fits = res.base.limits.fit_units(&mut like.units, &route, class, like.estimated);
                let refused = fits.map(|(limit, cost, capacity)| Refusal {
                    reason: Reason::TooLarge { cost, capacity },
                    limit: Some(names::limit_name(&res.base, limit)),
                    wait: None,
                    reset: res.base.limits.reset_of(limit, now),
                });
                if refused.is_none() {
                    let lane = placement::lane_for(s, &mut res.base, route_id, loop_, class);
                    s.waiters[index] = waiter;
                    placement::push_waiter(s, &mut res.base, index, lane, like, deadline);
                    if s.lanes[lane].bound.is_nil() {
                        let first = route.first().map_or(LimitId::NIL, |(limit, _)| *limit);
                        if !first.is_nil() {
                            bind::bind(s, &mut res.base, lane, first);
                        }
                    }
                }
                refused
            }
        };
        if let Some(refusal) = refused {
            s.waiters.free(index);
            s.verdicts.push((ticket, Verdict::Refused(refusal)));
        }
    }
    // A call whose every limit is gone has nothing to wait for.
    grant_unlimited_lanes(s, res, now);
}

fn grant_unlimited_lanes(s: &mut Scheduler, res: &mut Resources, now: Nanos) {
    // By arrival: the lanes of a hash map come in another order every run.
    let mut free = BTreeSet::new();
    for lane in s.lane_index.values() {
        if s.lanes[*lane].bound.is_nil() {
            free.extend(lanes::calls_of(s, *lane).map(|call| (s.waiters[call].seq, call)));
        }
    }
    for (_, waiter) in free {
        let held = &s.waiters[waiter];
        let ticket = Ticket { index: waiter, generation: held.generation };
        let run = lanes::batch_of(s, waiter);
        let (units, lane) = (run.like.units, &s.lanes[run.lane]);
        let (route_id, loop_, class) = (lane.route_id, lane.loop_, lane.class);
        let grant = spend::record(res, route_id, loop_, class, &units, now);
        placement::pull_waiter(s, &mut res.base, waiter);
        s.verdicts.push((ticket, Verdict::Granted(grant)));
    }
}

/// A waiting call's units by dimension, as its old route laid them out.
fn relayout(base: &Base, route_id: RouteId, units: &Units) -> Vec<(Dimension, u64)> {
    let held = &base.routing.routes[route_id].layout;
    (0..SLOT).filter_map(|slot| Some((held.dimension(slot)?.clone(), units[slot as usize]))).collect()
}

/// Units by dimension in the layout of a route. A dimension that the old route did not count is not
/// known any more, and counts as one request or as nothing.
fn layout(base: &Base, route_id: RouteId, units: &[(Dimension, u64)]) -> Units {
    let held = &base.routing.routes[route_id].layout;
    let mut laid = Units::default();
    for slot in 0..SLOT {
        if let Some(dimension) = held.dimension(slot) {
            let known = units.iter().find(|(known, _)| known == dimension).map(|(_, units)| *units);
            laid[slot as usize] = known.unwrap_or(u64::from(*dimension == Dimension::Requests));
        }
    }
    laid[SLOT as usize] = 1;
    laid
}

/// Refuses waiting calls that can no longer fit, and marks every limit.
pub(crate) fn refit(s: &mut Scheduler, base: &mut Base, now: Nanos) {
    let mut impossible = Vec::new();
    for lane in s.lane_index.values().copied().collect::<BTreeSet<_>>() {
        let (route, class) = (s.lanes[lane].route.clone(), s.lanes[lane].class);
        let mut smaller = HashMap::new();
        for waiter in lanes::calls_of(s, lane) {
            let like = &lanes::batch_of(s, waiter).like;
            let mut units = like.units;
            match base.limits.fit_units(&mut units, &route, class, like.estimated) {
                Some((limit, cost, capacity)) => {
                    let seq = s.waiters[waiter].seq;
                    impossible.push((seq, waiter, limit, cost, capacity));
                }
                None if units != like.units => drop(smaller.insert(waiter, units)),
                None => {}
            }
        }
        if !smaller.is_empty() {
            placement::resize(s, base, lane, &smaller);
        }
    }
    impossible.sort_unstable();
    for (_, waiter, limit, cost, capacity) in impossible {
        let ticket = Ticket { index: waiter, generation: s.waiters[waiter].generation };
        let refusal = Refusal {
            reason: Reason::TooLarge { cost, capacity },
            limit: Some(names::limit_name(base, limit)),
            wait: None,
            reset: base.limits.reset_of(limit, now),
        };
        placement::pull_waiter(s, base, waiter);
        s.verdicts.push((ticket, Verdict::Refused(refusal)));
    }
    for limit in base.limits.all.ids() {
        marks::mark(s, base, limit);
    }
}
