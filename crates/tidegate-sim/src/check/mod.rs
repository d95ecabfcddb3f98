//! The promises, checked at every event from the outside.
//!
//! The judge keeps [books](book) of what was granted, and a [roll](roll) of who waits. It reads definitions and
//! routes from the engine, but counts and ranks for itself:
//!
//! 1. *No overshoot*: at every grant each limit's definition holds over its book.
//! 2. *All or nothing*: after a refusal what the engine says is used is what the books say.
//! 3. *Conservation*: what ends was in flight, once; every ticket gets one verdict; at the end all is whole.
//! 4. *Work-conserving*: whoever has room everywhere and still waits shares a limit on a rate with one that
//!    has none.
//! 5. *Rank*: nobody passes one of the same route that ranks before it and costs no more; no lower rank moves
//!    the booking of the first in line.
//! 6. *No starvation*: [age](aging) gets its share and no more, [loops](fair) get theirs, nobody waits beyond
//!    the timeout.
//!
//! Those who are asked to stay away do: no call goes through a [window](windows) that is shut, faster than its pace, or
//! through a [breaker](breakers) that is open; and the [ledger](ledger) sees to it that no call is lost and none is
//! made again that was answered.
//!
//! The seventh, that the same seed gives the same run, takes two runs. Some of 5 and 6 can only be told from
//! outside where one limit is all there is on a route; there they are exact.

mod aging;
mod book;
mod breakers;
mod end;
mod fair;
mod grants;
mod ledger;
mod rank;
mod refusals;
mod roll;
mod windows;
mod work;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use tidegate_core::engine::{Fate, FirstInLine, Stand};
use tidegate_core::{Config, Engine, Nanos, Priority, Refusal, Ticket};

use self::aging::Aging;
use self::book::{Book, Mark};
use self::breakers::{Breakers, Pass};
use self::fair::Shares;
use self::roll::{Roll, Waiting};
use self::windows::{Ending, Windows};
use crate::report::Invariant;
use crate::routes::{Kind, Routes};

pub(crate) use self::end::End;
pub(crate) use self::ledger::Ledger;

/// Waiting lanes looked at after every event, besides those that it touched.
const LOOKS: usize = 3;

/// What was not kept.
pub(crate) type Broken = (Invariant, String);

/// A call that is about to ask.
#[derive(Debug)]
pub(crate) struct Newcomer<'a> {
    /// The number of its arrival.
    pub no: u64,
    pub kind: u32,
    /// What it takes at each of its limits.
    pub costs: &'a [u64],
    pub estimated: bool,
    /// When it first came, if it is tried again.
    pub came: Nanos,
}

/// What one event led to.
#[derive(Debug, Default)]
pub(crate) struct Happening {
    /// The call that came.
    pub newcomer: Option<u32>,
    /// Calls that may go, in the order in which it was said.
    pub granted: Vec<u32>,
    /// Calls that may not, and why.
    pub refused: Vec<(u32, Refusal)>,
    /// The call that began to wait.
    pub waits: Option<(u32, Ticket)>,
    /// The call that ended or went away.
    pub ended: Option<u32>,
    /// Something was spent or changed that is not a grant: bookings may move.
    pub unsettled: bool,
    /// The engine was brought to the present time, and no timer is late.
    pub current: bool,
}

/// A call as the judge knows it.
#[derive(Debug, Default)]
struct Record {
    no: u64,
    kind: u32,
    costs: Vec<u64>,
    marks: Vec<Mark>,
    arrived: Nanos,
    deadline: Nanos,
    granted: Nanos,
    ticket: Option<Ticket>,
    in_flight: bool,
    /// What it costs is brought down to what can ever fit.
    estimated: bool,
    /// It went throttled, and so took a slot of each limit on such calls.
    throttled: bool,
    pass: Option<Pass>,
}

/// What is known of one limit beside its book.
#[derive(Debug)]
struct Desk {
    book: Book,
    aging: Aging,
    shares: Shares,
    /// The only kind of route that passes here, if it is the only one and passes nothing else.
    alone: Option<u32>,
    shared: bool,
    /// Who was first in line when last looked at, and when its turn was.
    first: Option<(Ticket, Nanos)>,
    /// Where the book has what others took, by when it was charged.
    others: BTreeMap<Nanos, Mark>,
}

/// Watches the engine.
#[derive(Debug)]
pub(crate) struct Judge {
    desks: Vec<Desk>,
    calls: Vec<Record>,
    /// Kinds of calls that are known.
    kinds: u32,
    tickets: HashMap<Ticket, u32>,
    roll: Roll,
    deadlines: BTreeSet<(Nanos, u32)>,
    late: u64,
    windows: Windows,
    breakers: Breakers,
    /// Windows or breakers have held calls: tags and credit are no longer those of one limit alone.
    disturbed: bool,
    /// Limits on throttled calls of which more or less is used since they were last compared.
    throttles: Vec<u32>,
    stands: Vec<Stand>,
    line: Vec<FirstInLine>,
}

