//! The fixed window at an anchor: each window's own count, and a debt that is carried and paid first.

use proptest::prelude::*;
use tidegate_core::Nanos;
use tidegate_core::limits::meters::{Boundary, FixedWindow, MOST_DEBT, Meter};

use crate::model::{Model, any_start, any_units, any_window, cases, follow, plans, rate};

const SECOND: u64 = 1_000_000_000;

/// Windows by number, counted from the anchor, and what each of them began with.
pub struct FixedModel {
    units: u64,
    window: u64,
    anchor: u64,
    log: Vec<Entry>,
}

struct Entry {
    at: u64,
    /// What has not been given back.
    units: u128,
}

impl FixedModel {
    pub fn new(units: u64, window: u64, anchor: u64) -> FixedModel {
        FixedModel { units, window, anchor, log: Vec::new() }
    }

    fn number(&self, at: u64) -> i128 {
        (i128::from(at) - i128::from(self.anchor)).div_euclid(self.window.into())
    }

    /// The count of the window of `now`: what the last one was over, paid by N each window, and its own.
    fn count(&self, now: u64) -> u128 {
        let mut used = 0_u128;
        let mut number = None;
        for entry in self.log.iter().filter(|entry| entry.at <= now) {
            used = self.carry(used, number, self.number(entry.at)) + entry.units;
            number = Some(self.number(entry.at));
        }
        self.carry(used, number, self.number(now))
    }

    fn carry(&self, used: u128, from: Option<i128>, to: i128) -> u128 {
        let windows = to - from.unwrap_or(to);
        used.saturating_sub(u128::from(self.units).saturating_mul(windows.unsigned_abs()))
    }
}

impl Model for FixedModel {
    fn fits(&self, cost: u64, withheld: u64, now: u64) -> bool {
        self.count(now) + u128::from(cost) + u128::from(withheld) <= self.units.into()
    }

    fn spend(&mut self, units: u64, now: u64, _granted: bool) {
        self.log.push(Entry { at: now, units: units.into() });
    }

    /// Only into the window that it came from, while that is open.
    fn refund(&mut self, units: u64, taken: u64, now: u64) {
        if self.number(taken) != self.number(now) {
            return;
        }
        let mut left = u128::from(units);
        for entry in self.log.iter_mut().filter(|entry| entry.at == taken) {
            let part = left.min(entry.units);
            entry.units -= part;
            left -= part;
        }
        assert_eq!(left, 0, "more given back than taken at {taken}");
    }

    fn change(&mut self, _meter: &mut Meter, _units: u64, _now: u64) {
        unreachable!("changes have a test of their own")
    }

    fn used(&self, now: u64) -> u128 {
        self.count(now)
    }

    fn most_used(&self) -> u64 {
        self.units.saturating_mul(1 + MOST_DEBT)
    }

    fn check(&self, meter: &mut Meter, now: u64) {
        let Meter::Fixed(window) = meter else { panic!("not a fixed window") };
        let next = i128::from(self.anchor) + (self.number(now) + 1) * i128::from(self.window);
        let next = u64::try_from(next).unwrap_or(u64::MAX);
        // A call that does not fit goes at the first turn after which what is owed leaves room for it.
        let (used, units) = (self.count(now), u128::from(self.units));
        let owed = used.saturating_sub(units);
        for cost in [1, units.div_ceil(2), units] {
            if used + cost > units {
                let more = (owed + cost).saturating_sub(units).div_ceil(units);
                let wait = more.saturating_mul(self.window.into());
                let at = u64::try_from(wait).map_or(u64::MAX, |wait| next.saturating_add(wait));
                assert_eq!(window.earliest(cost as u64, 0), Nanos(at), "{cost} of {units}, {used} used");
                let flows = window.flows_by(cost, 0, Nanos(now));
                assert_eq!(flows, Nanos(at), "{cost} of {units}, {used} used");
            }
        }
    }
}

