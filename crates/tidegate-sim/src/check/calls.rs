//! The calls that the judge knows: what each takes, which of them wait, and until when.

use std::collections::{BTreeSet, HashMap};
use std::ops::{Index, IndexMut};

use tidegate_core::{Nanos, Priority, Ticket};

use super::book::Mark;
use super::breakers::Pass;
use super::desks::Desks;
use super::happening::{Broken, Happening, Newcomer};
use super::roll::{Roll, Waiting};
use crate::report::Invariant;
use crate::routes::Routes;

/// A call as the judge knows it.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub no: u64,
    pub kind: u32,
    pub costs: Vec<u64>,
    pub marks: Vec<Mark>,
    pub arrived: Nanos,
    pub deadline: Nanos,
    pub granted: Nanos,
    pub ticket: Option<Ticket>,
    pub in_flight: bool,
    /// What it costs is brought down to what can ever fit.
    estimated: bool,
    /// It went throttled, and so took a slot of each limit on such calls.
    pub throttled: bool,
    pub pass: Option<Pass>,
}

/// All calls, by their places in the world.
#[derive(Debug)]
pub(super) struct Calls {
    records: Vec<Record>,
    tickets: HashMap<Ticket, u32>,
    pub roll: Roll,
    deadlines: BTreeSet<(Nanos, u32)>,
    /// How late timers are at most, in nanoseconds.
    late: u64,
}

impl Calls {
    pub fn new(late: u64) -> Calls {
        Calls {
            records: Vec::new(),
            tickets: HashMap::new(),
            roll: Roll::default(),
            deadlines: BTreeSet::new(),
            late,
        }
    }

    /// Enters a call that is about to ask.
    pub fn arrives(&mut self, call: u32, new: &Newcomer<'_>, deadline: Nanos) {
        if self.records.len() <= call as usize {
            self.records.resize_with(call as usize + 1, Record::default);
        }
        let record = &mut self[call];
        record.costs.clear();
        record.costs.extend_from_slice(new.costs);
        record.marks.clear();
        (record.no, record.kind, record.estimated) = (new.no, new.kind, new.estimated);
        (record.arrived, record.deadline) = (new.came, deadline);
        (record.ticket, record.in_flight, record.throttled) = (None, false, false);
    }

    /// Returns the call that waits with a ticket.
    pub fn waiting(&self, ticket: Ticket) -> Option<u32> {
        self.tickets.get(&ticket).copied()
    }

    /// Enters a call on the roll.
    pub fn joins(&mut self, call: u32, ticket: Ticket, routes: &Routes, desks: &mut Desks) {
        let record = &mut self.records[call as usize];
        record.ticket = Some(ticket);
        self.tickets.insert(ticket, call);
        let kind = routes.kind(record.kind);
        if !record.deadline.is_never() {
            self.deadlines.insert((record.deadline, call));
        }
        let waiting = Waiting { no: record.no, call };
        self.roll.join(kind, waiting);
        if let Some(limit) = desks.own(kind) {
            desks[limit].shares.joins(kind.class, kind.loop_, kind.weight);
        }
    }

    /// Strikes a call off the roll. Returns whether it was on it.
    pub fn leaves(&mut self, call: u32, routes: &Routes, desks: &mut Desks) -> bool {
        let record = &mut self.records[call as usize];
        let Some(ticket) = record.ticket.take() else { return false };
        self.tickets.remove(&ticket);
        self.deadlines.remove(&(record.deadline, call));
        let kind = routes.kind(record.kind);
        let waiting = Waiting { no: record.no, call };
        if self.roll.leave(kind, waiting)
            && let Some(limit) = desks.own(kind)
        {
            desks[limit].shares.leaves(kind.class, kind.loop_);
        }
        true
    }

    /// Brings down what waiting calls take, after limits have changed.
    pub fn bring_down(&mut self, routes: &Routes) {
        for call in self.tickets.values() {
            let record = &mut self.records[*call as usize];
            routes.bring_down(record.kind, record.estimated, &mut record.costs);
        }
    }

    /// Returns the kinds of calls that an event was about.
    pub fn touched(&self, event: &Happening) -> Vec<u32> {
        let calls = event.newcomer.iter().chain(&event.granted).chain(&event.ended);
        let refused = event.refused.iter().map(|(call, _)| call);
        let mut kinds: Vec<u32> = calls.chain(refused).map(|call| self[*call].kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// Returns the base priority of a call.
    pub fn class(&self, call: u32, routes: &Routes) -> Priority {
        routes.kind(self[call].kind).class
    }

    /// Returns the base priority of a call, plus one for every `aging` waited.
    pub fn level(&self, call: u32, routes: &Routes, now: Nanos) -> u64 {
        let record = &self[call];
        let kind = routes.kind(record.kind);
        kind.class as u64 + now.since(record.arrived).as_nanos() as u64 / kind.aging
    }

    /// Returns whether call `a` takes no more than `b` at any limit of their common route.
    pub fn costs_no_more(&self, a: u32, b: u32) -> bool {
        self[a].costs.iter().zip(&self[b].costs).all(|(a, b)| a <= b)
    }

    /// Returns whether a call's timeout is over: it goes nowhere any more.
    pub fn is_out_of_time(&self, call: u32, now: Nanos) -> bool {
        self[call].deadline <= now
    }

    /// Returns whether a call that is granted now should have timed out before.
    pub fn is_granted_late(&self, call: u32, now: Nanos) -> bool {
        self[call].deadline < now && self.late == 0
    }

    /// Checks that no call waits beyond its timeout.
    pub fn check_deadlines(&self, now: Nanos) -> Result<(), Broken> {
        match self.deadlines.first() {
            Some((deadline, call)) if deadline.0.saturating_add(self.late) < now.0 => {
                let no = self[*call].no;
                Err((Invariant::NoStarvation, format!("call {no} waits beyond its timeout at {deadline:?}")))
            }
            _ => Ok(()),
        }
    }
}

impl Index<u32> for Calls {
    type Output = Record;

    fn index(&self, call: u32) -> &Record {
        &self.records[call as usize]
    }
}

impl IndexMut<u32> for Calls {
    fn index_mut(&mut self, call: u32) -> &mut Record {
        &mut self.records[call as usize]
    }
}
