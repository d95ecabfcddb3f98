//! Letting calls go: the loop that runs after every change.
//!
//! A limit is looked at again when its units changed, when its queue changed, when a booking that passes
//! through it changed, or when its time has come. Looking at a limit means: take the first-ranked lane. If
//! it may go, it is a candidate. If another limit holds it, it moves there. If this one holds it, the limit
//! is armed for its time, and a call further back may go instead if it fits and moves no booking
//! (*backfill*). Of all candidates the best goes, first-ranked lanes before backfill; then again, until
//! nobody may go.
//!
//! Each look either yields a candidate or moves a lane to a limit that holds it in the present state, where
//! it stays until the state changes. Hence the loop ends: between two grants a lane moves at most once.

use std::cmp::Reverse;
use std::sync::Arc;

use super::judge::Role;
use super::lane::Lane;
use super::layout::Use;
use super::{Engine, Grant, MILLION, Ticket, Units, Verdict};
use crate::algorithm::Meter;
use crate::contention::LaneKey;
use crate::model::priority::Priority;
use crate::model::time::Nanos;
use crate::model::tree::NIL;
use crate::model::{LaneId, LimitId, LoopId, RouteId, WaiterId};

/// How far back a late timer is made good: a call booked for a time at most this long ago is paced from
/// that time.
const LATE: u64 = 20_000_000;

/// A call that may go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    lane: LaneId,
    waiter: WaiterId,
    in_turn: bool,
}

impl Engine {
    /// Lets everybody go who may.
    pub(super) fn pump(&mut self, now: Nanos) {
        self.apply_effects(now);
        while let Some((wake, limit)) = self.scheduler.timers.first() {
            if wake > now {
                break;
            }
            self.arm(limit, Nanos::NEVER);
            self.mark(limit);
        }
        let mut candidates = std::mem::take(&mut self.scheduler.candidates);
        loop {
            while let Some(limit) = self.next_marked() {
                candidates.retain(|(at, _)| *at != limit);
                if let Some(candidate) = self.look(limit, now) {
                    candidates.push((limit, candidate));
                }
            }
            let best = match candidates[..] {
                [] => break,
                [(_, only)] => only,
                _ => self.best(&candidates, now),
            };
            match candidates.len() == 1 && best.in_turn && self.has_way_to_itself(best.lane) {
                true => self.let_line_go(best.lane, now),
                false => self.let_go(best, now),
            }
            self.scheduler.dirty.extend(candidates.drain(..).map(|(limit, _)| Reverse(limit)));
        }
        self.scheduler.candidates = candidates;
        self.purge_retired();
    }

    /// The best by standing of those that need not let another go first.
    fn best(&self, candidates: &[(LimitId, Candidate)], now: Nanos) -> Candidate {
        let rank = |(at, candidate): &&(LimitId, Candidate)| {
            (!candidate.in_turn, self.standing(candidate.lane, now), *at)
        };
        let yields = |one: &(LimitId, Candidate)| candidates.iter().any(|other| self.yields(one, other, now));
        let best = candidates.iter().min_by_key(rank).expect("there are several");
        if !yields(best) {
            return best.1;
        }
        // Each of them may have to let the next one go first, in a circle.
        candidates.iter().filter(|one| !yields(one)).min_by_key(rank).unwrap_or(best).1
    }

    /// Whether one that is first at its limit lets another go first that is so elsewhere: by the order of the limits
    /// that decide their times, where both pass them. Where these contradict each other, neither yields.
    fn yields(&self, one: &(LimitId, Candidate), other: &(LimitId, Candidate), now: Nanos) -> bool {
        let ((own, one), (theirs, other)) = (one, other);
        if !one.in_turn || !other.in_turn || one.lane == other.lane {
            return false;
        }
        let passes = |lane: LaneId, limit: LimitId| self.head_cost(lane, limit) > 0;
        passes(one.lane, *theirs)
            && self.precedes(*theirs, other.lane, one.lane, now)
            && !(passes(other.lane, *own) && self.precedes(*own, one.lane, other.lane, now))
    }

    /// The first of the limits to look at; each is looked at once, however often it was marked.
    fn next_marked(&mut self) -> Option<LimitId> {
        let Reverse(limit) = self.scheduler.dirty.pop()?;
        while self.scheduler.dirty.peek() == Some(&Reverse(limit)) {
            self.scheduler.dirty.pop();
        }
        Some(limit)
    }

