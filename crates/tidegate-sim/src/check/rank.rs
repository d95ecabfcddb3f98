//! Who goes before whom: ranks, bookings, age and shares, at every grant.

use tidegate_core::{Engine, Nanos, Priority, Ticket};

use super::aging::Passes;
use super::roll::Waiting;
use super::{Broken, Happening, Judge};
use crate::report::Invariant;
use crate::routes::{Kind, Routes};

impl Judge {
    /// Base priority plus one for every `aging` waited.
    pub(super) fn level(&self, call: u32, routes: &Routes, now: Nanos) -> u64 {
        let record = &self.calls[call as usize];
        let kind = routes.kind(record.kind);
        kind.class as u64 + now.since(record.arrived).as_nanos() as u64 / kind.aging
    }

    /// Nobody went past one of the same route that ranks before it and costs no more. Each is struck off the
    /// roll in its turn; when the newcomer went among them is not known, so it comes last.
    pub(super) fn check_ranks(
        &mut self,
        routes: &Routes,
        event: &Happening,
        now: Nanos,
    ) -> Result<(), Broken> {
        let (own, others): (Vec<u32>, Vec<u32>) =
            event.granted.iter().partition(|call| Some(**call) == event.newcomer);
        for call in others.into_iter().chain(own) {
            self.leaves(call, routes);
            let record = &self.calls[call as usize];
            let kind = routes.kind(record.kind);
            if kind.observed {
                continue;
            }
            if let Some(older) = self.roll.oldest_in_lane(kind)
                && older.no < record.no
                // Those whose time had come went before it came back.
                && Some(older.call) != event.newcomer
                && !self.is_out_of_time(older.call, now)
                && self.costs_no_more(older.call, call)
                && !self.is_held_besides(older.call, call, routes, now)
            {
                let record = &self.calls[call as usize];
                let (its, others) = (&record.costs, &self.calls[older.call as usize].costs);
                let message = format!(
                    "call {}, which takes {its:?}, went past {}, which takes {others:?} and came before it",
                    record.no, older.no
                );
                return Err((Invariant::Rank, message));
            }
            let (mut by_age, mut in_front) = (false, false);
            for class in Priority::ALL.into_iter().filter(|class| *class > kind.class) {
                let Some(higher) = self.roll.oldest_in_class(kind.group, class) else { continue };
                in_front = true;
                if Some(higher.call) == event.newcomer
                    || self.is_out_of_time(higher.call, now)
                    || !self.costs_no_more(higher.call, call)
                {
                    continue;
                }
                // A newcomer may go at once if it moves no booking, and only the first in line has one.
                if Some(call) == event.newcomer && !self.was_first(higher.call, kind) {
                    continue;
                }
                // A class is as old as its first in turn, which may be a fresh one.
                if self.is_held_besides(higher.call, call, routes, now) {
                    continue;
                }
                if self.level(call, routes, now) <= class as u64 {
                    let record = &self.calls[call as usize];
                    let message = format!("call {} went past {} of a higher priority", record.no, higher.no);
                    return Err((Invariant::Rank, message));
                }
                by_age = true;
            }
            let passes = match (by_age, in_front) {
                (true, _) => Passes::ByAge,
                (false, true) => Passes::Somehow,
                (false, false) => Passes::Nobody,
            };
            self.check_age(routes, event, call, passes, now)?;
        }
        Ok(())
    }

    /// Whether a call's timeout is over: it goes nowhere any more.
    fn is_out_of_time(&self, call: u32, now: Nanos) -> bool {
        self.calls[call as usize].deadline <= now
    }

    /// Whether a call has windows or a breaker on its way that another does not meet.
    fn is_held_besides(&mut self, waiting: u32, other: u32, routes: &Routes, now: Nanos) -> bool {
        if self.windows.is_empty() && !self.breakers.hold_anybody() {
            return false;
        }
        let (waits, went) = (&self.calls[waiting as usize], &self.calls[other as usize]);
        let (kind, others) = (routes.kind(waits.kind), routes.kind(went.kind));
        let held = self.windows.hold(waits.kind, kind, &waits.costs, routes, now);
        let also = self.windows.hold(went.kind, others, &went.costs, routes, now);
        let throttled = self.windows.tails(waits.kind, kind, routes, now);
        let also_throttled = self.windows.tails(went.kind, others, routes, now);
        if held.iter().any(|window| !also.contains(window))
            || throttled.iter().any(|window| !also_throttled.contains(window))
        {
            return true;
        }
        let breaker = |kind: &Kind| kind.after.breaker.as_ref().map(|(name, _)| name.clone());
        self.breakers.holds(kind) && breaker(kind) != breaker(others)
    }

    /// Whether a call was the first in line before this event.
    pub(super) fn was_first(&self, call: u32, kind: &Kind) -> bool {
        let ticket = self.calls[call as usize].ticket;
        kind.limits.iter().any(|used| {
            let first = self.desks[used.limit as usize].first.map(|(ticket, _)| ticket);
            first.is_some() && first == ticket
        })
    }

