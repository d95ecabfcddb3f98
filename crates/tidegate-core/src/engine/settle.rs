//! The end of a call: slots come back, and the reservation becomes what it really cost.

use std::time::Duration;

use super::ended::{Ended, Fate};
use super::route::Skeleton;
use super::{Departure, Engine, Grant, InFlightCall, MAX_UNIT_KINDS, SLOT, Units};
use crate::model::call::Cost;
use crate::model::dimension::Dimension;
use crate::model::time::Nanos;
use crate::model::{Id, LimitId};

impl Engine {
    /// The call ended. `actual` is what it really cost, in the dimensions it states; the rest cost what
    /// was reserved. What was reserved above that returns to where it came from, unless the service keeps
    /// it; what is above the reservation is debt. Slots come back.
    pub fn finish(&mut self, grant: Grant, actual: Option<&Cost>, now: Nanos) {
        let now = self.clock(now);
        self.lose_probe(&grant, now);
        let waited_for = self.scheduler.waiting > 0;
        if self.finish_call(grant, actual, waited_for, now) {
            self.advance(now);
            self.pump(now);
        }
    }

    /// Ends a call. Returns whether calls that wait have to be looked at.
    fn finish_call(&mut self, grant: Grant, actual: Option<&Cost>, waited_for: bool, now: Nanos) -> bool {
        self.in_flight.forget(&grant);
        let uncounted = self.in_flight.take_uncounted(&grant);
        if self.funding.book.is_some() {
            self.note_duration(&grant, now);
        }
        let noticed =
            actual.is_some() || !self.ends_unnoticed(&grant, waited_for) || !self.free_slots(&grant);
        noticed && self.settle(grant, &uncounted, actual, waited_for, now)
    }

    /// Ends a call and applies what its outcome says: learning, backoff windows, the breaker, the cost. A refused call
    /// opens a backoff window. It gets back what it reserved but for its request, or nothing if the upstream counts
    /// refused calls.
    pub fn end_call(&mut self, grant: Grant, ended: &Ended, now: Nanos) {
        let now = self.clock(now);
        let call = self.in_flight[&grant].clone();
        let counted = self.is_counted(&call, &ended.fate);
        let explained = self.hear_told(grant.index(), &call, &ended.told, counted, now);
        // Before anything comes back: it must not go to somebody who has to stay away now.
        match &ended.fate {
            Fate::TurnedAway { wait, by, in_flight } => {
                self.grow_wary(&call, now);
                if !explained && by.is_empty() && !in_flight {
                    self.turned_away_unexplained(&call, now);
                }
                if *in_flight {
                    self.coped(&call, true, now);
                }
                let wait = if *in_flight { wait.or(Some(Duration::ZERO)) } else { *wait };
                self.turned_away(&call, by, ended.model.as_deref(), wait, now);
            }
            Fate::Failed { wait } => {
                self.ended_well(&call, false, now);
                self.coped(&call, true, now);
                if let Some(wait) = wait {
                    self.leave_alone(&call, *wait, now);
                }
            }
            Fate::Answered => {
                self.end_rows(&call);
                self.went_through(&call, now);
                self.took(&call, now);
                self.ended_well(&call, true, now);
                self.coped(&call, false, now);
            }
            Fate::Unknown | Fate::Unreached | Fate::Unprocessed | Fate::OutOfQuota => {}
        }
        self.plan_what_was_learned(now);
        self.report(&grant, &call, &ended.fate, now);
        match ended.fate {
            Fate::Unreached => self.cancel(grant, now),
            _ if counted => self.finish(grant, ended.cost.as_ref(), now),
            _ => {
                self.lose_probe(&grant, now);
                let waited_for = self.scheduler.waiting > 0;
                if self.give_back_refused(grant, waited_for, now) {
                    self.advance(now);
                    self.pump(now);
                }
            }
        }
        self.plan_what_was_learned(now);
        if self.scheduler.waiting > 0 {
            self.advance(now);
            self.pump(now);
        }
    }

    /// The head of a reply tells of limits though the call goes on. What it tells is heard once.
    pub fn hear(&mut self, grant: &Grant, ended: &Ended, now: Nanos) {
        let now = self.clock(now);
        let call = self.in_flight[grant].clone();
        let counted = self.is_counted(&call, &ended.fate);
        self.hear_told(grant.index(), &call, &ended.told, counted, now);
        self.plan_what_was_learned(now);
        if self.scheduler.waiting > 0 {
            self.advance(now);
            self.pump(now);
        }
    }

