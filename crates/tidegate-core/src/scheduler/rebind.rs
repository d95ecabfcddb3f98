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
use crate::scheduler::lane::{Like, Run, Waiter};
use crate::scheduler::state::Scheduler;
use crate::scheduler::{bind, lanes, marks, queue, seats};
use hashbrown::HashMap;
use std::collections::BTreeSet;

/// A waiting call between two configs. What its lane and its route knew of it is written down here, since
/// both places may be another's by the time it is seated again.
pub(crate) struct Unseated {
    index: WaiterId,
    waiter: Waiter,
    deadline: Nanos,
    loop_: LoopId,
    class: Priority,
    like: Like,
    units: Vec<(Dimension, u64)>,
}

/// Has the lanes of these routes wait at the limits that the routes have now.
pub(crate) fn rebind(s: &mut Scheduler, res: &mut Resources, skeletons: &BTreeSet<RouteId>, now: Nanos) {
    if skeletons.is_empty() {
        return;
    }
    let lanes = lanes::lanes_of(s, skeletons);
    let bounds: Vec<LimitId> = lanes.iter().map(|lane| s.lanes[*lane].bound).collect();
    // A queue that is empty for a moment must not forget whom it served.
    let queues: BTreeSet<LimitId> = bounds.iter().copied().filter(|bound| !bound.is_nil()).collect();
    for &queue in &queues {
        queue::contention(&mut res.base.limits, queue).bound += 1;
    }
    for &lane in &lanes {
        bind::unbind(s, &mut res.base, lane);
        seats::count_passing(s, &mut res.base, lane, -1);
    }
    for (&lane, before) in lanes.iter().zip(bounds) {
        let held = &s.lanes[lane];
        let route = find::route_of(&res.base, held.skeleton, held.loop_);
        let limits = || route.iter().map(|(limit, _)| *limit);
        // Where it stood, if that is still on its way; else anywhere, it is looked at in any case.
        let bound = limits().find(|limit| *limit == before).or_else(|| limits().next());
        s.lanes[lane].route = route.into();
        seats::count_passing(s, &mut res.base, lane, 1);
        if let Some(bound) = bound {
            bind::bind(s, &mut res.base, lane, bound);
        }
    }
    for queue in queues {
        let contention = queue::contention(&mut res.base.limits, queue);
        contention.bound -= 1;
        if contention.bound == 0 {
            bind::forget_served(&mut res.base, queue);
        }
        marks::tidy(s, &mut res.base, queue);
    }
    // One whose every limit is gone has nothing to wait for.
    let_free_lanes_go(s, res, now);
}

/// Takes every waiting call out of the queue, in order of arrival.
pub(crate) fn unseat_all(s: &mut Scheduler, base: &mut Base) -> Vec<Unseated> {
    let all = s.lane_index.values().flat_map(|lane| lanes::calls_of(s, *lane)).collect();
    let all = unseat(s, base, all);
    s.dirty.clear();
    base.effects.touched.clear();
    all
}

/// The same for those who ask for a model that no pattern of a service names.
pub(crate) fn unseat_model(
    s: &mut Scheduler,
    base: &mut Base,
    service: ServiceId,
    model: &str,
) -> Vec<Unseated> {
    let of_service = |lane: &&LaneId| {
        let skeleton = &base.routing.skeletons[s.lanes[**lane].skeleton];
        skeleton.service == service
    };
    let lanes = s.lane_index.values().filter(of_service);
    let asks = |call: &WaiterId| {
        let shape = &lanes::run_of(s, *call).like.shape;
        [&shape.model, &shape.other_model].into_iter().flatten().any(|name| **name == *model)
    };
    let asking = lanes.flat_map(|lane| lanes::calls_of(s, *lane)).filter(asks).collect();
    unseat(s, base, asking)
}

