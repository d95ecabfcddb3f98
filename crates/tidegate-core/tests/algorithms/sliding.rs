//! The sliding window that only counts: never more than N in any stretch of W, and at most W/256 late.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::limits::meters::{MOST_DEBT, Meter, SlidingWindow};
use tidegate_core::{Nanos, Rate};

use crate::model::{Model, any_start, any_units, any_window, cases, follow, plans, rate};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

/// Everything that was ever spent.
pub struct SlidingModel {
    units: u64,
    pub window: u64,
    /// For how many slots longer everything counts.
    linger: u64,
    log: Vec<Entry>,
}

struct Entry {
    at: u64,
    /// What has not been given back.
    units: u64,
    granted: bool,
}

impl SlidingModel {
    pub fn new(units: u64, window: u64) -> SlidingModel {
        SlidingModel { units, window, linger: 0, log: Vec::new() }
    }

    fn lingering(self, linger: u64) -> SlidingModel {
        SlidingModel { linger, ..self }
    }

    pub fn grain(&self) -> u64 {
        self.window.div_ceil(256)
    }

    /// Units whose time counts.
    fn sum(&self, counts: impl Fn(u64) -> bool) -> u128 {
        let counted = self.log.iter().filter(|entry| counts(entry.at));
        counted.map(|entry| u128::from(entry.units)).sum()
    }

    /// A slot is remembered as a whole, until a window after its end.
    pub fn counts_until(&self, taken: u64) -> u128 {
        let grain = u128::from(self.grain());
        (u128::from(taken) / grain + 1 + u128::from(self.linger)) * grain + u128::from(self.window)
    }

    pub fn set_units(&mut self, units: u64) {
        self.units = units;
    }

    /// Every stretch of a window that ends just after a grant: debt that came later is excess, and known.
    pub fn no_stretch_of_a_window_holds_more_than_n(&self) {
        for (last, grant) in self.log.iter().enumerate().filter(|(_, entry)| entry.granted) {
            let from = (grant.at + 1).saturating_sub(self.window);
            let spent = self.log[..=last].iter().filter(|entry| entry.at >= from);
            let spent: u128 = spent.map(|entry| u128::from(entry.units)).sum();
            // What was debt before this grant and what it cost itself are within N together.
            assert!(
                grant.units == 0 || spent <= self.units.into(),
                "{spent} of {} in the window up to {}",
                self.units,
                grant.at
            );
        }
    }
}

impl Model for SlidingModel {
    fn fits(&self, cost: u64, withheld: u64, now: u64) -> bool {
        self.used(now) + u128::from(cost) + u128::from(withheld) <= self.units.into()
    }

    fn spend(&mut self, units: u64, now: u64, granted: bool) {
        let within = self.sum(|at| now - at < self.window) + u128::from(units);
        assert!(!granted || within <= self.units.into(), "{within} within a window at {now}");
        self.log.push(Entry { at: now, units, granted });
    }

    fn refund(&mut self, units: u64, taken: u64, _now: u64) {
        let mut left = units;
        for entry in self.log.iter_mut().filter(|entry| entry.granted && entry.at == taken) {
            let part = left.min(entry.units);
            entry.units -= part;
            left -= part;
        }
        assert_eq!(left, 0, "more given back than taken at {taken}");
    }

    fn change(&mut self, meter: &mut Meter, units: u64, now: u64) {
        let Meter::Sliding(window) = meter else { panic!("not a sliding window") };
        window.change(rate(units, self.window), None, Nanos(now));
        self.units = units;
    }

    fn used(&self, now: u64) -> u128 {
        self.sum(|at| self.counts_until(at) > now.into())
    }

    fn most_used(&self) -> u64 {
        self.units.saturating_mul(1 + MOST_DEBT)
    }

    /// Between a log that forgets after exactly W and one that forgets W/256 later.
    fn check(&self, meter: &mut Meter, now: u64) {
        let used = u128::from(meter.used(Nanos(now)));
        let lingers = self.linger * self.grain();
        let exact = self.sum(|at| now - at < self.window + lingers);
        let late = self.sum(|at| now - at < self.window + lingers + self.grain());
        assert!(exact <= used && used <= late, "{used} count, not {exact} to {late}, at {now}");
    }
}