    /// A call has left only now: its connection had to be opened, or many went at once. The upstream counts it from when
    /// it arrives, which is not before, so that is when it begins to count in a window; a pacer has let it go already.
    /// Who is not told counts from when calls were let go. A call that has ended since has left long ago.
    pub fn left(&mut self, departure: Departure, now: Nanos) {
        let now = self.clock(now);
        let Some(call) = self.in_flight.leaves_late(departure, now) else { return };
        for (limit, slot) in self.route_of(call.skeleton, call.loop_) {
            let held = &mut self.limits[limit];
            if held.since <= call.epoch && held.meter.count_from(call.units[slot as usize], call.counted, now)
            {
                self.effects.touch(limit, &self.limits);
            }
        }
        if self.scheduler.waiting > 0 {
            self.advance(now);
            self.pump(now);
        }
    }

    /// A call that goes on has cost this much so far, in the dimensions that it states. What is above the reservation is
    /// debt from now on, and not only when the call ends: the reservation grows to it, and the end settles the rest. What
    /// is below changes nothing, since more may come. Bytes are known before a call goes, and stay as they are.
    pub fn spent(&mut self, grant: &Grant, so_far: &Cost, now: Nanos) {
        let now = self.clock(now);
        let call = self.in_flight[grant].clone();
        let (mut more, mut uncounted) = ([0; MAX_UNIT_KINDS], [0; MAX_UNIT_KINDS]);
        for (limit, slot) in self.route_of(call.skeleton, call.loop_) {
            let held = &self.limits[limit];
            let layout = &self.routing.skeletons[call.skeleton].layout;
            let dimension = layout.dimension(slot).filter(|dimension| **dimension != Dimension::Bytes);
            let Some(dimension) = dimension.filter(|dimension| so_far.states(dimension)) else { continue };
            let (cost, reserved) = (so_far.units(dimension), call.units[slot as usize]);
            if cost <= reserved {
                continue;
            }
            if held.since > call.epoch || !held.meter.counts() || held.meter.is_in_flight() {
                continue;
            }
            let charged = self.charge_debt(limit, cost - reserved, now);
            let slot = slot as usize;
            more[slot] = cost - reserved;
            uncounted[slot] = uncounted[slot].max(cost - reserved - charged);
            let served = call.served(limit, charged.into());
            self.effects.serve(served, &self.limits);
            self.effects.touch(limit, &self.limits);
        }
        self.in_flight.grow(grant, &more, &uncounted);
        if self.scheduler.waiting > 0 {
            self.advance(now);
            self.pump(now);
        }
    }

    /// Whether the upstream counts a call that ended so.
    fn is_counted(&self, call: &InFlightCall, fate: &Fate) -> bool {
        let service = self.routing.skeletons[call.skeleton].service;
        match fate {
            Fate::TurnedAway { .. } | Fate::OutOfQuota => self.routing.services[service].failures_count,
            Fate::Unreached | Fate::Unprocessed => false,
            Fate::Answered | Fate::Failed { .. } | Fate::Unknown => true,
        }
    }

    /// How many times the bytes of a call in flight count, if it went throttled.
    #[must_use]
    pub fn byte_penalty(&self, grant: &Grant) -> Option<u16> {
        let penalty = self.in_flight[grant].penalty;
        (penalty > 0).then_some(penalty)
    }

    #[inline(never)]
    fn settle(
        &mut self,
        grant: Grant,
        uncounted: &Units,
        actual: Option<&Cost>,
        waited_for: bool,
        now: Nanos,
    ) -> bool {
        let grant = self.in_flight[&grant].clone();
        let keep = self.routing.skeletons[grant.skeleton].keep;
        self.end(&grant, waited_for, |engine, limit, slot, reserved| {
            let dimension = engine.routing.skeletons[grant.skeleton].layout.dimension(slot);
            let stated = dimension.zip(actual).filter(|(dimension, actual)| actual.states(dimension));
            let Some(cost) = stated.map(|(dimension, actual)| actual.units(dimension)) else { return false };
            // No refund gives back what some limit never counted.
            let refundable = reserved.saturating_sub(uncounted[slot as usize]);
            let change = if cost > reserved {
                i128::from(engine.charge_debt(limit, cost - reserved, now))
            } else if cost < refundable && !keep {
                engine.limits[limit].meter.refund(refundable - cost, grant.counted, now);
                engine.keep_what_comes_back(limit, refundable);
                i128::from(cost) - i128::from(refundable)
            } else {
                return false;
            };
            engine.effects.serve(grant.served(limit, change), &engine.limits);
            true
        })
    }

