//! Allotments: the units that a limit may spend before it must ask again.
//!
//! Every limit spends from an allotment (units, from, until). With memory as its lender a limit has no
//! allotment at all, which is the same as one without end. A disk lends a *promise*, Redis lends a *lease*;
//! the engine does not know which. It only knows how many units are left and until when, says when it wants
//! more, and waits if there are none. A lender may be slow (the answer comes late), fail (it says so, and is
//! asked again later) or forget (it never answers, and is asked again after a while): in every case nothing
//! is spent that was not lent.

use std::time::Duration;

use crate::model::time::Nanos;

/// An unanswered question is asked again after this long.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Wholly spent loans that are remembered, for what may come back to them.
const REMEMBERED: usize = 8;

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

/// A loan, and how much of it has been spent.
#[derive(Clone, Copy, Debug)]
struct Held {
    units: u64,
    spent: u64,
    from: Nanos,
    until: Nanos,
}

impl Held {
    fn usable(&self, now: Nanos) -> bool {
        self.from <= now && now < self.until
    }
}

/// What is left of the loans of one limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowance {
    /// The one that ends first is spent first. Spent ones stay for a while: something may come back.
    loans: Vec<Held>,
    /// How many units a whole loan has; it is topped up when half is left.
    size: u64,
    asked: Option<Nanos>,
    not_before: Nanos,
    /// Spent since the last question, for the lender's books.
    spent: u64,
    /// What was taken before this may have come from a loan that is gone: it cannot come back.
    known_since: Nanos,
    /// Debt that no loan covered: the next one pays it first.
    owed: u64,
    /// The part of it that a page says which is on its way to the disk.
    owed_on_page: u64,
    /// A page was taken and not answered. There is never a second one: each counts on what is lent once it is on disk,
    /// and the later one does not know what the earlier one lends.
    on_its_way: bool,
    /// What was asked for, beyond a whole loan perhaps.
    need: u64,
    /// When the last page was taken, what had been spent by then, and how fast it was.
    paged: Nanos,
    spent_by_then: u64,
    pace: (u64, Duration),
}

impl Allowance {
    pub fn new(size: u64, now: Nanos) -> Allowance {
        Allowance { size: size.max(1), known_since: now, ..Allowance::default() }
    }

    pub fn room(&self, now: Nanos) -> u64 {
        let usable = self.loans.iter().filter(|loan| loan.usable(now));
        usable.fold(0, |sum, loan| sum.saturating_add(loan.units))
    }

    /// When lent units suffice for `cost`: now, at the start of a loan that lies ahead, or never.
    pub fn earliest(&self, cost: u64, now: Nanos) -> Nanos {
        if self.room(now) >= cost {
            return Nanos::ZERO;
        }
        let starts = self.loans.iter().map(|loan| loan.from).filter(|from| *from > now);
        starts.filter(|start| self.room(*start) >= cost).min().unwrap_or(Nanos::NEVER)
    }

    /// How much may be spent now without moving a call of `cost` that waits for the lender; no bound if there
    /// is enough for it already, since what is spent then is lent anew.
    pub fn spare(&self, cost: u64, now: Nanos) -> u64 {
        let at = self.earliest(cost, now);
        if at <= now {
            return u64::MAX;
        }
        if at.is_never() {
            // It comes in parts, and they are kept until there are enough.
            return 0;
        }
        let over = self.loans.iter().filter(|loan| loan.usable(now) && loan.until <= at);
        let over = over.fold(0_u64, |sum, loan| sum.saturating_add(loan.units));
        over.saturating_add(self.room(at) - cost)
    }

    /// Spends from the one loan that there is as a rule. If it says no, it has changed nothing, and there may be
    /// enough all the same, or it is time to ask.
    #[inline]
    pub fn try_spend_quickly(&mut self, units: u64, now: Nanos) -> bool {
        let least = if self.asked.is_some() { 0 } else { self.size / 2 + 1 };
        match self.loans.as_mut_slice() {
            [loan] if loan.usable(now) && loan.units >= units.saturating_add(least) => {
                loan.units -= units;
                loan.spent += units;
                self.spent = self.spent.saturating_add(units);
                true
            }
            _ => false,
        }
    }