    /// Who may go at a limit, if anybody.
    fn look(&mut self, limit: LimitId, now: Nanos) -> Option<Candidate> {
        loop {
            let Some(lane) = self.first(limit, now) else {
                self.arm(limit, Nanos::NEVER);
                self.tidy(limit);
                return None;
            };
            self.note_first(limit, lane);
            let waiter = self.head(lane)?;
            let units = self.run_of(waiter).like.units;
            match self.obstacle(lane, &units, Role::Holder, now) {
                None => return Some(Candidate { lane, waiter, in_turn: true }),
                Some(held) if held.limit != limit => {
                    self.unbind(lane);
                    self.bind(lane, held.limit);
                }
                Some(held) => {
                    let aged = self.next_aging(limit, now).min(self.next_withheld(lane, now));
                    self.arm(limit, held.until.min(aged));
                    if held.by_rank {
                        self.arm_sooner(limit, self.next_level(lane, now));
                    }
                    if self.limits[limit].meter.is_in_flight() {
                        self.note_booking(limit, lane, Nanos::NEVER);
                        self.want_loan_and_wake(limit, units[self.scheduler.lanes[lane].slot as usize], now);
                        return None;
                    }
                    let booked = self.booking(lane, now);
                    self.note_booking(limit, lane, booked);
                    self.want_loan_and_wake(limit, units[self.scheduler.lanes[lane].slot as usize], now);
                    if self.waits_alone(limit, lane) {
                        return None;
                    }
                    return self.backfill(limit, lane, booked, now);
                }
            }
        }
    }

    /// Whether all that waits at a limit are calls like the first of them: what holds that one holds them all.
    fn waits_alone(&self, limit: LimitId, first: LaneId) -> bool {
        let Lane { head, len, .. } = self.scheduler.lanes[first];
        let bound = self.limits[limit].contention.as_ref().map_or(0, |held| held.bound);
        bound == 1 && self.run_of(head).len == len
    }

    /// A call behind the first that fits and moves no booking.
    fn backfill(&mut self, limit: LimitId, first: LaneId, booked: Nanos, now: Nanos) -> Option<Candidate> {
        let cost = self.head_cost(first, limit);
        let withheld = self.withheld(limit, first, now);
        let lent = self.lent_spare(limit, cost, now);
        let held = &mut self.limits[limit];
        let spare = match booked.is_never() {
            true => lent,
            false => held.meter.spare(now, cost, withheld, booked.max(now)).min(lent),
        };
        let room = held.room(0, now);
        let classes = held.contention.iter().flat_map(|held| held.classes.iter().flatten());
        if let Some(least) = classes.filter_map(|class| self.scheduler.order.summary(class.root)).min() {
            let grows = self.grows_beside(limit, first, least, now);
            self.arm_sooner(limit, grows);
        }
        for class in Priority::ALL.into_iter().rev() {
            let root = self.class(limit, class as u8).map_or(NIL, |class| class.root);
            let mut after: Option<LaneKey> = None;
            // As room grows others may fit before the first one's time.
            if spare > room && self.scheduler.order.find(root, None, &mut |least| *least <= spare).is_some() {
                let grows = self.limits[limit].earliest(room.saturating_add(1), 0, now);
                if grows > now {
                    self.arm_sooner(limit, grows);
                }
            }
            let bound = room.min(spare);
            loop {
                let root = self.class(limit, class as u8).map_or(NIL, |class| class.root);
                let Some(key) = self.scheduler.order.find(root, after, &mut |least| *least <= bound) else {
                    break;
                };
                after = Some(key);
                let lane = key.2;
                if let Some(waiter) = self.fitting(lane, now) {
                    return Some(Candidate { lane, waiter, in_turn: false });
                }
                let units = self.head_units(lane);
                let held = if lane == first { None } else { self.obstacle(lane, &units, Role::Other, now) };
                match held {
                    Some(held) if held.limit != limit => {
                        self.unbind(lane);
                        self.bind(lane, held.limit);
                    }
                    _ => self.watch(limit, lane, now),
                }
            }
        }
        None
    }

    /// The first call of a lane that may go now.
    fn fitting(&mut self, lane: LaneId, now: Nanos) -> Option<WaiterId> {
        let allowed = self.allowance(lane, now)?;
        let fits = |units: &Units| units.iter().zip(&allowed).all(|(units, allowed)| units <= allowed);
        let run =
            self.scheduler.run_order.find(self.scheduler.lanes[lane].runs, None, &mut |units| fits(units));
        run.map(|(_, run)| self.scheduler.runs[run].first)
    }

    /// Grants a call: takes it out of its lane, spends its units everywhere, charges its loop.
    fn let_go(&mut self, candidate: Candidate, now: Nanos) {
        let Candidate { lane, waiter, in_turn } = candidate;
        let Lane { ref route, bound, loop_, class, skeleton, .. } = self.scheduler.lanes[lane];
        let route: Arc<[Use]> = route.clone();
        let held = &self.scheduler.waiters[waiter];
        let (units, enqueued) = (self.run_of(waiter).like.units, held.enqueued);
        let ticket = Ticket { index: waiter, generation: held.generation };
        let held_by = self.scheduler.lanes[lane].stations.longest(enqueued, now);

        let paced = !bound.is_nil() && !self.limits[bound].meter.is_in_flight();
        let stamp = match paced && in_turn {
            true => self.booked_for(lane, enqueued, now),
            false => now,
        };
        self.keep_credit(lane, in_turn, &units, now);
        let mut grant = self.spend(skeleton, loop_, class, units, &route, stamp, now);
        self.in_flight[&grant].held_by = held_by;
        if self.is_of_no_concern(&grant) {
            grant = grant.quiet();
        }
        for &(limit, slot) in route.iter() {
            let units = i128::from(units[slot as usize]);
            self.charge_flow(limit, (loop_, skeleton, class as u8), units, in_turn && limit == bound, lane);
        }
        self.pull_waiter(waiter);
        self.mark_route(&route);
        self.scheduler.verdicts.push((ticket, Verdict::Granted(grant)));
    }