    /// Whether the end of a call is nobody's concern, if it cost what it reserved: nobody waits, or it frees no slot.
    #[inline]
    fn ends_unnoticed(&self, grant: &Grant, waited_for: bool) -> bool {
        !waited_for || self.frees_nothing(grant)
    }

    /// Whether a call holds nothing that another could have.
    #[inline]
    fn frees_nothing(&self, grant: &Grant) -> bool {
        let InFlightCall { skeleton, loop_, penalty, .. } = self.in_flight[grant];
        let own = self.routing.loops.all.get(loop_).map_or(LimitId::NIL, |record| record.first);
        let Skeleton { ref slots, breaker, .. } = self.routing.skeletons[skeleton];
        slots.is_empty() && own.is_nil() && penalty == 0 && breaker.is_nil()
    }

    /// Whether something is to be remembered of a call when it ends.
    #[inline(always)]
    fn is_noted(&self, grant: &Grant) -> bool {
        self.in_flight[grant].noted || self.funding.book.is_some()
    }

    /// Whether the end of a call will be of no concern to anybody, whoever waits by then.
    pub(super) fn is_of_no_concern(&self, grant: &Grant) -> bool {
        !self.is_noted(grant) && self.frees_nothing(grant)
    }

    /// The end of most calls: it cost what it reserved, nothing is to be remembered of it, and nobody is concerned.
    ///
    /// # Errors
    /// The grant, if there is more to do: see [`Engine::finish`].
    #[inline(always)]
    pub fn finish_unnoticed(&mut self, grant: Grant) -> Result<(), Grant> {
        let waited_for = self.scheduler.waiting > 0;
        if self.is_noted(&grant) || !self.ends_unnoticed(&grant, waited_for) || !self.free_slots(&grant) {
            return Err(grant);
        }
        self.in_flight.forget(&grant);
        Ok(())
    }

    /// A call ended of which nobody says what became: its probe is free again.
    #[inline(always)]
    fn lose_probe(&mut self, grant: &Grant, now: Nanos) {
        if self.report_lost(grant, now) {
            self.advance(now);
        }
    }

    /// Forgets what was noted of a call when it went. Returns whether its breaker has a probe back.
    #[inline(always)]
    fn report_lost(&mut self, grant: &Grant, now: Nanos) -> bool {
        self.unmark(grant.index());
        let was_probe = self.upstream.passes.get(grant.index().index()).is_some_and(Option::is_some);
        if was_probe {
            self.report_lost_probe(grant, now);
        }
        was_probe
    }

    #[cold]
    fn report_lost_probe(&mut self, grant: &Grant, now: Nanos) {
        let call = self.in_flight[grant].clone();
        self.report(grant, &call, &Fate::Unknown, now);
    }