    /// Undoes [`Allowance::try_spend_quickly`] or [`Allowance::spend`] at the same moment.
    pub fn undo(&mut self, units: u64, now: Nanos) {
        self.spent = self.spent.saturating_sub(units);
        let mut left = units;
        for loan in self.loans.iter_mut().filter(|loan| loan.usable(now)) {
            let part = left.min(loan.spent);
            loan.units += part;
            loan.spent -= part;
            left -= part;
        }
    }

    /// Slots are free again.
    pub fn come_back(&mut self, units: u64) {
        if let [loan] = self.loans.as_mut_slice() {
            loan.units = loan.units.saturating_add(units);
        }
    }

    /// Whether more is left than a whole loan has.
    pub fn is_plenty(&self) -> bool {
        self.loans.iter().any(|loan| loan.units > self.size)
    }

    /// Keeps no more than `most`.
    pub fn trim(&mut self, most: u64) {
        if let [loan] = self.loans.as_mut_slice() {
            loan.units = loan.units.min(most);
        }
    }

    /// Spends what is not asked for but charged: what the loans do not cover is owed.
    pub fn charge(&mut self, units: u64, now: Nanos) {
        let short = units.saturating_sub(self.room(now));
        self.spend(units - short, now);
        self.spent = self.spent.saturating_add(short);
        self.owed = self.owed.saturating_add(short);
    }

    /// What is left, for a page that says all that was spent so far. Nothing that was taken before it comes back
    /// from now on: what comes back counts where it was taken, and what is spent anew would count later.
    pub fn page(&mut self, now: Nanos) -> u64 {
        let spent = self.loans.iter().fold(0_u64, |sum, loan| sum.saturating_add(loan.spent));
        self.pace = (spent.saturating_sub(self.spent_by_then), now.since(self.paged));
        (self.paged, self.spent_by_then) = (now, spent);
        self.on_its_way = true;
        self.owed_on_page = std::mem::take(&mut self.owed);
        self.known_since = self.known_since.max(Nanos(now.0.saturating_add(1)));
        self.loans.iter().filter(|loan| now < loan.until).fold(0, |sum, loan| sum.saturating_add(loan.units))
    }

    /// A page is on disk: what it promises more may be spent. That may be nothing, if enough came back meanwhile.
    pub fn is_written(&mut self, units: u64, now: Nanos) {
        self.on_its_way = false;
        match units {
            0 => (self.asked, self.owed_on_page, self.need) = (None, 0, 0),
            units => self.lend(Loan { units, from: Nanos::ZERO, until: Nanos::NEVER }, now),
        }
    }

    /// Whether a page was taken and not answered.
    pub fn is_on_its_way(&self) -> bool {
        self.on_its_way
    }

    /// What is left.
    pub fn left(&self) -> u64 {
        self.loans.iter().fold(0, |sum, loan| sum.saturating_add(loan.units))
    }

    /// What was spent in so long a time before the last page.
    pub fn at_a_time(&self, span: Duration) -> u64 {
        let (units, in_) = self.pace;
        // Much in no time is no pace yet.
        (units as f64 * (span.as_secs_f64() / in_.as_secs_f64().max(1e-3))) as u64
    }

    /// What was asked for and not lent so far.
    pub fn need(&self) -> u64 {
        self.need
    }

    /// Nothing is lent and nothing asked for any more.
    pub fn give_up(&mut self) {
        self.loans.clear();
        self.asked = Some(Nanos::NEVER);
    }

    /// Whether nothing of it ends: then nobody need be told that it is no longer wanted.
    pub fn lasts(&self) -> bool {
        self.loans.iter().all(|loan| loan.until.is_never())
    }

    /// Whether nothing is asked, and little is left.
    #[inline]
    pub fn is_low(&self) -> bool {
        self.asked.is_none() && self.left() <= self.size / 2
    }

