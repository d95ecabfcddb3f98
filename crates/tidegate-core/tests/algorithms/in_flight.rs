//! Calls and bytes in flight: what was taken is held until it is released, and time plays no part.

use proptest::prelude::*;
use tidegate_core::Nanos;
use tidegate_core::limits::meters::{InFlight, Meter};

use crate::model::{Model, any_units, cases, follow, plans};

struct Held {
    bound: u64,
    budget: bool,
    held: u128,
}

impl Model for Held {
    fn fits(&self, cost: u64, withheld: u64, _now: u64) -> bool {
        let free = i128::from(self.bound.saturating_sub(withheld)) - self.held as i128;
        if self.budget { free >= 0 } else { free >= cost.into() }
    }

    /// Only a grant holds anything: there is no debt of slots.
    fn spend(&mut self, units: u64, _now: u64, granted: bool) {
        self.held += if granted { units.into() } else { 0 };
    }

    fn refund(&mut self, units: u64, _taken: u64, _now: u64) {
        self.held -= u128::from(units);
    }

    fn change(&mut self, meter: &mut Meter, units: u64, _now: u64) {
        let Meter::InFlight(held) = meter else { panic!("not in flight") };
        held.change(units);
        self.bound = units;
    }

    fn used(&self, _now: u64) -> u128 {
        self.held
    }

    fn check(&self, meter: &mut Meter, now: u64) {
        assert_eq!(meter.full_at().0, if self.held == 0 { 0 } else { u64::MAX });
        let spare = meter.spare(Nanos(now), 1, 0, Nanos(now));
        assert_eq!(spare, u64::MAX, "a slot is never kept empty for a call that is bound elsewhere");
    }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn what_is_held_is_what_was_taken_and_not_released(
        bound in any_units(),
        budget in any::<bool>(),
        plan in plans(60, true),
    ) {
        let held = if budget { InFlight::budget(bound) } else { InFlight::slots(bound) };
        follow(Meter::InFlight(held), Held { bound, budget, held: 0 }, 1_000_000_000, 0, &plan);
    }
}

/// D5: an oversize body passes instead of waiting for ever, and at a balance of zero one more goes.
#[test]
fn a_budget_admits_while_its_balance_is_not_negative() {
    let mut budget = InFlight::budget(100);
    let now = Nanos::ZERO;
    budget.take(100);
    assert!(budget.fits(1 << 63, 0, now), "at zero one more goes, whatever it weighs");
    budget.take(1);
    assert!(!budget.fits(0, 0, now), "below zero everybody waits, zero-byte calls too");
    assert!(budget.earliest(0, 0).is_never() && budget.room(0, now) == 0);
    budget.release(1);
    assert!(budget.fits(0, 0, now));
}

#[test]
fn a_lowered_bound_waits_for_those_in_flight() {
    let mut slots = InFlight::slots(10);
    slots.take(8);
    slots.change(5);
    assert_eq!((slots.room(0, Nanos::ZERO), slots.used(Nanos::ZERO)), (0, 8));
    slots.release(4);
    assert_eq!(slots.room(0, Nanos::ZERO), 1);
}