    /// The end of most calls: nothing to settle and nobody concerned. Only slots come back, and only if no
    /// config came between; else says that there is more to do.
    #[inline]
    fn free_slots(&mut self, grant: &Grant) -> bool {
        let (limits, epoch) = (&mut self.limits.all, self.limits.epoch);
        let (skeletons, loops) = (&mut self.routing.skeletons, &mut self.routing.loops.all);
        let grant = &self.in_flight[grant];
        let held = &mut skeletons[grant.skeleton];
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
    fn end_throttled(&mut self, grant: &InFlightCall) -> bool {
        if grant.penalty == 0 {
            return false;
        }
        let throttles = self.routing.skeletons[grant.skeleton].throttles.clone();
        for &(limit, slot) in &throttles {
            if self.limits[limit].since <= grant.epoch {
                self.limits[limit].release(grant.units[slot as usize]);
                self.effects.touch(limit, &self.limits);
            }
        }
        !throttles.is_empty()
    }

    /// The call is known never to have left: everything comes back.
    pub fn cancel(&mut self, grant: Grant, now: Nanos) {
        let now = self.clock(now);
        self.lose_probe(&grant, now);
        let waited_for = self.scheduler.waiting > 0;
        if self.give_back(grant, |_| true, waited_for, now) {
            self.advance(now);
            self.pump(now);
        }
    }

    /// The upstream refused the call and does not count it: tokens and bytes come back. The request was sent, so it
    /// stays spent: attempts stay within the limit whatever the upstream says of them. Only a later reply that states
    /// more `remaining` gives it back.
    fn give_back_refused(&mut self, grant: Grant, waited_for: bool, now: Nanos) -> bool {
        let call = self.in_flight[&grant].clone();
        for (limit, slot) in self.route_of(call.skeleton, call.loop_) {
            let is_request =
                self.routing.skeletons[call.skeleton].layout.dimension(slot) == Some(&Dimension::Requests);
            if is_request
                && self.limits[limit].since <= call.epoch
                && let Some(mirror) = self.upstream.school.mirrors.get_mut(&limit)
            {
                mirror.keep(call.units[slot as usize], call.counted);
            }
        }
        self.give_back(grant, |dimension| dimension != Some(&Dimension::Requests), waited_for, now)
    }

    /// Ends a call. What it reserved of the dimensions that `returns` names comes back.
    fn give_back(
        &mut self,
        grant: Grant,
        returns: impl Fn(Option<&Dimension>) -> bool,
        waited_for: bool,
        now: Nanos,
    ) -> bool {
        self.in_flight.forget(&grant);
        let uncounted = self.in_flight.take_uncounted(&grant);
        let grant = self.in_flight[&grant].clone();
        self.end(&grant, waited_for, |engine, limit, slot, reserved| {
            if !returns(engine.routing.skeletons[grant.skeleton].layout.dimension(slot)) {
                return false;
            }
            let reserved = reserved.saturating_sub(uncounted[slot as usize]);
            let held = &mut engine.limits[limit];
            held.meter.refund(reserved, grant.counted, now);
            if let Some(lent) = &mut held.lent {
                lent.give_back(reserved, grant.at, now);
            }
            engine.effects.serve(grant.served(limit, -i128::from(reserved)), &engine.limits);
            true
        })
    }

    /// Ends a call at every limit it took from: slots are freed, `settle` sees to the rates and says whether
    /// it changed anything. A call that cost what it reserved and held no slot leaves everything as it is:
    /// then nobody need be looked at, however many wait.
    fn end(
        &mut self,
        grant: &InFlightCall,
        waited_for: bool,
        mut settle: impl FnMut(&mut Engine, LimitId, u8, u64) -> bool,
    ) -> bool {
        let mut changed = false;
        let skeleton = grant.skeleton;
        let shared = self.routing.skeletons[skeleton].uses.len();
        let mut own = self.routing.loops.all.get(grant.loop_).map_or(LimitId::NIL, |record| record.first);
        let mut index = 0;
        loop {
            let (limit, slot) = if index < shared {
                self.routing.skeletons[skeleton].uses[index]
            } else if !own.is_nil() {
                let next = (own, self.routing.skeletons[skeleton].loop_slots[index - shared]);
                own = self.limits[own].sibling;
                next
            } else {
                break;
            };
            index += 1;
            // A limit made after the grant was given has nothing of it, nor has one that holds others only.
            let held = &self.limits[limit];
            let throttles = self.routing.skeletons[skeleton].throttled
                && self.routing.skeletons[skeleton].throttles.iter().any(|(throttle, _)| *throttle == limit);
            if held.since > grant.epoch || !held.meter.counts() || throttles {
                continue;
            }
            let reserved = grant.units[slot as usize];
            let changed_here = if held.meter.is_in_flight() {
                let held = held.meter.dearer(reserved, grant.penalty);
                self.limits[limit].release(held);
                true
            } else {
                settle(self, limit, slot, reserved)
            };
            if waited_for && changed_here {
                self.effects.touch(limit, &self.limits);
                changed = true;
            }
        }
        changed |= self.end_throttled(grant) && waited_for;
        self.routing.skeletons[skeleton].in_flight -= 1;
        self.unpin_loop(grant.loop_);
        changed
    }
}