    /// Changes how many units a whole loan has.
    pub fn resize(&mut self, size: u64) {
        self.size = size.max(1);
    }

    pub fn spend(&mut self, units: u64, now: Nanos) {
        self.spent = self.spent.saturating_add(units);
        let mut left = units;
        for loan in self.loans.iter_mut().filter(|loan| loan.usable(now)) {
            let part = left.min(loan.units);
            loan.units -= part;
            loan.spent += part;
            left -= part;
        }
        self.forget(now);
    }

    /// Gives back what was taken at `taken` and never used, to the loans it may have come from. Those that
    /// end first come first: what returns there could as well have been spent from the others, which last
    /// longer. If one of the loans of that time is gone, nothing returns, for it may have been that one.
    pub fn give_back(&mut self, units: u64, taken: Nanos, now: Nanos) {
        self.spent = self.spent.saturating_sub(units);
        self.forget(now);
        if taken < self.known_since {
            return;
        }
        let paid = units.min(self.owed);
        self.owed -= paid;
        let mut left = units - paid;
        for loan in self.loans.iter_mut().filter(|loan| loan.usable(taken) && loan.usable(now)) {
            let part = left.min(loan.spent);
            loan.units += part;
            loan.spent -= part;
            left -= part;
        }
    }

    pub fn lend(&mut self, loan: Loan, now: Nanos) {
        (self.asked, self.owed_on_page, self.need) = (None, 0, 0);
        self.forget(now);
        let Loan { units, from, until } = loan;
        let paid = self.owed.min(units);
        self.owed -= paid;
        let units = units - paid;
        if loan.units == 0 || from > now || now >= until {
            // It brings nothing now. Asking at once again would be the same question.
            self.not_before = self.not_before.max(now.after(ASK_AGAIN));
        }
        let lasting = |held: &&mut Held| held.until.is_never() && held.from <= now;
        if until.is_never()
            && from <= now
            && let Some(held) = self.loans.iter_mut().find(lasting)
        {
            // Two without an end are one.
            held.units = held.units.saturating_add(units);
        } else if units > 0 && now < until {
            let place = self.loans.partition_point(|held| held.until <= until);
            self.loans.insert(place, Held { units, spent: 0, from, until });
        }
    }

    pub fn fail(&mut self, retry: Nanos) {
        (self.asked, self.on_its_way) = (None, false);
        self.owed = self.owed.saturating_add(std::mem::take(&mut self.owed_on_page));
        self.not_before = retry;
    }

    /// The question to ask now, if there is one: (units wanted, units spent since the last question).
    pub fn ask(&mut self, need: u64, now: Nanos) -> Option<(u64, u64)> {
        let left = self.loans.iter().filter(|loan| now < loan.until).map(|loan| loan.units);
        let left = left.fold(0_u64, u64::saturating_add);
        // Loans that are never usable together do not add up.
        let lacks = if self.earliest(need, now).is_never() { need - self.room(now) } else { 0 };
        let enough = lacks == 0 && left > self.size / 2;
        if enough || now < self.ask_at() {
            return None;
        }
        self.asked = Some(now);
        self.need = self.need.max(need);
        Some((lacks.max(self.size.saturating_sub(left)), std::mem::take(&mut self.spent)))
    }

    /// When `ask` should be tried again, while something waits.
    pub fn ask_at(&self) -> Nanos {
        self.asked.map_or(Nanos::ZERO, |at| at.after(ASK_AGAIN)).max(self.not_before)
    }

    /// Drops loans that are over, and of the wholly spent ones all but the last few.
    fn forget(&mut self, now: Nanos) {
        let mut empty = self.loans.iter().filter(|loan| loan.units == 0).count();
        let known_since = &mut self.known_since;
        self.loans.retain(|loan| {
            let over = now >= loan.until;
            let full = loan.units == 0 && empty > REMEMBERED;
            empty -= usize::from(full);
            if (over || full) && loan.spent > 0 {
                *known_since = (*known_since).max(loan.until.min(Nanos(now.0.saturating_add(1))));
            }
            !over && !full
        });
    }
}