impl Judge {
    /// A judge over an engine that has done nothing yet, whose timers are at most `late`.
    pub fn new(config: &Config, late: u64) -> Judge {
        Judge {
            desks: Vec::new(),
            calls: Vec::new(),
            kinds: 0,
            tickets: HashMap::new(),
            roll: Roll::default(),
            deadlines: BTreeSet::new(),
            late,
            windows: Windows::new(config),
            breakers: Breakers::default(),
            disturbed: false,
            throttles: Vec::new(),
            stands: Vec::new(),
            line: Vec::new(),
        }
    }

    /// A call is about to ask.
    pub fn arrives(&mut self, call: u32, new: &Newcomer<'_>, deadline: Nanos) {
        if self.calls.len() <= call as usize {
            self.calls.resize_with(call as usize + 1, Record::default);
        }
        let record = &mut self.calls[call as usize];
        record.costs.clear();
        record.costs.extend_from_slice(new.costs);
        record.marks.clear();
        (record.no, record.kind, record.estimated) = (new.no, new.kind, new.estimated);
        (record.arrived, record.deadline) = (new.came, deadline);
        (record.ticket, record.in_flight, record.throttled) = (None, false, false);
    }

    /// A call is about to give back what it holds. What it cost counts where it says so; without a reservation that
    /// is kept, what is not used returns. Says whether bookings may move: more was spent than reserved, or those
    /// that wait may be held for longer.
    pub fn ends(
        &mut self,
        call: u32,
        end: &End<'_>,
        engine: &mut Engine,
        routes: &Routes,
        now: Nanos,
    ) -> Result<bool, Broken> {
        self.turn(engine, routes, self.calls[call as usize].kind, now)?;
        let record = &mut self.calls[call as usize];
        if !std::mem::take(&mut record.in_flight) {
            return Err((Invariant::Conservation, format!("call {} ends and was not in flight", record.no)));
        }
        let mut debt = false;
        for (at, used) in routes.kind(record.kind).limits.iter().enumerate() {
            let (reserved, mark) = (record.costs[at], record.marks[at]);
            let desk = &mut self.desks[used.limit as usize];
            let actual = end.cost(used, reserved);
            let back = reserved.saturating_sub(actual);
            let ended = desk.book.end(mark, reserved, back);
            ended.map_err(|wrong| {
                (Invariant::Conservation, format!("`{}`: {wrong}", routes.name(used.limit)))
            })?;
            if end.keeps_request(used) {
                // A later reply may free it.
                desk.others.insert(record.granted, mark);
            }
            if actual > reserved {
                desk.book.owe(actual - reserved, now);
                debt = true;
            }
            if actual != reserved {
                desk.shares.settled_otherwise();
            }
        }
        self.gives_back_throttled(call, routes)?;
        let record = &mut self.calls[call as usize];
        let (kind, fate) = (routes.kind(record.kind), &end.ended.fate);
        if let Some(pass) = record.pass.take() {
            self.breakers.ends(kind, pass, fate, now);
        }
        let Record { kind: number, ref costs, granted, .. } = *record;
        let ending = Ending { number, kind, costs, granted, ended: end.ended };
        self.disturbed |= self.windows.ends(ending, routes, now);
        Ok(debt || *fate != Fate::Answered)
    }

    /// Somebody opens a window for so long, or ends it.
    pub fn window_by_hand(&mut self, key: &str, lasts: Option<Duration>, now: Nanos) {
        self.disturbed = true;
        match lasts {
            Some(lasts) => self.windows.set(key, lasts, now),
            None => self.windows.clear(key, now),
        }
    }

    /// A waiting call's caller went away.
    pub fn withdrawn(&mut self, call: u32, routes: &Routes) {
        self.leaves(call, routes);
    }

    /// Others took units of a limit, the engine says. It only holds more back for that.
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

    /// They took less: no more comes back than was charged then.
    pub fn refunded(&mut self, limit: u32, units: u64, charged: Nanos) {
        let Some(desk) = self.desks.get_mut(limit as usize) else { return };
        if let Some(mark) = desk.others.get(&charged) {
            // Nothing of it was in flight.
            let _ = desk.book.end(*mark, 0, units);
        }
        desk.first = None;
    }