fn unseat(s: &mut Scheduler, base: &mut Base, calls: Vec<WaiterId>) -> Vec<Unseated> {
    let note = |index: WaiterId| {
        let Run { lane, ref like, .. } = *lanes::run_of(s, index);
        let held = &s.lanes[lane];
        Unseated {
            index,
            waiter: s.waiters[index].clone(),
            deadline: s.deadlines.of(index),
            loop_: held.loop_,
            class: held.class,
            units: relayout(base, held.skeleton, &like.units),
            like: like.clone(),
        }
    };
    let mut all: Vec<Unseated> = calls.into_iter().map(note).collect();
    all.sort_by_key(|unseated| unseated.waiter.seq);
    for unseated in &all {
        seats::pull_waiter(s, base, unseated.index);
    }
    all
}

/// Puts waiting calls back under the config in force, each with its ticket, its arrival and its
/// deadline. One that can no longer go is refused.
pub(crate) fn seat_again(s: &mut Scheduler, res: &mut Resources, waiting: Vec<Unseated>, now: Nanos) {
    // Their places are free now; they get the same ones, so that tickets stay good.
    let places: BTreeSet<WaiterId> = waiting.iter().map(|unseated| unseated.index).collect();
    s.waiters.retain_free(|index| !places.contains(&index));
    for Unseated { index, waiter, deadline, loop_, class, mut like, units } in waiting {
        let ticket = Ticket { index, generation: waiter.generation };
        let routed = find::resolve_shape(&mut res.base, &like.shape, now);
        let refused = match routed {
            Err(refusal) => Some(refusal),
            Ok(skeleton) => {
                like.units = layout(&res.base, skeleton, &units);
                let route = find::route_of(&res.base, skeleton, loop_);
                let fits = res.base.limits.fit_units(&mut like.units, &route, class, like.estimated);
                let refused = fits.map(|(limit, cost, capacity)| Refusal {
                    reason: Reason::TooLarge { cost, capacity },
                    limit: Some(names::limit_name(&res.base, limit)),
                    wait: None,
                    reset: res.base.limits.reset_of(limit, now),
                });
                if refused.is_none() {
                    let lane = seats::lane_for(s, &mut res.base, skeleton, loop_, class);
                    s.waiters[index] = waiter;
                    seats::push_waiter(s, &mut res.base, index, lane, like, deadline);
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
    let_free_lanes_go(s, res, now);
}

fn let_free_lanes_go(s: &mut Scheduler, res: &mut Resources, now: Nanos) {
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
        let run = lanes::run_of(s, waiter);
        let (units, lane) = (run.like.units, &s.lanes[run.lane]);
        let (skeleton, loop_, class) = (lane.skeleton, lane.loop_, lane.class);
        let grant = spend::record(res, skeleton, loop_, class, &units, now);
        seats::pull_waiter(s, &mut res.base, waiter);
        s.verdicts.push((ticket, Verdict::Granted(grant)));
    }
}

/// A waiting call's units by dimension, as its old route laid them out.
fn relayout(base: &Base, skeleton: RouteId, units: &Units) -> Vec<(Dimension, u64)> {
    let held = &base.routing.skeletons[skeleton].layout;
    (0..SLOT).filter_map(|slot| Some((held.dimension(slot)?.clone(), units[slot as usize]))).collect()
}

/// Units by dimension in the layout of a route. A dimension that the old route did not count is not
/// known any more, and counts as one request or as nothing.
fn layout(base: &Base, skeleton: RouteId, units: &[(Dimension, u64)]) -> Units {
    let held = &base.routing.skeletons[skeleton].layout;
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

/// The same without letting anybody go yet.
pub(crate) fn fit_all(s: &mut Scheduler, base: &mut Base, now: Nanos) {
    let mut impossible = Vec::new();
    for lane in s.lane_index.values().copied().collect::<BTreeSet<_>>() {
        let (route, class) = (s.lanes[lane].route.clone(), s.lanes[lane].class);
        let mut smaller = HashMap::new();
        for waiter in lanes::calls_of(s, lane) {
            let like = &lanes::run_of(s, waiter).like;
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
            seats::resize(s, base, lane, &smaller);
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
        seats::pull_waiter(s, base, waiter);
        s.verdicts.push((ticket, Verdict::Refused(refusal)));
    }
    for limit in base.limits.all.ids() {
        marks::mark(s, base, limit);
    }
}
