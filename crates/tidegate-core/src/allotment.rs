//! Allotments: the units that a limit may spend before it must ask again.
//!
//! Every limit spends from an allotment (units, from, until). With memory as its lender a limit has no
//! allotment at all, which is the same as one without end. A disk lends a *promise*, Redis lends a *lease*;
//! the engine does not know which. It only knows how many units are left and until when, says when it wants
//! more, and waits if there are none. A lender may be slow (the answer comes late), fail (it says so, and is
//! asked again later) or forget (it never answers, and is asked again after a while): in every case nothing
//! is spent that was not lent.

use std::time::Duration;

use crate::time::Nanos;

/// An unanswered question is asked again after this long.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// What a lender gives: `units` that may be spent from `from` until just before `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loan {
    /// How many units.
    pub units: u64,
    /// Not before this.
    pub from: Nanos,
    /// Not at or after this.
    pub until: Nanos,
}

/// What is left of the loans of one limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allotment {
    /// At most two at a time: the one being spent, and the next. A third replaces nothing: it is merged.
    loans: Vec<Loan>,
    /// How many units a whole loan has; it is topped up when half is left.
    size: u64,
    asked: Option<Nanos>,
    not_before: Nanos,
    /// Spent since the last question, for the lender's books.
    spent: u64,
}

impl Allotment {
    pub fn new(size: u64) -> Allotment {
        Allotment { size: size.max(1), ..Allotment::default() }
    }

    pub fn room(&self, now: Nanos) -> u64 {
        self.usable(now).fold(0, |sum, loan| sum.saturating_add(loan.units))
    }

    /// When lent units suffice for `cost`: now, at the start of a loan that lies ahead, or never.
    pub fn earliest(&self, cost: u64, now: Nanos) -> Nanos {
        if self.room(now) >= cost {
            return Nanos::ZERO;
        }
        let starts = self.loans.iter().map(|loan| loan.from).filter(|from| *from > now);
        starts.filter(|start| self.room(*start) >= cost).min().unwrap_or(Nanos::NEVER)
    }

    pub fn spend(&mut self, units: u64, now: Nanos) {
        self.spent = self.spent.saturating_add(units);
        let mut left = units;
        for loan in self.loans.iter_mut().filter(|loan| loan.from <= now && now < loan.until) {
            let part = left.min(loan.units);
            loan.units -= part;
            left -= part;
        }
        self.loans.retain(|loan| loan.units > 0 && now < loan.until);
    }

    /// Gives back what was never used, if a loan to put it into is still there.
    pub fn give_back(&mut self, units: u64, now: Nanos) {
        self.spent = self.spent.saturating_sub(units);
        if let Some(loan) = self.loans.iter_mut().find(|loan| loan.from <= now && now < loan.until) {
            loan.units = loan.units.saturating_add(units);
        }
    }

    pub fn lend(&mut self, loan: Loan, now: Nanos) {
        self.asked = None;
        self.loans.retain(|old| old.units > 0 && now < old.until);
        if loan.units > 0 && now < loan.until {
            self.loans.push(loan);
        }
    }

    pub fn fail(&mut self, retry: Nanos) {
        self.asked = None;
        self.not_before = retry;
    }

    /// The question to ask now, if there is one: (units wanted, units spent since the last question).
    pub fn ask(&mut self, need: u64, now: Nanos) -> Option<(u64, u64)> {
        let left = self.loans.iter().filter(|loan| now < loan.until).map(|loan| loan.units);
        let left = left.fold(0_u64, u64::saturating_add);
        let wanted = self.size.max(need);
        let enough = left >= need && left > self.size / 2;
        if enough || now < self.not_before || self.asked.is_some_and(|at| now < at.after(ASK_AGAIN)) {
            return None;
        }
        self.asked = Some(now);
        Some((wanted - left.min(wanted), std::mem::take(&mut self.spent)))
    }

    /// When `ask` should be tried again, while something waits.
    pub fn ask_at(&self) -> Nanos {
        self.asked.map_or(self.not_before, |at| at.after(ASK_AGAIN))
    }

    fn usable(&self, now: Nanos) -> impl Iterator<Item = &Loan> {
        self.loans.iter().filter(move |loan| loan.from <= now && now < loan.until)
    }
}
