//! Calls or bytes in flight: taken at the grant, given back when the call ends.
//!
//! Two kinds. *Slots* (concurrency) admit a call while its units fit. A *budget* (bytes) admits a call while
//! the balance is not negative *before* subtracting, so a body larger than the whole budget passes instead
//! of waiting for ever, and while the balance is negative everybody waits.
//!
//! Neither knows when something comes back: `earliest` answers "now" or "never".

use crate::limits::meters::UNBOUNDED;
use crate::model::time::Nanos;

/// Units in flight against a bound.
#[derive(Clone, Debug)]
pub struct InFlight {
    bound: u64,
    held: u64,
    budget: bool,
}

impl InFlight {
    /// A bound on calls in flight.
    #[must_use]
    pub fn slots(bound: u64) -> InFlight {
        InFlight { bound, held: 0, budget: false }
    }

    /// A bound on weight in flight, which a single large call may pass.
    #[must_use]
    pub fn budget(bound: u64) -> InFlight {
        InFlight { bound, held: 0, budget: true }
    }

    /// Whether it bounds weight rather than calls.
    #[must_use]
    pub fn is_budget(&self) -> bool {
        self.budget
    }

    /// What one call may take at most.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        if self.budget { UNBOUNDED } else { self.bound }
    }

    /// Whether `cost` may go now.
    #[inline]
    #[must_use]
    pub fn fits(&self, cost: u64, withheld: u64, _now: Nanos) -> bool {
        let free = self.bound.saturating_sub(withheld);
        if self.budget { self.held <= free } else { self.held.saturating_add(cost) <= free }
    }

    /// Takes slots if they are free; does nothing with a budget.
    #[inline(always)]
    pub(super) fn try_take_quickly(&mut self, cost: u64) -> bool {
        match self.held.checked_add(cost) {
            Some(held) if held <= self.bound && !self.budget => {
                self.held = held;
                true
            }
            _ => false,
        }
    }

    /// Now, or at no known time.
    #[must_use]
    pub fn earliest(&self, cost: u64, withheld: u64) -> Nanos {
        if self.fits(cost, withheld, Nanos::ZERO) { Nanos::ZERO } else { Nanos::NEVER }
    }

    /// The largest cost that fits now.
    #[must_use]
    pub fn room(&self, withheld: u64, _now: Nanos) -> u64 {
        let free = self.bound.saturating_sub(withheld);
        match self.budget {
            true if self.held <= free => UNBOUNDED,
            true => 0,
            false => free.saturating_sub(self.held),
        }
    }

    /// A slot is never kept empty for a call that is bound elsewhere.
    #[must_use]
    pub fn spare(&self, _now: Nanos, _cost: u64, _withheld: u64, _at: Nanos) -> u64 {
        UNBOUNDED
    }

    /// Takes units.
    #[inline]
    pub fn take(&mut self, cost: u64) {
        self.held = self.held.saturating_add(cost);
    }

    /// Gives units back.
    #[inline]
    pub fn release(&mut self, cost: u64) {
        self.held = self.held.saturating_sub(cost);
    }

    /// Units in flight.
    #[must_use]
    pub fn used(&self, _now: Nanos) -> u64 {
        self.held
    }

    /// Now if nothing is in flight, else at no known time.
    #[must_use]
    pub fn full_at(&self) -> Nanos {
        if self.held == 0 { Nanos::ZERO } else { Nanos::NEVER }
    }

    /// Changes the bound; what is in flight stays in flight.
    pub fn change(&mut self, bound: u64) {
        self.bound = bound;
    }
}
