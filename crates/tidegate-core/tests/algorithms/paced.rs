//! The paced sliding window: the count of the unpaced one, behind a small bucket.

use proptest::prelude::*;
use tidegate_core::Nanos;
use tidegate_core::limits::meters::{Meter, SlidingWindow};

use crate::bucket::BucketModel;
use crate::model::{Model, any_start, any_units, any_window, cases, follow, plans, rate, some_amount};
use crate::sliding::SlidingModel;

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;

/// A log, a bucket, and the flow through it.
struct PacedModel {
    counted: SlidingModel,
    pacer: BucketModel,
    units: u64,
    burst: u64,
    /// When, how much (less than nothing if given back), and whether it was granted.
    flow: Vec<(u64, i128, bool)>,
}

impl PacedModel {
    fn new(units: u64, window: u64, burst: u64, now: u64) -> PacedModel {
        PacedModel {
            counted: SlidingModel::new(units, window),
            pacer: BucketModel::new(units, window, burst, now),
            units,
            burst,
            flow: Vec::new(),
        }
    }

    /// Up to any grant, and from any time on: at most the burst, or the one call above it, and N/W.
    fn the_flow_keeps_its_pace(&self) {
        let window = i128::from(self.counted.window);
        for (last, &(until, cost, _)) in self.flow.iter().enumerate().filter(|(_, event)| event.2) {
            let burst = i128::from(self.burst).max(cost);
            let mut spent = 0;
            for &(from, units, _) in self.flow[..=last].iter().rev() {
                spent += units;
                let refilled = i128::from(until - from) * i128::from(self.units);
                assert!(
                    (spent - burst) * window <= refilled,
                    "{spent} from {from} to {until}, burst {burst}"
                );
            }
        }
    }
}

impl Model for PacedModel {
    fn fits(&self, cost: u64, withheld: u64, now: u64) -> bool {
        self.counted.fits(cost, withheld, now) && self.pacer.fits(cost.min(self.burst), 0, now)
    }

    fn spend(&mut self, units: u64, now: u64, granted: bool) {
        self.counted.spend(units, now, granted);
        // The pacer has a bound of its own: it pays N in a window, and forgets nothing.
        let used = u64::try_from(self.pacer.used(now)).unwrap_or(u64::MAX);
        let paced = if granted { units } else { units.min(self.pacer.most_used().saturating_sub(used)) };
        self.pacer.spend(paced, now, granted);
        self.flow.push((now, paced.into(), granted));
    }

    /// Units that count no longer have long flowed again.
    fn refund(&mut self, units: u64, taken: u64, now: u64) {
        self.counted.refund(units, taken, now);
        if self.counted.counts_until(taken) > now.into() {
            self.pacer.refund(units, taken, now);
            self.flow.push((now, -i128::from(units), false));
        }
    }

    fn change(&mut self, meter: &mut Meter, units: u64, now: u64) {
        let Meter::Sliding(window) = meter else { panic!("not a sliding window") };
        self.burst = (self.burst / 2 + units / 100).clamp(1, units);
        self.units = units;
        let rate = rate(units, self.counted.window);
        window.change(rate, Some((rate, self.burst)), Nanos(now));
        self.counted.set_units(units);
        self.pacer.resize(units, self.burst, now);
    }

    fn used(&self, now: u64) -> u128 {
        self.counted.used(now)
    }

    fn most_used(&self) -> u64 {
        self.counted.most_used()
    }

    fn check(&self, meter: &mut Meter, now: u64) {
        self.counted.check(meter, now);
    }
}