/// The same with an N that changes: what was beyond N when it was spent is owed, and nothing else is.
struct ChangingModel {
    units: u64,
    window: u64,
    anchor: u64,
    number: i128,
    used: u128,
    owed: u128,
}

impl ChangingModel {
    fn at(&self, now: u64) -> ChangingModel {
        let number = (i128::from(now) - i128::from(self.anchor)).div_euclid(self.window.into());
        let mut this = ChangingModel { ..*self };
        while this.number < number && this.used > 0 {
            this.number += 1;
            this.used = this.owed.min(u128::from(this.units) * u128::from(MOST_DEBT));
            this.owed = this.used.saturating_sub(this.units.into());
            // Windows that only pay are passed at once, but for the last.
            let paying = (this.owed / u128::from(this.units)) as i128;
            let skipped = paying.min(number - this.number).max(0);
            this.number += skipped;
            this.used -= skipped.unsigned_abs() * u128::from(this.units);
            this.owed = this.used.saturating_sub(this.units.into());
        }
        ChangingModel { number, ..this }
    }
}

impl Model for ChangingModel {
    fn fits(&self, cost: u64, withheld: u64, now: u64) -> bool {
        self.used(now) + u128::from(cost) + u128::from(withheld) <= self.units.into()
    }

    fn spend(&mut self, units: u64, now: u64, _granted: bool) {
        *self = self.at(now);
        let free = u128::from(self.units).saturating_sub(self.used);
        self.owed += u128::from(units).saturating_sub(free);
        self.used += u128::from(units);
    }

    fn refund(&mut self, units: u64, taken: u64, now: u64) {
        *self = self.at(now);
        let number = (i128::from(taken) - i128::from(self.anchor)).div_euclid(self.window.into());
        if number == self.number {
            self.used -= u128::from(units);
            self.owed = self.owed.saturating_sub(units.into());
        }
    }

    fn change(&mut self, meter: &mut Meter, units: u64, now: u64) {
        let Meter::Fixed(window) = meter else { panic!("not a fixed window") };
        window.change(units, Nanos(now));
        *self = ChangingModel { units, ..self.at(now) };
    }

    fn used(&self, now: u64) -> u128 {
        self.at(now).used
    }

    fn most_used(&self) -> u64 {
        self.units.saturating_mul(1 + MOST_DEBT)
    }
}

fn anchored(units: u64, window: u64, anchor: u64, now: u64) -> FixedWindow {
    FixedWindow::new(rate(units, window), Boundary::Anchor(Nanos(anchor)), Nanos(now))
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn each_window_counts_its_own_and_pays_what_is_owed_first(
        (units, window, start) in (any_units(), any_window(), any_start()),
        anchor in any_start(),
        plan in plans(50, false),
    ) {
        let meter = Meter::Fixed(anchored(units, window, anchor, start));
        follow(meter, FixedModel::new(units, window, anchor), window, start, &plan);
    }

    #[test]
    fn a_changed_limit_keeps_the_count_and_owes_what_was_beyond_it_when_spent(
        (units, window, start) in (any_units(), any_window(), any_start()),
        plan in plans(50, true),
    ) {
        let meter = Meter::Fixed(anchored(units, window, start, start));
        let model = ChangingModel { units, window, anchor: start, number: 0, used: 0, owed: 0 };
        follow(meter, model, window, start, &plan);
    }

    /// As if everybody waiting took one unit as soon as there is one.
    #[test]
    fn the_flow_is_told_to_the_nanosecond(
        (units, length, start) in (1_u64..9, any_window(), 0_u64..1 << 60),
        spent in prop::collection::vec(0_u64..20, 0..5),
        withheld in 0_u64..5,
    ) {
        let mut window = anchored(units, length, 5, start);
        let mut now = start;
        for cost in spent {
            window.take(cost, Nanos(now));
        }
        let withheld = withheld.min(units - 1);
        let asked = window.clone();
        for count in 1..30 {
            now = window.earliest(1, withheld).0.max(now);
            window.take(1, Nanos(now));
            prop_assert_eq!(asked.clone().flows_by(count, withheld, Nanos(start)), Nanos(now), "unit {}", count);
        }
    }
}