fn window(units: u64, window: u64) -> SlidingWindow {
    SlidingWindow::new(rate(units, window))
}

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn it_counts_what_the_log_says_whatever_happens(
        (units, length, start) in (any_units(), any_window(), any_start()),
        plan in plans(60, true),
    ) {
        let meter = Meter::Sliding(window(units, length));
        follow(meter, SlidingModel::new(units, length), length, start, &plan);
    }

    #[test]
    fn never_more_than_n_in_any_half_open_stretch_of_w(
        (units, length, start) in (any_units(), any_window(), any_start()),
        plan in plans(60, false),
    ) {
        let meter = Meter::Sliding(window(units, length));
        let model = follow(meter, SlidingModel::new(units, length), length, start, &plan);
        model.no_stretch_of_a_window_holds_more_than_n();
    }

    #[test]
    fn what_lingers_counts_for_so_many_slots_longer_and_is_else_the_same(
        (units, length, start) in (any_units(), any_window(), any_start()),
        linger in 0_u64..=64,
        plan in plans(60, true),
    ) {
        let mut window = window(units, length);
        window.linger(Duration::from_nanos(linger * length.div_ceil(256)));
        let model = SlidingModel::new(units, length).lingering(linger);
        follow(Meter::Sliding(window), model, length, start, &plan);
    }

    /// Calls that leave later than they were let go: the window holds as much as ever, for as long as the log says.
    #[test]
    fn what_counts_from_later_on_counts_for_longer(
        (units, length, start) in (1_u64..50, any_window(), 0_u64..1 << 60),
        steps in prop::collection::vec((0_u16..300, 0_u64..9, 0_usize..4), 1..60),
        linger in 0_u64..4,
    ) {
        let mut window = window(units, length);
        window.linger(Duration::from_nanos(linger * length.div_ceil(256)));
        let mut log: Vec<(u64, u64)> = Vec::new();
        let mut now = start;
        for (grains, cost, which) in steps {
            now += u64::from(grains) * length.div_ceil(256);
            let model = SlidingModel::new(units, length).lingering(linger);
            let counts = |log: &[(u64, u64)]| -> u64 {
                log.iter().filter(|(at, _)| model.counts_until(*at) > now.into()).map(|(_, units)| units).sum()
            };
            prop_assert_eq!(window.used(Nanos(now)), counts(&log));
            if window.fits(cost, 0, Nanos(now)) {
                window.take(cost, Nanos(now), Nanos(now));
                log.push((now, cost));
            }
            if let Some(index) = log.len().checked_sub(1 + which)
                && model.counts_until(log[index].0) > now.into()
            {
                let (at, cost) = log[index];
                window.count_from(cost, Nanos(at), Nanos(now));
                log[index].0 = now;
            }
            prop_assert_eq!(window.used(Nanos(now)), counts(&log));
        }
    }

    /// As if everybody waiting took one unit as soon as there is one.
    #[test]
    fn the_flow_is_told_to_the_nanosecond(
        (units, length, start) in (1_u64..9, any_window(), 0_u64..1 << 60),
        spent in prop::collection::vec((0_u16..400, 0_u64..9), 0..6),
        withheld in 0_u64..3,
    ) {
        let mut window = window(units, length);
        let mut now = start;
        for (grains, cost) in spent {
            now += u64::from(grains) * length.div_ceil(256);
            window.take(cost, Nanos(now), Nanos(now));
        }
        let withheld = withheld.min(units - 1);
        let asked = (window.clone(), Nanos(now));
        for count in 1..40 {
            now = window.earliest(1, withheld).0.max(now);
            window.take(1, Nanos(now), Nanos(now));
            let told = asked.0.clone().flows_by(count, withheld, asked.1);
            prop_assert_eq!(told, Nanos(now), "unit {}", count);
        }
    }
}

/// L2.
#[test]
fn five_a_second_are_back_after_a_second_and_a_grain() {
    let mut window = window(5, SECOND);
    window.take(3, Nanos(0), Nanos(0));
    assert_eq!(window.room(0, Nanos(0)), 2);
    assert!(!window.fits(3, 0, Nanos(0)), "all or nothing");
    assert_eq!(window.room(0, Nanos(0)), 2);
    window.take(2, Nanos(0), Nanos(0));
    assert_eq!(window.room(0, Nanos(SECOND)), 0);
    assert_eq!(window.room(0, Nanos(SECOND + SECOND / 256)), 5);
}

/// To some limiters a window of nothing means no limit at all.
#[test]
fn a_window_too_short_to_count_is_refused() {
    for nanos in [0, 1, 999_999] {
        assert!(Rate::new(5, Duration::from_nanos(nanos)).is_err(), "{nanos} ns");
    }
    let mut window = window(5, 1_000_000);
    window.take(5, Nanos(0), Nanos(0));
    assert_eq!(window.earliest(1, 0), Nanos(1_003_907));
}

