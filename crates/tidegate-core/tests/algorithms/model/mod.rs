//! What the tests of all algorithms share: random plans, their runner, and the questions that every meter
//! answers.

mod plan;
mod questions;

pub use plan::{Op, Plan, any_start, any_units, any_window, plans, some_amount};
pub use questions::consistent;

use proptest::prelude::ProptestConfig;
use tidegate_core::limits::meters::Meter;
use tidegate_core::{Nanos, Rate};

/// So many random plans, or `TIDEGATE_PLANS` times as many. What fails is printed and not written beside the
/// sources.
pub fn cases(cases: u32) -> ProptestConfig {
    let times = std::env::var("TIDEGATE_PLANS").map_or(1, |n| n.parse().expect("a number"));
    ProptestConfig { cases: cases * times, failure_persistence: None, ..ProptestConfig::default() }
}

pub fn rate(units: u64, window: u64) -> Rate {
    Rate::new(units, std::time::Duration::from_nanos(window)).expect("a rate in range")
}

/// The exact counterpart of a meter.
pub trait Model {
    /// Whether `cost` may go now, leaving `withheld` units alone.
    fn fits(&self, cost: u64, withheld: u64, now: u64) -> bool;
    /// Spends, whether it fits or not. `granted` says that it did.
    fn spend(&mut self, units: u64, now: u64, granted: bool);
    /// Gives back units of what was spent at `taken`.
    fn refund(&mut self, units: u64, taken: u64, now: u64);
    /// Changes the number of units of both to `units`.
    fn change(&mut self, meter: &mut Meter, units: u64, now: u64);
    /// Units that count now.
    fn used(&self, now: u64) -> u128;
    /// Units that a charge may leave behind at most, debt included.
    fn most_used(&self) -> u64 {
        u64::MAX
    }
    /// Whatever else must hold after every step.
    fn check(&self, _meter: &mut Meter, _now: u64) {}
}

/// What a call has spent and not got back.
struct Spent {
    at: u64,
    left: u64,
}

/// Runs a plan through a meter and its model, comparing them after each step. Returns the model.
pub fn follow<M: Model>(mut meter: Meter, mut model: M, window: u64, start: u64, plan: &Plan) -> M {
    let mut now = start;
    let mut refused_until = start;
    let mut calls: Vec<Spent> = Vec::new();
    for step in plan {
        let capacity = meter.capacity();
        match &step.op {
            Op::Wait(wait) => now = wait.after(now, window, refused_until),
            Op::Take(cost, withheld) => {
                let (cost, withheld) = (cost.of(capacity), withheld.of(capacity));
                the_quick_way_leads_to_the_same(&meter, cost, now);
                let fits = meter.fits(cost, withheld, Nanos(now));
                assert_eq!(fits, model.fits(cost, withheld, now), "{cost} with {withheld} withheld at {now}");
                if fits {
                    meter.take(cost, Nanos(now), Nanos(now));
                    model.spend(cost, now, true);
                    calls.push(Spent { at: now, left: cost });
                } else {
                    refused_until = meter.earliest(cost, withheld).0;
                }
            }
            Op::Charge(units) => {
                let units = units.of(capacity);
                let used = u64::try_from(model.used(now)).unwrap_or(u64::MAX);
                let counted = units.min(model.most_used().saturating_sub(used));
                // What is in flight has no debt.
                if !meter.is_in_flight() {
                    assert_eq!(meter.charge(units, Nanos(now)), counted, "{units} at {now}, {used} used");
                }
                model.spend(counted, now, false);
            }
            Op::Refund(which, part) => {
                if !calls.is_empty() {
                    let call = which.get_mut(&mut calls);
                    let units = part.of(call.left).min(call.left);
                    call.left -= units;
                    meter.refund(units, Nanos(call.at), Nanos(now));
                    model.refund(units, call.at, now);
                }
            }
            Op::Change(units) => model.change(&mut meter, units.of(capacity).clamp(1, 1 << 63), now),
        }
        consistent(&meter, &step.probe, window, now);
        let used = model.used(now);
        if used > u64::MAX.into() {
            // A debt that 64 bits do not hold; what comes back of it is no longer told apart.
            assert_eq!(meter.used(Nanos(now)), u64::MAX);
            break;
        }
        assert_eq!(u128::from(meter.used(Nanos(now))), used, "units that count at {now}");
        model.check(&mut meter, now);
    }
    model
}

/// Whoever is let go quickly would have been let go in full, and leaves the same behind; else nothing happened.
fn the_quick_way_leads_to_the_same(meter: &Meter, cost: u64, now: u64) {
    let (mut quick, mut full) = (meter.clone(), meter.clone());
    if quick.try_take_quickly(cost, Nanos(now)) {
        assert!(full.try_take(cost, 0, Nanos(now)), "only the quick way lets {cost} go at {now}");
    }
    assert_eq!(format!("{quick:?}"), format!("{full:?}"), "{cost} at {now}");
}
