//! What is known of each limit: its book, and the shares that age and loops had of it.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use tidegate_core::engine::Stand;
use tidegate_core::{Engine, Nanos, Ticket};

use super::aging::Aging;
use super::book::{Book, Mark};
use super::fair::Shares;
use super::happening::{Broken, Moment};
use crate::report::Invariant;
use crate::routes::{Kind, Routes};

/// What is known of one limit.
#[derive(Debug)]
pub(super) struct Desk {
    pub book: Book,
    pub aging: Aging,
    pub shares: Shares,
    /// The only kind of route that passes here, if it is the only one and passes nothing else.
    alone: Option<u32>,
    shared: bool,
    /// The first in line when last looked at, and when its turn was.
    pub first: Option<(Ticket, Nanos)>,
    /// Where the book has what others took, by when it was charged.
    pub others: BTreeMap<Nanos, Mark>,
}

/// The desks of all limits, by the numbers of the limits.
#[derive(Debug, Default)]
pub(super) struct Desks {
    desks: Vec<Desk>,
    /// Kinds of calls that are known.
    kinds: u32,
    /// Windows or breakers have held calls: tags and credit are no longer those of one limit alone.
    disturbed: bool,
    /// Limits on throttled calls of which more or less is used since they were last compared.
    throttles: Vec<u32>,
    stands: Vec<Stand>,
}

impl Desks {
    /// Opens desks for limits and kinds of calls that are new.
    pub fn open(&mut self, routes: &Routes, now: Nanos) {
        for limit in self.desks.len() as u32..routes.limit_count() {
            self.desks.push(Desk {
                book: Book::new(routes.terms(limit), now),
                aging: Aging::default(),
                shares: Shares::default(),
                alone: None,
                shared: false,
                first: None,
                others: BTreeMap::new(),
            });
        }
        while self.kinds < routes.kind_count() {
            let kind = routes.kind(self.kinds);
            for used in &kind.limits {
                let desk = &mut self.desks[used.limit as usize];
                desk.shared |= kind.limits.len() > 1 || desk.alone.is_some_and(|known| known != kind.group);
                desk.alone = (!desk.shared).then_some(kind.group);
            }
            self.kinds += 1;
        }
    }

    /// Notes that a window or a breaker has held calls.
    pub fn disturb(&mut self) {
        self.disturbed = true;
    }

    /// Returns the only limit of a kind of calls, if no other kind passes it.
    pub fn own(&self, kind: &Kind) -> Option<u32> {
        match kind.limits.as_slice() {
            [used] if !self.disturbed && self[used.limit].alone == Some(kind.group) => Some(used.limit),
            _ => None,
        }
    }

    /// Brings the books of a kind of calls to `now`.
    pub fn turn(
        &mut self,
        engine: &mut Engine,
        routes: &Routes,
        kind: u32,
        now: Nanos,
    ) -> Result<(), Broken> {
        let kind = routes.kind(kind);
        self.stands.clear();
        engine.stands(&kind.call, now, &mut self.stands);
        for (used, stand) in kind.limits.iter().zip(&self.stands) {
            let turned = self.desks[used.limit as usize].book.turn(*stand, now);
            turned.map_err(|wrong| {
                (Invariant::NoOvershoot, format!("`{}`: {wrong}", routes.name(used.limit)))
            })?;
        }
        Ok(())
    }

    /// Checks that the engine and the books agree on what a kind of calls has used.
    pub fn compare(&mut self, engine: &mut Engine, kind: u32, moment: &Moment<'_>) -> Result<(), Broken> {
        let (routes, event) = (moment.routes, moment.event);
        let kind = routes.kind(kind);
        self.stands.clear();
        engine.stands(&kind.call, moment.now, &mut self.stands);
        for (used, stand) in kind.limits.iter().zip(&self.stands) {
            let (least, most) = self.desks[used.limit as usize].book.used();
            if stand.used < least || stand.used > most {
                let invariant = match (event.refused.is_empty(), event.granted.is_empty()) {
                    (false, true) => Invariant::AllOrNothing,
                    _ => Invariant::Conservation,
                };
                let name = routes.name(used.limit);
                let message =
                    format!("`{name}` says that {} are used; by its book {least} to {most}", stand.used);
                return Err((invariant, message));
            }
        }
        Ok(())
    }

    /// Charges what others took of a limit, as the engine says. It only holds more back for that.
    pub fn charged(
        &mut self,
        limit: u32,
        units: u64,
        engine: &mut Engine,
        routes: &Routes,
        now: Nanos,
    ) -> Result<(), Broken> {
        // It counts in the window that is open now.
        let passes = |kind: &u32| routes.kind(*kind).limits.iter().any(|used| used.limit == limit);
        if let Some(kind) = (0..self.kinds).find(passes) {
            self.turn(engine, routes, kind, now)?;
        }
        let Some(desk) = self.desks.get_mut(limit as usize) else { return Ok(()) };
        desk.book.pass(now);
        let mark = desk.book.charge_others(units, now);
        desk.others.insert(now, mark);
        desk.shares.settled_otherwise();
        desk.first = None;
        Ok(())
    }

    /// Gives back what others did not take: no more than was charged then.
    pub fn refunded(&mut self, limit: u32, units: u64, charged: Nanos) {
        let Some(desk) = self.desks.get_mut(limit as usize) else { return };
        if let Some(mark) = desk.others.get(&charged) {
            // Nothing of it was in flight.
            let _ = desk.book.end(*mark, 0, units);
        }
        desk.first = None;
    }

    /// Takes over definitions that have changed.
    pub fn redefined(&mut self, routes: &Routes, now: Nanos) {
        for (desk, limit) in self.desks.iter_mut().zip(0..) {
            let terms = routes.terms(limit);
            if desk.book.terms != terms {
                desk.book.pass(now);
                desk.book.redefine(terms, now);
                desk.shares.settled_otherwise();
                desk.first = None;
            }
        }
    }

    /// Notes that a limit on throttled calls is to be compared.
    pub fn note_throttle(&mut self, limit: u32) {
        self.throttles.push(limit);
    }

    /// Checks that the engine and the books agree on what throttled calls use, where that has changed.
    pub fn compare_throttles(
        &mut self,
        engine: &mut Engine,
        routes: &Routes,
        now: Nanos,
    ) -> Result<(), Broken> {
        self.throttles.sort_unstable();
        self.throttles.dedup();
        for limit in self.throttles.drain(..) {
            let (name, book) = (routes.name(limit), self.desks[limit as usize].book.used().0);
            let said = engine.limit(name, now).map_or(0, |said| said.used);
            if said != book {
                let message = format!("`{name}` says that {said} are used; by its book {book}");
                return Err((Invariant::Conservation, message));
            }
        }
        Ok(())
    }
}

impl Index<u32> for Desks {
    type Output = Desk;

    fn index(&self, limit: u32) -> &Desk {
        &self.desks[limit as usize]
    }
}

impl IndexMut<u32> for Desks {
    fn index_mut(&mut self, limit: u32) -> &mut Desk {
        &mut self.desks[limit as usize]
    }
}