    /// Where one limit is all there is: age gets its share, and loops get theirs.
    pub(super) fn check_age(
        &mut self,
        routes: &Routes,
        event: &Happening,
        call: u32,
        passes: Passes,
        now: Nanos,
    ) -> Result<(), Broken> {
        let record = &self.calls[call as usize];
        let (no, cost, kind) =
            (record.no, record.costs.first().copied().unwrap_or(0), routes.kind(record.kind));
        let Some(desk) = self.desk_of(kind) else { return Ok(()) };
        let level = self.level(call, routes, now);
        // A lower priority whose turn it should have been, whichever of its loops is first.
        // What is kept for the higher one is not its turn, as long as that one need not wait for it.
        let kept = |class: Priority| kind.limits.iter().any(|used| used.withheld[class as usize] > 0);
        let lower = Priority::ALL.into_iter().filter(|class| *class < kind.class && !kept(*class));
        let denied = lower.into_iter().any(|class| {
            self.roll.youngest_first(kind.group, class).is_some_and(|old| {
                let costs = self.calls[old.call as usize].costs.first().copied().unwrap_or(0);
                costs <= cost && self.level(old.call, routes, now) > level
            })
        });
        let aging = &mut self.desks[desk].aging;
        aging.went(cost, passes, denied, kind.aging_share).map_err(|wrong| {
            let name = routes.name(desk as u32);
            (Invariant::NoStarvation, format!("`{name}`, call {no}: {wrong}"))
        })?;
        if event.newcomer != Some(call) {
            let went = self.desks[desk].shares.went(kind.class, kind.loop_, cost);
            went.map_err(|wrong| {
                let name = routes.name(desk as u32);
                (Invariant::NoStarvation, format!("`{name}`, call {no}: {wrong}"))
            })?;
        }
        Ok(())
    }

    /// Whether call `a` takes no more than `b` at any limit of their common route.
    pub(super) fn costs_no_more(&self, a: u32, b: u32) -> bool {
        let (a, b) = (&self.calls[a as usize].costs, &self.calls[b as usize].costs);
        a.iter().zip(b).all(|(a, b)| a <= b)
    }

    /// No lower rank moves the booking of the first in line. Told where the first one's only limit is the one
    /// it is first at.
    pub(super) fn check_bookings(
        &mut self,
        engine: &mut Engine,
        routes: &Routes,
        touched: &[u32],
        event: &Happening,
        now: Nanos,
    ) -> Result<(), Broken> {
        for &kind in touched {
            let kind = routes.kind(kind);
            self.line.clear();
            engine.first_in_line(&kind.call, now, &mut self.line);
            for (place, used) in kind.limits.iter().enumerate() {
                let first = self.line.iter().find(|first| first.place == place);
                let first = first.map(|first| (first.ticket, first.booked));
                let before = std::mem::replace(&mut self.desks[used.limit as usize].first, first);
                let (Some((ticket, was)), Some((still, booked))) = (before, first) else { continue };
                let moved = ticket == still && booked > was.max(now) && !event.unsettled;
                if moved && self.only_lower_ranks_went(routes, event, ticket, now) {
                    let no = self.tickets.get(&ticket).map_or(0, |call| self.calls[*call as usize].no);
                    let message = format!(
                        "call {no}, the first in line at `{}`, was booked for {was:?} and now is for {booked:?}",
                        routes.name(used.limit)
                    );
                    return Err((Invariant::Rank, message));
                }
            }
        }
        Ok(())
    }

    pub(super) fn only_lower_ranks_went(
        &self,
        routes: &Routes,
        event: &Happening,
        first: Ticket,
        now: Nanos,
    ) -> bool {
        let Some(&waiting) = self.tickets.get(&first) else { return false };
        let first = &self.calls[waiting as usize];
        let kind = routes.kind(first.kind);
        // While one of a lower priority is old enough to pass it, it need not have been first all along.
        let level = self.level(waiting, routes, now);
        let passed = |old: Waiting| self.level(old.call, routes, now) > level;
        // And what is kept from it depends on who else waits.
        let kept = kind.limits.iter().any(|used| used.withheld[kind.class as usize] > 0);
        // Nor is a probe of a breaker kept for anybody.
        let kept = kept || self.breakers.holds(kind);
        if kept || kind.limits.len() != 1 || self.roll.any_oldest_below(kind.class, passed) {
            return false;
        }
        !event.granted.is_empty()
            && event.granted.iter().all(|call| {
                let record = &self.calls[*call as usize];
                let lower =
                    routes.kind(record.kind).class < kind.class && self.level(*call, routes, now) <= level;
                let behind = record.kind == first.kind && record.no > first.no;
                lower || behind
            })
    }
}
