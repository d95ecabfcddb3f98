//! So many at the same time.
//!
//! A call takes one slot when it is accepted and gives it back when it ends; one that finds no free slot is
//! refused. When a slot becomes free nobody knows: the only answers are now and never.

use tidegate_core::{Nanos, Rate};

use super::meter::Meter;

/// Slots.
#[derive(Clone, Debug)]
pub struct Concurrency {
    slots: u64,
    taken: u64,
}

impl Concurrency {
    /// So many slots, all free.
    #[must_use]
    pub fn new(slots: u64) -> Concurrency {
        Concurrency { slots, taken: 0 }
    }
}

impl Meter for Concurrency {
    fn fits_at(&self, cost: u64, now: Nanos) -> Nanos {
        if self.taken.saturating_add(cost) <= self.slots { now } else { Nanos::NEVER }
    }

    fn take(&mut self, cost: u64, _now: Nanos) {
        self.taken = self.taken.saturating_add(cost);
    }

    /// A refused call never ran.
    fn take_refused(&mut self, _cost: u64, _now: Nanos) {}

    fn give_back(&mut self, cost: u64, _taken: Nanos, _now: Nanos) -> u64 {
        let back = cost.min(self.taken);
        self.taken -= back;
        back
    }

    fn remaining(&self, _now: Nanos) -> u64 {
        self.slots.saturating_sub(self.taken)
    }

    fn full_at(&self, now: Nanos) -> Nanos {
        if self.taken == 0 { now } else { Nanos::NEVER }
    }

    fn more_at(&self, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// With fewer slots than calls that run, nobody is thrown out; the next waits for all that are too many.
    fn change(&mut self, rate: Rate, _burst: u64, _now: Nanos) {
        self.slots = rate.units();
    }
}
