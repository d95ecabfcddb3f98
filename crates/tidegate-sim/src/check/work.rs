//! Nobody waits who could go, and nobody waits for longer than it is ready to.

use tidegate_core::{Engine, Nanos};

use super::roll::Waiting;
use super::{Broken, Judge, LOOKS};
use crate::report::Invariant;
use crate::routes::Routes;

impl Judge {
    pub(super) fn check_deadlines(&self, now: Nanos) -> Result<(), Broken> {
        match self.deadlines.first() {
            Some((deadline, call)) if deadline.0.saturating_add(self.late) < now.0 => {
                let no = self.calls[*call as usize].no;
                Err((Invariant::NoStarvation, format!("call {no} waits beyond its timeout at {deadline:?}")))
            }
            _ => Ok(()),
        }
    }

    /// A call waits because a limit, a window or a breaker has no room for it, or because one that has none shares a
    /// limit on a rate or the pace after a window with it and would have to wait longer.
    pub(super) fn check_work(
        &mut self,
        engine: &mut Engine,
        routes: &Routes,
        touched: &[u32],
        now: Nanos,
    ) -> Result<(), Broken> {
        let mut looks: Vec<Waiting> =
            touched.iter().filter_map(|kind| self.roll.oldest_in_lane(routes.kind(*kind))).collect();
        looks.extend((0..LOOKS).filter_map(|_| self.roll.next_lane()));
        for waiting in looks {
            let Some(ticket) = self.calls[waiting.call as usize].ticket else { continue };
            if !engine.has_room(ticket, now) {
                self.check_window(engine, waiting, now)?;
                continue;
            }
            let others = self.roll.firsts_of_lanes();
            let excused = others.into_iter().any(|other| {
                let shares = other.call != waiting.call
                    && (self.share_a_rate(waiting.call, other.call, routes)
                        || self.share_a_pace(waiting.call, other.call, routes, now)
                        || self.share_a_reserve(waiting.call, other.call, routes));
                let ticket = self.calls[other.call as usize].ticket;
                shares && ticket.is_some_and(|ticket| !engine.has_room(ticket, now))
            });
            if !excused {
                let message = format!("call {} fits and waits behind nobody", waiting.no);
                return Err((Invariant::WorkConserving, message));
            }
        }
        Ok(())
    }

    /// A call that waits for a window waits for one that is shut.
    fn check_window(&self, engine: &mut Engine, waiting: Waiting, now: Nanos) -> Result<(), Broken> {
        let ticket = self.calls[waiting.call as usize].ticket;
        let Some(ticket) = ticket.filter(|_| !self.windows.is_empty()) else { return Ok(()) };
        let Some(place) = engine.place(ticket, now) else { return Ok(()) };
        match place.limit.strip_suffix("/backoff") {
            Some(key) if !self.windows.may_hold(key, now) => {
                let message = format!("call {} waits for the window of `{key}`, which is over", waiting.no);
                Err((Invariant::WorkConserving, message))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn share_a_rate(&self, a: u32, b: u32, routes: &Routes) -> bool {
        let (a, b) = (&self.calls[a as usize], &self.calls[b as usize]);
        let (kind, other) = (routes.kind(a.kind), routes.kind(b.kind));
        kind.limits.iter().zip(&a.costs).any(|(used, cost)| {
            let here = other.limits.iter().zip(&b.costs).find(|(known, _)| known.limit == used.limit);
            !used.in_flight && *cost > 0 && here.is_some_and(|(_, cost)| *cost > 0)
        })
    }

    /// Whether a call would take what is reserved for others where another passes too. Only age lets it, and what pays
    /// for that may be kept for one that was there before.
    fn share_a_reserve(&self, a: u32, b: u32, routes: &Routes) -> bool {
        let (a, b) = (&self.calls[a as usize], &self.calls[b as usize]);
        let (kind, other) = (routes.kind(a.kind), routes.kind(b.kind));
        kind.limits.iter().zip(&a.costs).any(|(used, cost)| {
            let book = &self.desks[used.limit as usize].book;
            let withheld = used.withheld[kind.class as usize];
            withheld > 0
                && book.lacks_slots(*cost, withheld)
                && other.limits.iter().any(|known| known.limit == used.limit)
        })
    }

    /// Whether two calls go at the pace of the same window.
    fn share_a_pace(&mut self, a: u32, b: u32, routes: &Routes, now: Nanos) -> bool {
        let mut held = |call: u32| {
            let record = &self.calls[call as usize];
            self.windows.hold(record.kind, routes.kind(record.kind), &record.costs, routes, now)
        };
        let (one, other) = (held(a), held(b));
        one.iter().any(|window| other.contains(window))
    }
}
