//! Planning anew: a waiting call keeps its ticket, arrival and deadline when the limits on its way change, be it by another
//! config or because a backoff window joins or leaves its route.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use super::lane::{Like, Run, Waiter};
use super::{Engine, SLOT, Ticket, Units, Verdict};
use crate::model::dimension::Dimension;
use crate::model::priority::Priority;
use crate::model::refusal::{Reason, Refusal};
use crate::model::time::Nanos;
use crate::model::{LaneId, LimitId, LoopId, RouteId, ServiceId, WaiterId};

/// A waiting call between two configs. What its lane and its route knew of it is written down here, since
/// both places may be another's by the time it is seated again.
pub(super) struct Unseated {
    index: WaiterId,
    waiter: Waiter,
    deadline: Nanos,
    loop_: LoopId,
    class: Priority,
    like: Like,
    units: Vec<(Dimension, u64)>,
}

impl Engine {
    /// Lists the limits of these routes anew. The lanes on them are bound anew when effects are applied.
    pub(super) fn reroute(&mut self, skeletons: &BTreeSet<RouteId>, now: Nanos) {
        for &skeleton in skeletons {
            self.route_skeleton(skeleton, now);
        }
        self.effects.reroute.extend(skeletons);
    }

    /// Has the lanes of these routes wait at the limits that the routes have now.
    pub(super) fn rebind(&mut self, skeletons: &BTreeSet<RouteId>, now: Nanos) {
        if skeletons.is_empty() {
            return;
        }
        let lanes = self.lanes_of(skeletons);
        let bounds: Vec<LimitId> = lanes.iter().map(|lane| self.scheduler.lanes[*lane].bound).collect();
        // A queue that is empty for a moment must not forget whom it served.
        let queues: BTreeSet<LimitId> = bounds.iter().copied().filter(|bound| !bound.is_nil()).collect();
        for &queue in &queues {
            self.contention(queue).bound += 1;
        }
        for &lane in &lanes {
            self.unbind(lane);
            self.count_passing(lane, -1);
        }
        for (&lane, before) in lanes.iter().zip(bounds) {
            let held = &self.scheduler.lanes[lane];
            let route = self.route_of(held.skeleton, held.loop_);
            let limits = || route.iter().map(|(limit, _)| *limit);
            // Where it stood, if that is still on its way; else anywhere, it is looked at in any case.
            let bound = limits().find(|limit| *limit == before).or_else(|| limits().next());
            self.scheduler.lanes[lane].route = route.into();
            self.count_passing(lane, 1);
            if let Some(bound) = bound {
                self.bind(lane, bound);
            }
        }
        for queue in queues {
            let contention = self.contention(queue);
            contention.bound -= 1;
            if contention.bound == 0 {
                self.forget_served(queue);
            }
            self.tidy(queue);
        }
        // One whose every limit is gone has nothing to wait for.
        self.let_free_lanes_go(now);
    }

    /// The lanes of these routes, in an order of their own: a hash map's differs from run to run.
    pub(super) fn lanes_of(&self, skeletons: &BTreeSet<RouteId>) -> BTreeSet<LaneId> {
        let is_theirs = |lane: &LaneId| skeletons.contains(&self.scheduler.lanes[*lane].skeleton);
        self.scheduler.lane_index.values().copied().filter(is_theirs).collect()
    }

    /// Takes every waiting call out of the queue, in order of arrival.
    pub(super) fn unseat_all(&mut self) -> Vec<Unseated> {
        let all = self.scheduler.lane_index.values().flat_map(|lane| self.calls_of(*lane)).collect();
        let all = self.unseat(all);
        self.scheduler.dirty.clear();
        self.effects.touched.clear();
        all
    }

    /// The same for those who ask for a model that no pattern of a service names.
    pub(super) fn unseat_model(&mut self, service: ServiceId, model: &str) -> Vec<Unseated> {
        let of_service = |lane: &&LaneId| {
            let skeleton = &self.routing.skeletons[self.scheduler.lanes[**lane].skeleton];
            skeleton.service == service
        };
        let lanes = self.scheduler.lane_index.values().filter(of_service);
        let asks = |call: &WaiterId| {
            let shape = &self.run_of(*call).like.shape;
            [&shape.model, &shape.other_model].into_iter().flatten().any(|name| **name == *model)
        };
        let asking = lanes.flat_map(|lane| self.calls_of(*lane)).filter(asks).collect();
        self.unseat(asking)
    }

    fn unseat(&mut self, calls: Vec<WaiterId>) -> Vec<Unseated> {
        let note = |index: WaiterId| {
            let Run { lane, ref like, .. } = *self.run_of(index);
            let held = &self.scheduler.lanes[lane];
            Unseated {
                index,
                waiter: self.scheduler.waiters[index].clone(),
                deadline: self.scheduler.deadlines.of(index),
                loop_: held.loop_,
                class: held.class,
                units: self.relayout(held.skeleton, &like.units),
                like: like.clone(),
            }
        };
        let mut all: Vec<Unseated> = calls.into_iter().map(note).collect();
        all.sort_by_key(|unseated| unseated.waiter.seq);
        for unseated in &all {
            self.pull_waiter(unseated.index);
        }
        all
    }

