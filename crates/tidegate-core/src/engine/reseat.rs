//! Planning anew: whoever waits keeps ticket, arrival and deadline when the limits change.

use std::collections::BTreeSet;

use super::lane::Waiter;
use super::{Engine, SLOT, Ticket, Verdict};
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
    loop_: u32,
    class: Priority,
    units: Vec<(Dimension, u64)>,
}

impl Engine {
    /// Takes every waiting call out of the queue, in order of arrival.
    pub(super) fn unseat_all(&mut self) -> Vec<Unseated> {
        let mut all = Vec::new();
        for lane in self.lane_index.values() {
            let held = &self.lanes[*lane as usize];
            self.calls.each(held.calls, &mut |(_, index)| {
                let waiter = self.waiters[index as usize].clone();
                let units = self.relayout(held.skeleton, &waiter);
                all.push(Unseated { index, waiter, loop_: held.loop_, class: held.class, units });
                true
            });
        }
        all.sort_by_key(|unseated| unseated.waiter.seq);
        for unseated in &all {
            self.pull_waiter(unseated.index);
        }
        self.dirty.clear();
        all
    }

    /// Puts waiting calls back under the config in force, each with its ticket, its arrival and its
    /// deadline. One that can no longer go is refused.
    pub(super) fn seat_again(&mut self, waiting: Vec<Unseated>, now: Nanos) {
        // Their places are free now; they get the same ones, so that tickets stay good.
        let places: BTreeSet<u32> = waiting.iter().map(|unseated| unseated.index).collect();
        self.free_waiters.retain(|index| !places.contains(index));
        for Unseated { index, mut waiter, loop_, class, units } in waiting {
            let ticket = Ticket { index, generation: waiter.generation };
            let routed = self.resolve_shape(&waiter.shape.clone(), now);
            let refused = match routed {
                Err(refusal) => Some(refusal),
                Ok(skeleton) => {
                    waiter.units = self.layout(skeleton, &units);
                    let route = self.route_of(skeleton, loop_);
                    let fits = self.fit_units(&mut waiter.units, &route, class, waiter.estimated);
                    let refused = fits.map(|(limit, cost, capacity)| Refusal {
                        reason: Reason::TooLarge { cost, capacity },
                        limit: Some(self.limit_name(limit)),
                        wait: None,
                        reset: self.reset_of(limit, now),
                    });
                    if refused.is_none() {
                        waiter.lane = self.lane_for(skeleton, loop_, class);
                        let lane = waiter.lane;
                        if !waiter.deadline.is_never() {
                            self.deadlines.insert((waiter.deadline, index));
                        }
                        self.waiters[index as usize] = waiter;
                        self.push_waiter(index);
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

    fn let_free_lanes_go(&mut self, now: Nanos) {
        // By arrival: the lanes of a hash map come in another order every run.
        let mut free = BTreeSet::new();
        for lane in self.lane_index.values() {
            if self.lanes[*lane as usize].bound == NIL {
                self.calls.each(self.lanes[*lane as usize].calls, &mut |call| {
                    free.insert(call);
                    true
                });
            }
        }
        for (_, waiter) in free {
            let held = &self.waiters[waiter as usize];
            let ticket = Ticket { index: waiter, generation: held.generation };
            let (units, lane) = (held.units, &self.lanes[held.lane as usize]);
            let (skeleton, loop_, class) = (lane.skeleton, lane.loop_, lane.class);
            let grant = self.grant(skeleton, loop_, class, &units, now);
            self.pull_waiter(waiter);
            self.services[self.skeletons[skeleton as usize].service as usize].counts.granted += 1;
            self.verdicts.push((ticket, Verdict::Granted(grant)));
        }
    }

    /// A waiting call's units by dimension, as its old route laid them out.
    fn relayout(&self, skeleton: u32, waiter: &Waiter) -> Vec<(Dimension, u64)> {
        let held = &self.skeletons[skeleton as usize].layout;
        (0..SLOT)
            .filter_map(|slot| Some((held.dimension(slot)?.clone(), waiter.units[slot as usize])))
            .collect()
    }

    /// Units by dimension in the layout of a route. A dimension that the old route did not count is not
    /// known any more, and counts as one request or as nothing.
    fn layout(&self, skeleton: u32, units: &[(Dimension, u64)]) -> super::Units {
        let held = &self.skeletons[skeleton as usize].layout;
        let mut laid = super::Units::default();
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
        let mut impossible = Vec::new();
        for lane in self.lane_index.values().copied().collect::<BTreeSet<_>>() {
            let (route, class) = (self.lanes[lane as usize].route.clone(), self.lanes[lane as usize].class);
            let mut calls = Vec::new();
            self.calls.each(self.lanes[lane as usize].calls, &mut |(seq, waiter)| {
                calls.push((seq, waiter));
                true
            });
            for (seq, waiter) in calls {
                let held = &self.waiters[waiter as usize];
                let mut units = held.units;
                match self.fit_units(&mut units, &route, class, held.estimated) {
                    Some((limit, cost, capacity)) => impossible.push((seq, waiter, limit, cost, capacity)),
                    None if units != held.units => self.resize(waiter, units),
                    None => {}
                }
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
        self.pump(now);
    }

    /// Gives a waiting call other units.
    fn resize(&mut self, waiter: u32, units: super::Units) {
        let held = self.waiters[waiter as usize].clone();
        // An empty lane goes, and with it what it was bound to.
        let lane = self.lanes[held.lane as usize].clone();
        self.pull_waiter(waiter);
        self.free_waiters.retain(|index| *index != waiter);
        let held = Waiter { units, lane: self.lane_for(lane.skeleton, lane.loop_, lane.class), ..held };
        let target = held.lane;
        if !held.deadline.is_never() {
            self.deadlines.insert((held.deadline, waiter));
        }
        self.waiters[waiter as usize] = held;
        self.push_waiter(waiter);
        if self.lanes[target as usize].bound == NIL {
            self.bind(target, lane.bound);
        }
    }
}
