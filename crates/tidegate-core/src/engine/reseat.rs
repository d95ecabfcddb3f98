//! Planning anew: whoever waits keeps ticket, arrival and deadline when the limits change.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use super::lane::{Like, Run, Waiter};
use super::{Engine, SLOT, Ticket, Units, Verdict};
use crate::dimension::Dimension;
use crate::priority::Priority;
use crate::refusal::{Reason, Refusal};
use crate::time::Nanos;
use crate::tree::NIL;

/// A waiting call between two configs. What its lane and its route knew of it is written down here, since
/// both places may be another's by the time it is seated again.
pub(super) struct Unseated {
    index: u32,
    waiter: Waiter,
    deadline: Nanos,
    loop_: u32,
    class: Priority,
    like: Like,
    units: Vec<(Dimension, u64)>,
}

impl Engine {
    /// Takes every waiting call out of the queue, in order of arrival.
    pub(super) fn unseat_all(&mut self) -> Vec<Unseated> {
        let all = self.lane_index.values().flat_map(|lane| self.calls_of(*lane)).collect();
        let all = self.unseat(all);
        self.dirty.clear();
        all
    }

    /// The same for those who ask for a model that no pattern of a service names.
    pub(super) fn unseat_model(&mut self, service: u32, model: &str) -> Vec<Unseated> {
        let of_service = |lane: &&u32| {
            let skeleton = &self.skeletons[self.lanes[**lane as usize].skeleton as usize];
            skeleton.service == service
        };
        let lanes = self.lane_index.values().filter(of_service);
        let asks = |call: &u32| {
            let shape = &self.run_of(*call).like.shape;
            [&shape.model, &shape.other_model].into_iter().flatten().any(|name| **name == *model)
        };
        let asking = lanes.flat_map(|lane| self.calls_of(*lane)).filter(asks).collect();
        self.unseat(asking)
    }

    fn unseat(&mut self, calls: Vec<u32>) -> Vec<Unseated> {
        let note = |index: u32| {
            let Run { lane, ref like, .. } = *self.run_of(index);
            let held = &self.lanes[lane as usize];
            Unseated {
                index,
                waiter: self.waiters[index as usize].clone(),
                deadline: self.deadlines.of(index),
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
        let places: BTreeSet<u32> = waiting.iter().map(|unseated| unseated.index).collect();
        self.free_waiters.retain(|index| !places.contains(index));
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
                        self.waiters[index as usize] = waiter;
                        self.push_waiter(index, lane, like, deadline);
                        if self.lanes[lane as usize].bound == NIL {
                            let first = route.first().map_or(NIL, |(limit, _)| *limit);
                            if first != NIL {
                                self.bind(lane, first);
                            }
                        }
                    }
                    refused
                }
            };
            if let Some(refusal) = refused {
                self.free_waiters.push(index);
                self.verdicts.push((ticket, Verdict::Refused(refusal)));
            }
        }
        // A call whose every limit is gone has nothing to wait for.
        self.let_free_lanes_go(now);
    }

    pub(super) fn let_free_lanes_go(&mut self, now: Nanos) {
        // By arrival: the lanes of a hash map come in another order every run.
        let mut free = BTreeSet::new();
        for lane in self.lane_index.values() {
            if self.lanes[*lane as usize].bound == NIL {
                free.extend(self.calls_of(*lane).map(|call| (self.waiters[call as usize].seq, call)));
            }
        }
        for (_, waiter) in free {
            let held = &self.waiters[waiter as usize];
            let ticket = Ticket { index: waiter, generation: held.generation };
            let run = self.run_of(waiter);
            let (units, lane) = (run.like.units, &self.lanes[run.lane as usize]);
            let (skeleton, loop_, class) = (lane.skeleton, lane.loop_, lane.class);
            let grant = self.record(skeleton, loop_, class, &units, now);
            self.pull_waiter(waiter);
            self.verdicts.push((ticket, Verdict::Granted(grant)));
        }
    }

    /// A waiting call's units by dimension, as its old route laid them out.
    fn relayout(&self, skeleton: u32, units: &Units) -> Vec<(Dimension, u64)> {
        let held = &self.skeletons[skeleton as usize].layout;
        (0..SLOT).filter_map(|slot| Some((held.dimension(slot)?.clone(), units[slot as usize]))).collect()
    }

    /// Units by dimension in the layout of a route. A dimension that the old route did not count is not
    /// known any more, and counts as one request or as nothing.
    fn layout(&self, skeleton: u32, units: &[(Dimension, u64)]) -> Units {
        let held = &self.skeletons[skeleton as usize].layout;
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
        for lane in self.lane_index.values().copied().collect::<BTreeSet<_>>() {
            let (route, class) = (self.lanes[lane as usize].route.clone(), self.lanes[lane as usize].class);
            let mut smaller = HashMap::new();
            for waiter in self.calls_of(lane) {
                let like = &self.run_of(waiter).like;
                let mut units = like.units;
                match self.fit_units(&mut units, &route, class, like.estimated) {
                    Some((limit, cost, capacity)) => {
                        let seq = self.waiters[waiter as usize].seq;
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
            let ticket = Ticket { index: waiter, generation: self.waiters[waiter as usize].generation };
            let refusal = Refusal {
                reason: Reason::TooLarge { cost, capacity },
                limit: Some(self.limit_name(limit)),
                wait: None,
                reset: self.reset_of(limit, now),
            };
            self.pull_waiter(waiter);
            self.verdicts.push((ticket, Verdict::Refused(refusal)));
        }
        for limit in 0..self.limits.len() as u32 {
            self.mark(limit);
        }
    }
}