fn paced(units: u64, window: u64, burst: u64) -> SlidingWindow {
    SlidingWindow::paced(rate(units, window), rate(units, window), burst, Nanos(0))
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn it_counts_and_paces_as_the_log_says_whatever_happens(
        (units, length, start) in (any_units(), any_window(), any_start()),
        burst in some_amount(),
        plan in plans(50, true),
    ) {
        let burst = burst.of(units).clamp(1, units);
        let rate = rate(units, length);
        let meter = SlidingWindow::paced(rate, rate, burst, Nanos(start));
        let model = PacedModel::new(units, length, burst, start);
        follow(Meter::Sliding(meter), model, length, start, &plan);
    }

    #[test]
    fn no_more_flows_than_the_burst_and_the_rate(
        (units, length, start) in (any_units(), any_window(), any_start()),
        burst in some_amount(),
        plan in plans(50, false),
    ) {
        let burst = burst.of(units).clamp(1, units);
        let rate = rate(units, length);
        let meter = SlidingWindow::paced(rate, rate, burst, Nanos(start));
        let model = PacedModel::new(units, length, burst, start);
        let model = follow(Meter::Sliding(meter), model, length, start, &plan);
        model.the_flow_keeps_its_pace();
        model.counted.no_stretch_of_a_window_holds_more_than_n();
    }
}

#[test]
fn a_cost_above_the_burst_goes_when_the_pacer_is_full_and_leaves_debt() {
    let mut window = paced(60, MINUTE, 2);
    window.take(1, Nanos(0), Nanos(0));
    assert_eq!(window.room(0, Nanos(0)), 1, "one is left of the burst");
    assert!(!window.fits(30, 0, Nanos(SECOND - 1)));
    assert_eq!(window.earliest(30, 0), Nanos(SECOND));
    assert_eq!(window.room(0, Nanos(SECOND)), 59, "before a full pacer only the count holds back");
    window.take(30, Nanos(SECOND), Nanos(SECOND));
    // 28 beyond the burst: they are paid first, then comes the next call.
    assert_eq!(window.earliest(1, 0), Nanos(30 * SECOND));
    assert_eq!(window.earliest(0, 0), Nanos(29 * SECOND), "in debt nothing goes, not even nothing");
    assert_eq!(window.room(0, Nanos(29 * SECOND)), 0);
}

#[test]
fn only_a_cost_above_n_can_never_fit() {
    let window = paced(60, MINUTE, 1);
    assert_eq!(window.capacity(), 60);
    assert_eq!(window.earliest(60, 0), Nanos(0));
    assert!(window.earliest(61, 0).is_never());
    assert!(window.earliest(60, 1).is_never());
}

#[test]
fn a_late_timer_costs_no_quota() {
    let mut window = paced(60, MINUTE, 1);
    for call in 0..60 {
        let booked = window.earliest(1, 0);
        assert_eq!(booked, Nanos(call * SECOND), "call {call}");
        let late = Nanos(booked.0 + 1_000_000 + call % 7);
        assert!(window.fits(1, 0, late));
        window.take(1, booked, late);
    }
}

/// The count is not to be fooled by a booked time: it goes by when the call went.
#[test]
fn a_late_call_counts_from_when_it_went() {
    let mut window = paced(2, MINUTE, 1);
    window.take(2, Nanos(0), Nanos(10 * SECOND));
    assert_eq!(window.used(Nanos(MINUTE + 10 * SECOND)), 2);
    assert_eq!(window.used(Nanos(MINUTE + 10 * SECOND + MINUTE / 256)), 0);
}

#[test]
fn what_comes_back_to_the_pacer_is_at_most_its_burst() {
    let mut window = paced(60, MINUTE, 2);
    window.take(2, Nanos(0), Nanos(0));
    window.refund(2, Nanos(0), Nanos(SECOND));
    assert_eq!(window.room(0, Nanos(SECOND)), 60, "the pacer is full, and nothing counts");
    window.take(2, Nanos(SECOND), Nanos(SECOND));
    assert_eq!(window.room(0, Nanos(SECOND)), 0, "the refund went in on top of the burst");
}

/// A window of its own that starts to mirror an upstream is paced from then on, and the other way round.
#[test]
fn a_pacer_may_come_and_go_and_what_is_spent_stays() {
    let mut window = SlidingWindow::new(rate(60, MINUTE));
    window.take(30, Nanos(0), Nanos(0));
    window.change(rate(60, MINUTE), Some((rate(60, MINUTE), 1)), Nanos(1));
    window.take(1, Nanos(1), Nanos(1));
    assert_eq!((window.used(Nanos(1)), window.room(0, Nanos(1))), (31, 0));
    window.change(rate(60, MINUTE), None, Nanos(2));
    assert_eq!((window.used(Nanos(2)), window.room(0, Nanos(2))), (31, 29));
}