    /// The time that a call which goes in turn is paced from: when it was booked for, unless that is too long ago.
    pub(super) fn booked_for(&self, lane: LaneId, enqueued: Nanos, now: Nanos) -> Nanos {
        self.booking(lane, now).max(enqueued).max(Nanos(now.0.saturating_sub(LATE))).min(now)
    }

    /// Books what went past a higher priority, or took what is reserved for it, by age; and what others that
    /// went in turn earn those who wait.
    fn keep_credit(&mut self, lane: LaneId, in_turn: bool, units: &Units, now: Nanos) {
        let Lane { class, skeleton, bound, ref route, .. } = self.scheduler.lanes[lane];
        let route = route.clone();
        for &(limit, slot) in route.iter() {
            let cost = units[slot as usize];
            let reserved = self.takes_reserved(limit, class, cost, now);
            let Some(contention) = self.limits[limit].contention.as_mut() else { continue };
            let above = &contention.classes[class as usize + 1..];
            let passes = in_turn && limit == bound && above.iter().flatten().any(|class| class.active > 0);
            if passes || reserved {
                contention.credit -= i128::from(cost) * MILLION;
            } else if in_turn {
                self.earn_credit(limit, skeleton, cost);
            }
        }
    }

    /// What is granted at a limit earns those who wait there the right to pass by age.
    pub(super) fn earn_credit(&mut self, limit: LimitId, skeleton: RouteId, cost: u64) {
        let (cap, share) = self.credit_rule(limit, skeleton);
        let Some(contention) = self.limits[limit].contention.as_mut() else { return };
        if contention.passing != [0; 4] {
            let earned = contention.credit + i128::from(cost) * share;
            contention.credit = earned.min(i128::from(cap) * MILLION);
        }
    }

    fn note_first(&mut self, limit: LimitId, lane: LaneId) {
        let before = std::mem::replace(&mut self.contention(limit).first, lane);
        if before != lane && !before.is_nil() {
            // Its booking no longer counts: whoever it held back may go.
            self.mark_others(limit, before);
        }
    }

    fn note_booking(&mut self, limit: LimitId, lane: LaneId, booked: Nanos) {
        let before = std::mem::replace(&mut self.contention(limit).booked, booked);
        if before != booked {
            self.mark_others(limit, lane);
        }
    }

    /// Drops what is remembered about waiting at a limit when nothing does.
    pub(super) fn tidy(&mut self, limit: LimitId) {
        let held = self.limits[limit].contention.as_ref();
        if held.is_some_and(|held| held.is_over()) {
            self.arm(limit, Nanos::NEVER);
            self.limits[limit].contention = None;
            self.see_if_plain(limit);
        }
    }

    /// Finds out anew whether room is all that matters at a limit.
    pub(super) fn see_if_plain(&mut self, limit: LimitId) {
        let held = &mut self.limits.all[limit];
        let reserved = self.limits.specs[held.spec].withheld != [0; 4];
        let open = !reserved && held.contention.is_none();
        (held.plain, held.promised) = (open && held.lent.is_none(), open && held.lent.is_some());
    }

    /// Spends a call's units at every limit of its route.
    #[allow(clippy::too_many_arguments, reason = "the parts of a grant, each of its own type")]
    pub(super) fn spend(
        &mut self,
        skeleton: RouteId,
        loop_: LoopId,
        class: Priority,
        units: Units,
        route: &[Use],
        stamp: Nanos,
        now: Nanos,
    ) -> Grant {
        let penalty = self.routing.skeletons[skeleton].penalty;
        let first_after_window = self.is_first_after_window(route);
        for &(limit, slot) in route {
            let cost = units[slot as usize];
            let held = &mut self.limits[limit];
            // A call that costs nothing here does not meet the window of this limit.
            let dear = held.meter.dearer(cost, penalty);
            if cost > 0 || held.meter.counts() {
                held.meter.take(dear, stamp, now);
            }
            if held.lent.is_some() {
                self.spend_lent(limit, dear, now);
            }
        }
        if first_after_window {
            // Where it takes nothing it is in nobody's way.
            for &(limit, _) in route.iter().filter(|(_, slot)| units[*slot as usize] > 0) {
                self.limits[limit].meter.empty_pacer(now);
            }
        }
        self.record(skeleton, loop_, class, &units, now)
    }

    /// Whether nobody went this way since a window on it was shut. Whoever does empties the pacers it takes from.
    pub(super) fn is_first_after_window(&self, route: &[Use]) -> bool {
        let is_fresh =
            |(limit, _): &Use| matches!(&self.limits[*limit].meter, Meter::Hold(hold) if hold.is_fresh());
        !self.routing.overlays.is_empty() && route.iter().any(is_fresh)
    }
}
