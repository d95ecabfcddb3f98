//! The way of most calls: nobody waits at any limit of the route, and the call fits them all.
//!
//! It is kept short, since everybody goes it: what it needs of the call was worked out when the call was made, and
//! each limit is first asked in the shortest way that can say yes. All or nothing holds by putting back: the call
//! takes from one limit after the other, and where one does not open, from none.

use super::{Engine, Grant, SLOT, Units};
use crate::call::Call;
use crate::limit::{Limit, Spec};
use crate::priority::Priority;
use crate::refusal::Refusal;
use crate::time::Nanos;
use crate::tree::NIL;

/// A call on its way in: where it goes, for whom, and what it takes.
pub(super) struct Arrival {
    pub skeleton: u32,
    pub loop_: u32,
    pub class: Priority,
    pub units: Units,
}

impl Engine {
    /// The route of a call whose cost is one.
    #[inline(always)]
    pub(super) fn route_for(&mut self, call: &Call, now: Nanos) -> Result<u32, Refusal> {
        let skeleton = match self.known_route(call) {
            Some(skeleton) => skeleton,
            None => self.find_route(call, now)?,
        };
        if !call.cost.is_plain() {
            self.check_cost(&call.cost)?;
        }
        Ok(skeleton)
    }

    #[inline(always)]
    pub(super) fn arrive(&mut self, skeleton: u32, call: &Call, now: Nanos) -> Arrival {
        let loop_ = self.loop_for(call.loop_id.as_ref(), now);
        let held = &self.skeletons[skeleton as usize];
        let class = call.priority.unwrap_or(held.priority);
        Arrival { skeleton, loop_, class, units: held.layout.units_of(&call.cost) }
    }

    /// The way of most calls: nobody waits at any of its limits, and it fits them all. It takes from one
    /// after the other; where one does not open, what was taken is put back.
    #[inline(always)]
    pub(super) fn pass(&mut self, arrival: &Arrival, now: Nanos) -> Option<Grant> {
        let Arrival { skeleton, loop_, class, ref units } = *arrival;
        let Engine { skeletons, limits, specs, .. } = self;
        let held = &skeletons[skeleton as usize];
        // Throttled calls count several times, which is for the longer way to see to.
        if held.penalty > 0 {
            return None;
        }
        for (taken, &(limit, slot)) in held.uses.iter().enumerate() {
            if !take_if_open(&mut limits[limit as usize], specs, class, units[(slot & SLOT) as usize], now) {
                self.put_back(arrival, taken, now);
                return None;
            }
        }
        if loop_ != NIL && !self.pass_own(arrival, now) {
            return None;
        }
        if !self.lent_limits.is_empty() {
            self.ask_on_route(skeleton, loop_, now);
        }
        let held = &mut self.skeletons[skeleton as usize];
        held.in_flight += 1;
        self.services[held.service as usize].counts.granted += 1;
        self.pin_loop(loop_);
        Some(self.record(skeleton, loop_, class, units, now))
    }

    /// The limits of the loop itself, after those that all share.
    #[inline(never)]
    fn pass_own(&mut self, arrival: &Arrival, now: Nanos) -> bool {
        let Engine { skeletons, limits, specs, loops, .. } = self;
        let held = &skeletons[arrival.skeleton as usize];
        let mut at = loops[arrival.loop_ as usize].first;
        for (taken, &slot) in held.loop_slots.iter().enumerate() {
            let Some(limit) = limits.get_mut(at as usize) else { break };
            let cost = arrival.units[(slot & SLOT) as usize];
            if !take_if_open(limit, specs, arrival.class, cost, now) {
                let taken = held.uses.len() + taken;
                self.put_back(arrival, taken, now);
                return false;
            }
            at = limit.sibling;
        }
        true
    }

    /// Undoes the first `taken` limits of a route.
    #[cold]
    fn put_back(&mut self, arrival: &Arrival, taken: usize, now: Nanos) {
        if taken == 0 {
            return;
        }
        let route = self.route_of(arrival.skeleton, arrival.loop_);
        for &(limit, slot) in &route[..taken] {
            let (held, cost) = (&mut self.limits[limit as usize], arrival.units[slot as usize]);
            if cost > 0 || held.meter.is_in_flight() {
                held.meter.put_back(cost, now);
                held.lent.iter_mut().for_each(|lent| lent.put_back(cost, now));
            }
        }
    }

    /// Limits of a route that have little left of what was lent to them ask for more.
    fn ask_on_route(&mut self, skeleton: u32, loop_: u32, now: Nanos) {
        let is_low = |limit: &Limit| limit.lent.as_ref().is_some_and(|lent| lent.is_low());
        let held = &self.skeletons[skeleton as usize];
        let mut low = held.uses.iter().any(|(limit, _)| is_low(&self.limits[*limit as usize]));
        let mut own = self.loops.get(loop_ as usize).map_or(NIL, |record| record.first);
        while let Some(limit) = self.limits.get(own as usize) {
            low |= is_low(limit);
            own = limit.sibling;
        }
        if low {
            for (limit, _) in self.route_of(skeleton, loop_) {
                self.want_loan(limit, 0, now);
            }
        }
    }
}

/// Takes `cost` from a limit at which nobody waits, if it fits.
#[inline(always)]
fn take_if_open(limit: &mut Limit, specs: &[Spec], class: Priority, cost: u64, now: Nanos) -> bool {
    // A cost of nothing passes a limit on a rate whatever its state; a budget still has to be open.
    let quickly = limit.plain && cost > 0 && limit.meter.try_take_quickly(cost, now);
    quickly
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
        lent.put_back(cost, now);
    }
    taken
}

#[cold]
fn take_if_really_open(limit: &mut Limit, specs: &[Spec], class: Priority, cost: u64, now: Nanos) -> bool {
    if limit.contention.is_some() {
        return false;
    }
    let withheld = specs[limit.spec as usize].withheld[class as usize];
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