#[test]
fn a_window_is_half_open() {
    let mut window = anchored(5, SECOND, 0, 0);
    window.take(5, Nanos(SECOND - 1));
    assert!(!window.fits(1, 0, Nanos(SECOND - 1)));
    assert_eq!(window.earliest(1, 0), Nanos(SECOND));
    assert_eq!(window.room(0, Nanos(SECOND)), 5);
}

/// An upstream's reset header may name a time that is still to come: windows lie before it too.
#[test]
fn an_anchor_ahead_aligns_the_windows_before_it() {
    let mut window = anchored(5, 10 * SECOND, 33 * SECOND, 12 * SECOND);
    window.take(5, Nanos(12 * SECOND));
    assert_eq!(window.earliest(1, 0), Nanos(13 * SECOND));
    window.take(5, Nanos(13 * SECOND));
    assert_eq!(window.earliest(1, 0), Nanos(23 * SECOND));
}

#[test]
fn debt_is_carried_and_paid_first() {
    let mut window = anchored(10, SECOND, 0, 0);
    window.take(10, Nanos(0));
    window.take(25, Nanos(0));
    assert_eq!(window.used(Nanos(0)), 35);
    // 25 are owed: two windows pay ten each, the third begins with five.
    assert_eq!(window.used(Nanos(SECOND)), 25);
    assert_eq!(window.earliest(5, 0), Nanos(3 * SECOND));
    assert_eq!(window.earliest(6, 0), Nanos(4 * SECOND));
    assert_eq!(window.full_at(), Nanos(4 * SECOND));
    assert_eq!(window.room(0, Nanos(3 * SECOND)), 5);
}

#[test]
fn a_refund_lands_only_in_the_window_it_came_from() {
    let mut window = anchored(10, SECOND, 0, 0);
    window.take(10, Nanos(SECOND - 1));
    window.take(10, Nanos(SECOND));
    window.refund(10, Nanos(SECOND - 1), Nanos(SECOND));
    assert_eq!(window.room(0, Nanos(SECOND)), 0, "a refund from the last window freed units of this one");
    window.refund(4, Nanos(SECOND), Nanos(2 * SECOND - 1));
    assert_eq!(window.room(0, Nanos(2 * SECOND - 1)), 4);
    window.refund(6, Nanos(SECOND), Nanos(2 * SECOND));
    assert_eq!(window.room(0, Nanos(2 * SECOND)), 10, "a refund minted units above capacity");
}

#[test]
fn a_lowered_limit_owes_nothing_for_what_was_allowed() {
    let mut window = anchored(10, SECOND, 0, 0);
    window.take(10, Nanos(0));
    window.change(4, Nanos(1));
    assert_eq!(window.room(0, Nanos(2)), 0);
    assert_eq!((window.room(0, Nanos(SECOND)), window.used(Nanos(SECOND))), (4, 0));
}

/// The flow is what waits: a call that fits now is told so, whatever was owed before the limit was raised.
#[test]
fn what_fits_flows_now() {
    let mut window = anchored(10, SECOND, 0, 0);
    window.take(13, Nanos(0));
    window.change(20, Nanos(1));
    assert!(window.fits(7, 0, Nanos(2)));
    assert_eq!(window.flows_by(7, 0, Nanos(2)), Nanos(2));
    assert_eq!(window.flows_by(8, 0, Nanos(2)), Nanos(SECOND));
}

#[test]
fn nothing_is_lost_at_the_end_of_the_clock() {
    let end = u64::MAX - 1;
    for window in [1_000_000, 31 * 86_400 * SECOND] {
        let mut window = anchored(5, window, 3, end);
        window.take(5, Nanos(end));
        assert!(!window.fits(1, 0, Nanos(end)));
        assert!(window.earliest(1, 0).is_never());
        window.take(1 << 63, Nanos(end));
        assert!(window.full_at().is_never());
    }
}