/// Whoever evicts a limit that is not full again hands out a fresh allowance.
#[test]
fn it_is_not_full_again_before_its_last_unit_has_expired() {
    let mut window = window(5, SECOND);
    window.take(4, Nanos(0), Nanos(0));
    window.take(1, Nanos(SECOND), Nanos(SECOND));
    assert_eq!(window.full_at(), Nanos(2 * SECOND + SECOND / 256));
    window.refund(1, Nanos(SECOND), Nanos(SECOND));
    assert_eq!(window.full_at(), Nanos(SECOND + SECOND / 256));
}

/// A counter of the current and the last window admits up to twice N around the turn.
#[test]
fn no_turn_of_a_window_lets_twice_the_units_through() {
    let mut window = window(100, SECOND);
    window.take(100, Nanos(SECOND - 1), Nanos(SECOND - 1));
    assert_eq!(window.room(0, Nanos(SECOND)), 0);
    assert_eq!(window.room(0, Nanos(2 * SECOND - 2)), 0);
}

#[test]
fn the_51st_of_50_is_refused() {
    let mut window = window(50, SECOND);
    let granted = (0..60).filter(|_| {
        let fits = window.fits(1, 0, Nanos(7));
        if fits {
            window.take(1, Nanos(7), Nanos(7));
        }
        fits
    });
    assert_eq!(granted.count(), 50);
}

#[test]
fn a_refund_of_what_counts_no_longer_frees_nothing_else() {
    let mut window = window(10, SECOND);
    window.take(10, Nanos(0), Nanos(0));
    let later = Nanos(2 * SECOND);
    window.take(10, later, later);
    window.refund(10, Nanos(0), later);
    assert_eq!(window.room(0, later), 0, "the refund landed in another slot");
    window.refund(10, later, later);
    assert_eq!(window.room(0, later), 10);
    window.refund(10, later, later);
    assert_eq!(window.room(0, later), 10, "a second refund minted units");
}

/// The slot's number is kept in eight bits: 256 slots later it is the same again.
#[test]
fn a_refund_does_not_land_in_a_slot_of_the_same_name() {
    let grain = 3_907;
    for slots in [256, 512, 65_536] {
        let mut window = window(10, 1_000_000);
        window.take(4, Nanos(0), Nanos(0));
        let again = Nanos(slots * grain);
        window.take(5, again, again);
        let later = Nanos((slots + 1) * grain);
        window.take(1, later, later);
        window.refund(4, Nanos(0), later);
        assert_eq!(window.used(later), 6, "{slots} slots later");
        window.refund(5, again, later);
        assert_eq!(window.used(later), 1, "{slots} slots later");
    }
}

#[test]
fn the_oldest_slot_that_counts_is_not_taken_for_the_newest() {
    let grain = 3_907;
    let mut window = window(10, 1_000_000);
    window.take(4, Nanos(0), Nanos(0));
    let later = Nanos(256 * grain);
    window.take(3, later, later);
    assert_eq!((window.used(later), window.earliest(4, 0)), (7, Nanos(1_000_000 + grain)));
    window.refund(3, Nanos(0), later);
    assert_eq!((window.used(later), window.earliest(7, 0)), (4, Nanos(1_000_000 + grain)));
    assert_eq!(window.used(Nanos(1_000_000 + grain)), 3);
}

#[test]
fn a_long_silence_leaves_nothing_behind() {
    for units in [10, 1_000_000] {
        let mut window = window(units, 1_000_000);
        window.take(units, Nanos(0), Nanos(0));
        window.refund(units, Nanos(0), Nanos(1));
        for now in [1, DAY, 365 * DAY, 500 * 365 * DAY, u64::MAX - 1] {
            assert_eq!(window.room(0, Nanos(now)), units);
            window.take(units, Nanos(now), Nanos(now));
            assert_eq!(window.room(0, Nanos(now)), 0);
        }
    }
}

/// Three debts of the largest size are more than 64 bits hold; each must be gone before anything fits.
#[test]
fn debts_beyond_64_bits_are_all_waited_for() {
    let mut window = window(1 << 63, 256 * SECOND);
    for second in 0..3 {
        window.take(1 << 63, Nanos(second * SECOND), Nanos(second * SECOND));
    }
    assert_eq!(window.used(Nanos(2 * SECOND)), u64::MAX);
    assert_eq!(window.earliest(1, 0), Nanos(259 * SECOND));
    assert_eq!(window.earliest(1 << 63, 0), Nanos(259 * SECOND));
    assert_eq!(window.spare(Nanos(2 * SECOND), 1, 0, Nanos(258 * SECOND)), 0);
    assert_eq!(window.used(Nanos(257 * SECOND)), u64::MAX);
    assert_eq!(window.used(Nanos(258 * SECOND)), 1 << 63);
    assert_eq!(window.room(0, Nanos(259 * SECOND)), 1 << 63);
}