    /// A limit's definition may have changed.
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
        for call in self.tickets.values() {
            let record = &mut self.calls[*call as usize];
            routes.bring_down(record.kind, record.estimated, &mut record.costs);
        }
    }

    /// Looks at what an event led to.
    pub fn judge(
        &mut self,
        engine: &mut Engine,
        routes: &Routes,
        event: &Happening,
        now: Nanos,
    ) -> Result<(), Broken> {
        self.open_desks(routes, now);
        let touched = self.touched(event);
        for &kind in &touched {
            self.turn(engine, routes, kind, now)?;
        }
        // It may go in the same instant, when its coming pushes out another.
        if let Some((call, ticket)) = event.waits {
            self.joins(call, ticket, routes);
        }
        self.note_grants(routes, event, now)?;
        self.check_ranks(routes, event, now)?;
        if event.ended.is_some() || !event.granted.is_empty() {
            self.breakers.compare(engine, now)?;
            self.disturbed |= self.breakers.hold_anybody();
        }
        self.note_refusals(routes, event, now)?;
        let waiting = engine.waiting();
        if waiting != self.roll.len() {
            let message = format!("{waiting} calls wait, and {} should", self.roll.len());
            return Err((Invariant::Conservation, message));
        }
        for &kind in &touched {
            self.compare(engine, routes, kind, event, now)?;
        }
        self.compare_throttles(engine, routes, now)?;
        if event.unsettled && !self.windows.is_empty() {
            self.windows.compare(engine, now)?;
        }
        self.check_bookings(engine, routes, &touched, event, now)?;
        self.check_deadlines(now)?;
        if event.current {
            self.check_work(engine, routes, &touched, now)?;
        }
        Ok(())
    }

    /// When nothing is in flight or waits any more and all windows have passed, all is whole again.
    pub fn check_end(&mut self, engine: &mut Engine, now: Nanos) -> Result<(), Broken> {
        for limit in engine.limits(now) {
            if limit.used != 0 || limit.waiting != 0 {
                let message = format!("`{}` has {} used when all is over", limit.name, limit.used);
                return Err((Invariant::Conservation, message));
            }
        }
        Ok(())
    }

    fn open_desks(&mut self, routes: &Routes, now: Nanos) {
        for limit in self.desks.len() as u32..routes.limit_count() {
            let book = Book::new(routes.terms(limit), now);
            let (aging, shares) = (Aging::default(), Shares::default());
            self.desks.push(Desk {
                book,
                aging,
                shares,
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

    /// The kinds of calls that an event was about.
    fn touched(&self, event: &Happening) -> Vec<u32> {
        let calls = event.newcomer.iter().chain(&event.granted).chain(&event.ended);
        let refused = event.refused.iter().map(|(call, _)| call);
        let mut kinds: Vec<u32> = calls.chain(refused).map(|call| self.calls[*call as usize].kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    fn turn(&mut self, engine: &mut Engine, routes: &Routes, kind: u32, now: Nanos) -> Result<(), Broken> {
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

    /// What the engine says is used must be what the books say.
    fn compare(
        &mut self,
        engine: &mut Engine,
        routes: &Routes,
        kind: u32,
        event: &Happening,
        now: Nanos,
    ) -> Result<(), Broken> {
        let kind = routes.kind(kind);
        self.stands.clear();
        engine.stands(&kind.call, now, &mut self.stands);
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

    fn joins(&mut self, call: u32, ticket: Ticket, routes: &Routes) {
        let record = &mut self.calls[call as usize];
        record.ticket = Some(ticket);
        self.tickets.insert(ticket, call);
        let kind = routes.kind(record.kind);
        if !record.deadline.is_never() {
            self.deadlines.insert((record.deadline, call));
        }
        let waiting = Waiting { no: record.no, call };
        self.roll.join(kind, waiting);
        if let Some(desk) = self.desk_of(kind) {
            self.desks[desk].shares.joins(kind.class, kind.loop_, kind.weight);
        }
    }

    /// Strikes a call off the roll; says whether it was there.
    fn leaves(&mut self, call: u32, routes: &Routes) -> bool {
        let record = &mut self.calls[call as usize];
        let Some(ticket) = record.ticket.take() else { return false };
        self.tickets.remove(&ticket);
        self.deadlines.remove(&(record.deadline, call));
        let kind = routes.kind(record.kind);
        let waiting = Waiting { no: record.no, call };
        if self.roll.leave(kind, waiting)
            && let Some(desk) = self.desk_of(kind)
        {
            self.desks[desk].shares.leaves(kind.class, kind.loop_);
        }
        true
    }

    /// The only limit of a kind of calls, if it is theirs alone.
    fn desk_of(&self, kind: &Kind) -> Option<usize> {
        match kind.limits.as_slice() {
            [used] if !self.disturbed && self.desks[used.limit as usize].alone == Some(kind.group) => {
                Some(used.limit as usize)
            }
            _ => None,
        }
    }

    fn class(&self, call: u32, routes: &Routes) -> Priority {
        routes.kind(self.calls[call as usize].kind).class
    }
}