    /// Puts waiting calls back under the config in force, each with its ticket, its arrival and its
    /// deadline. One that can no longer go is refused.
    pub(super) fn seat_again(&mut self, waiting: Vec<Unseated>, now: Nanos) {
        // Their places are free now; they get the same ones, so that tickets stay good.
        let places: BTreeSet<WaiterId> = waiting.iter().map(|unseated| unseated.index).collect();
        self.scheduler.waiters.retain_free(|index| !places.contains(&index));
        for Unseated { index, waiter, deadline, loop_, class, mut like, units } in waiting {
            let ticket = Ticket { index, generation: waiter.generation };
            let routed = self.resolve_shape(&like.shape, now);
            let refused = match routed {
                Err(refusal) => Some(refusal),
                Ok(skeleton) => {
                    like.units = self.layout(skeleton, &units);
                    let route = self.route_of(skeleton, loop_);
                    let fits = self.fit_units(&mut like.units, &route, class, like.estimated);
                    let refused = fits.map(|(limit, cost, capacity)| Refusal {
                        reason: Reason::TooLarge { cost, capacity },
                        limit: Some(self.limit_name(limit)),
                        wait: None,
                        reset: self.reset_of(limit, now),
                    });
                    if refused.is_none() {
                        let lane = self.lane_for(skeleton, loop_, class);
                        self.scheduler.waiters[index] = waiter;
                        self.push_waiter(index, lane, like, deadline);
                        if self.scheduler.lanes[lane].bound.is_nil() {
                            let first = route.first().map_or(LimitId::NIL, |(limit, _)| *limit);
                            if !first.is_nil() {
                                self.bind(lane, first);
                            }
                        }
                    }
                    refused
                }
            };
            if let Some(refusal) = refused {
                self.scheduler.waiters.free(index);
                self.scheduler.verdicts.push((ticket, Verdict::Refused(refusal)));
            }
        }
        // A call whose every limit is gone has nothing to wait for.
        self.let_free_lanes_go(now);
    }

    pub(super) fn let_free_lanes_go(&mut self, now: Nanos) {
        // By arrival: the lanes of a hash map come in another order every run.
        let mut free = BTreeSet::new();
        for lane in self.scheduler.lane_index.values() {
            if self.scheduler.lanes[*lane].bound.is_nil() {
                free.extend(self.calls_of(*lane).map(|call| (self.scheduler.waiters[call].seq, call)));
            }
        }
        for (_, waiter) in free {
            let held = &self.scheduler.waiters[waiter];
            let ticket = Ticket { index: waiter, generation: held.generation };
            let run = self.run_of(waiter);
            let (units, lane) = (run.like.units, &self.scheduler.lanes[run.lane]);
            let (skeleton, loop_, class) = (lane.skeleton, lane.loop_, lane.class);
            let grant = self.record(skeleton, loop_, class, &units, now);
            self.pull_waiter(waiter);
            self.scheduler.verdicts.push((ticket, Verdict::Granted(grant)));
        }
    }

    /// A waiting call's units by dimension, as its old route laid them out.
    fn relayout(&self, skeleton: RouteId, units: &Units) -> Vec<(Dimension, u64)> {
        let held = &self.routing.skeletons[skeleton].layout;
        (0..SLOT).filter_map(|slot| Some((held.dimension(slot)?.clone(), units[slot as usize]))).collect()
    }

    /// Units by dimension in the layout of a route. A dimension that the old route did not count is not
    /// known any more, and counts as one request or as nothing.
    fn layout(&self, skeleton: RouteId, units: &[(Dimension, u64)]) -> Units {
        let held = &self.routing.skeletons[skeleton].layout;
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

    /// After a limit changed in place: refuses what can no longer fit, and looks at everything again.
    pub(super) fn replan_all(&mut self, now: Nanos) {
        self.fit_all(now);
        self.pump(now);
    }

    /// The same without letting anybody go yet.
    pub(super) fn fit_all(&mut self, now: Nanos) {
        let mut impossible = Vec::new();
        for lane in self.scheduler.lane_index.values().copied().collect::<BTreeSet<_>>() {
            let (route, class) = (self.scheduler.lanes[lane].route.clone(), self.scheduler.lanes[lane].class);
            let mut smaller = HashMap::new();
            for waiter in self.calls_of(lane) {
                let like = &self.run_of(waiter).like;
                let mut units = like.units;
                match self.fit_units(&mut units, &route, class, like.estimated) {
                    Some((limit, cost, capacity)) => {
                        let seq = self.scheduler.waiters[waiter].seq;
                        impossible.push((seq, waiter, limit, cost, capacity));
                    }
                    None if units != like.units => drop(smaller.insert(waiter, units)),
                    None => {}
                }
            }
            if !smaller.is_empty() {
                self.resize(lane, &smaller);
            }
        }
        impossible.sort_unstable();
        for (_, waiter, limit, cost, capacity) in impossible {
            let ticket = Ticket { index: waiter, generation: self.scheduler.waiters[waiter].generation };
            let refusal = Refusal {
                reason: Reason::TooLarge { cost, capacity },
                limit: Some(self.limit_name(limit)),
                wait: None,
                reset: self.reset_of(limit, now),
            };
            self.pull_waiter(waiter);
            self.scheduler.verdicts.push((ticket, Verdict::Refused(refusal)));
        }
        for limit in self.limits.all.ids() {
            self.mark(limit);
        }
    }
}
