//! The token bucket: its level is what the rational numbers say, at every nanosecond.

use proptest::prelude::*;
use tidegate_core::Nanos;
use tidegate_core::limits::meters::{Bucket, MOST_DEBT, Meter};

use crate::model::{Model, any_start, any_units, any_window, cases, follow, plans, rate, some_amount};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

/// The level from the log alone: a full bucket less all that was spent since, seen from every time at which
/// it could have been full, plus what flowed since then; the least of these is the level. In units of 1/W.
pub struct BucketModel {
    units: u64,
    window: u64,
    capacity: u64,
    /// What the bucket held at the beginning, or when it was changed.
    began: (u64, i128),
    log: Vec<(u64, i128)>,
    /// Units above the bound on debt when N was lowered, and until when what comes back counts against them.
    forgiven: (u64, u64),
}

impl BucketModel {
    pub fn new(units: u64, window: u64, capacity: u64, now: u64) -> BucketModel {
        let began = (now, whole(capacity, window));
        BucketModel { units, window, capacity, began, log: Vec::new(), forgiven: (0, 0) }
    }

    pub fn level(&self, now: u64) -> i128 {
        let full = whole(self.capacity, self.window);
        // What is too large for the arithmetic is above `full`, and only less than that matters.
        let since = |at: u64, held: i128, change: i128| {
            let flowed = i128::from(now - at) * i128::from(self.units);
            held.saturating_add(flowed).saturating_add(change)
        };
        let mut level = full;
        let mut change = 0;
        for &(at, delta) in self.log.iter().rev() {
            // Full just after this entry, or just before it.
            level = level.min(since(at, full, change));
            change += delta;
            level = level.min(since(at, full, change));
        }
        let (began, held) = self.began;
        level.min(since(began, held, change))
    }

    pub fn missing(&self, now: u64) -> i128 {
        whole(self.capacity, self.window) - self.level(now)
    }

    pub fn add(&mut self, units: i128, now: u64) {
        self.log.push((now, units * i128::from(self.window)));
    }

    /// The same missing from a bucket of another size, up to its bound on debt.
    pub fn resize(&mut self, units: u64, capacity: u64, now: u64) {
        let fresh = BucketModel::new(units, self.window, capacity, now);
        let most = whole(fresh.most_used(), self.window);
        let missing = self.missing(now).min(most);
        let above = (self.missing(now) - missing).unsigned_abs().div_ceil(self.window.into());
        let (before, until) = self.forgiven;
        let before = if now < until { before } else { 0 };
        let forgiven = match u64::try_from(above).unwrap_or(u64::MAX) {
            0 => (before, until),
            above => {
                let full = missing.unsigned_abs().div_ceil(units.into());
                let full = now.saturating_add(u64::try_from(full).unwrap_or(u64::MAX));
                (before.saturating_add(above), until.max(full))
            }
        };
        let level = whole(capacity, self.window) - missing;
        *self = BucketModel { began: (now, level), forgiven, ..fresh };
    }
}

fn whole(units: u64, window: u64) -> i128 {
    i128::from(units) * i128::from(window)
}

impl Model for BucketModel {
    fn fits(&self, cost: u64, withheld: u64, now: u64) -> bool {
        self.level(now) >= whole(cost, self.window) + whole(withheld, self.window)
    }

    fn spend(&mut self, units: u64, now: u64, _granted: bool) {
        self.add(-i128::from(units), now);
    }

    fn refund(&mut self, units: u64, _taken: u64, now: u64) {
        let (forgiven, until) = self.forgiven;
        let swallowed = if now < until { units.min(forgiven) } else { 0 };
        self.forgiven.0 -= swallowed;
        self.add((units - swallowed).into(), now);
    }

    fn change(&mut self, meter: &mut Meter, units: u64, now: u64) {
        let Meter::Bucket(bucket) = meter else { panic!("not a bucket") };
        // The burst is as many times the rate as it was, more or less.
        let capacity = (units / 2 + self.capacity / 2).max(1);
        bucket.change(rate(units, self.window), capacity, Nanos(now));
        self.resize(units, capacity, now);
    }

    fn used(&self, now: u64) -> u128 {
        self.missing(now).unsigned_abs().div_ceil(self.window.into())
    }

    fn most_used(&self) -> u64 {
        self.capacity.saturating_add(self.units.saturating_mul(MOST_DEBT))
    }

    /// To the grain: when each unit is there, and when the bucket is full.
    fn check(&self, meter: &mut Meter, now: u64) {
        let level = self.level(now);
        let reached = |target: i128| {
            let wait = (target - level).unsigned_abs().div_ceil(self.units.into());
            now.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX))
        };
        let full = whole(self.capacity, self.window);
        if level < full {
            assert_eq!(meter.full_at().0, reached(full), "the level is not {level} of {full} at {now}");
        }
        let next = level.div_euclid(self.window.into()) + 1;
        if let Ok(next) = u64::try_from(next)
            && next <= self.capacity
        {
            assert_eq!(meter.earliest(next, 0).0, reached(whole(next, self.window)), "unit {next}");
        }
    }
}

fn bucket(units: u64, window: u64, capacity: u64, now: u64) -> Bucket {
    Bucket::full(rate(units, window), capacity, Nanos(now))
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn the_level_is_what_the_log_says(
        (units, window, start) in (any_units(), any_window(), any_start()),
        burst in some_amount(),
        plan in plans(40, true),
    ) {
        let capacity = burst.of(units).max(1);
        let meter = Meter::Bucket(bucket(units, window, capacity, start));
        follow(meter, BucketModel::new(units, window, capacity, start), window, start, &plan);
    }
}

proptest! {
    #![proptest_config(cases(40))]

    /// As if everybody waiting took one unit as soon as there is one. A bucket that fills within a nanosecond
    /// loses the rest of it, each time.
    #[test]
    fn the_flow_is_told_to_a_nanosecond_a_unit(
        (units, length, start) in (1_u64..1_000, any_window(), 0_u64..1 << 40),
        (capacity, spent, withheld) in (1_u64..20, 0_u64..60, 0_u64..5),
    ) {
        let mut bucket = bucket(units, length, capacity, start);
        bucket.take(spent, Nanos(start));
        let withheld = withheld.min(capacity - 1);
        let asked = bucket.clone();
        let mut now = start;
        for count in 1..40_u64 {
            now = bucket.earliest(1, withheld).0.max(now);
            bucket.take(1, Nanos(now));
            let told = asked.flows_by(count.into(), withheld, Nanos(start)).0;
            prop_assert!(told <= now && now <= told + count, "unit {} at {}, not at {}", count, now, told);
        }
    }

    /// Tick-based refills lose what falls between two ticks, and rounding drifts.
    #[test]
    fn a_thousand_small_refills_are_one_large_one(
        (units, window) in (any_units(), any_window()),
        ticks in prop::collection::vec(0_u64..5_000_000, 1_000),
    ) {
        let mut often = bucket(units, window, 1 << 63, 0);
        often.take(1 << 63, Nanos(0));
        let once = often.clone();
        let mut now = 0;
        for tick in ticks {
            now += tick;
            often.take(0, Nanos(now));
        }
        prop_assert_eq!(often.room(0, Nanos(now)), once.room(0, Nanos(now)));
        let ahead = |at: Nanos| at.max(Nanos(now));
        prop_assert_eq!(ahead(often.full_at()), ahead(once.full_at()));
        prop_assert_eq!(ahead(often.earliest(1 << 40, 0)), ahead(once.earliest(1 << 40, 0)));
    }
}

/// L1: 60/min has two tokens after 2.1 s, and never three.
#[test]
fn sixty_a_minute_is_one_a_second() {
    let mut bucket = bucket(60, 60 * SECOND, 60, 0);
    assert_eq!(bucket.room(0, Nanos(0)), 60, "it starts full");
    bucket.take(60, Nanos(0));
    assert!(!bucket.fits(1, 0, Nanos(SECOND - 1)));
    assert!(bucket.fits(1, 0, Nanos(SECOND)));
    assert_eq!(bucket.room(0, Nanos(2_100_000_000)), 2);
    assert_eq!(bucket.room(0, Nanos(3_600 * SECOND)), 60, "never above capacity");
}

#[test]
fn one_a_day_refills_to_the_nanosecond_however_often_it_is_looked_at() {
    let mut bucket = bucket(1, DAY, 1, 0);
    bucket.take(1, Nanos(0));
    for minute in 1..=1_440 {
        bucket.take(0, Nanos(minute * 60 * SECOND - 1));
        assert!(!bucket.fits(1, 0, Nanos(minute * 60 * SECOND - 1)));
    }
    assert_eq!(bucket.earliest(1, 0), Nanos(DAY));
    assert!(bucket.fits(1, 0, Nanos(DAY)));
}

#[test]
fn a_billion_a_second_is_one_a_nanosecond() {
    let mut bucket = bucket(1_000_000_000, SECOND, 1_000_000_000, 0);
    bucket.take(1_000_000_000, Nanos(0));
    for now in [1, 2, 1_000, 999_999_999] {
        assert_eq!(bucket.room(0, Nanos(now)), now);
        assert_eq!(bucket.earliest(now, 0), Nanos(now));
    }
}

#[test]
fn a_huge_capacity_is_not_clamped() {
    let mut bucket = bucket(1, 31 * DAY, 1 << 63, 0);
    assert_eq!(bucket.room(0, Nanos(0)), 1 << 63);
    bucket.take((1 << 63) - 1, Nanos(0));
    assert_eq!((bucket.room(0, Nanos(0)), bucket.used(Nanos(0))), (1, (1 << 63) - 1));
    bucket.refund(1 << 63, Nanos(0));
    assert_eq!(bucket.room(0, Nanos(0)), 1 << 63);
}

#[test]
fn a_refund_into_a_refilled_bucket_mints_nothing() {
    let mut bucket = bucket(10, SECOND, 10, 0);
    bucket.take(10, Nanos(0));
    bucket.refund(10, Nanos(SECOND));
    assert_eq!(bucket.room(0, Nanos(SECOND)), 10);
    bucket.take(10, Nanos(SECOND));
    assert_eq!(bucket.room(0, Nanos(SECOND)), 0);
}

/// A clock read before a competing take and used after it would refill the same stretch twice.
#[test]
fn a_stale_clock_refills_nothing_twice() {
    let mut bucket = bucket(10, SECOND, 10, 0);
    bucket.take(10, Nanos(0));
    bucket.take(0, Nanos(SECOND / 2));
    bucket.take(5, Nanos(SECOND / 4));
    assert_eq!(bucket.room(0, Nanos(SECOND / 2)), 0);
    assert_eq!(bucket.room(0, Nanos(SECOND)), 5);
}

/// Debts beyond all reason make it wait, not crash.
#[test]
fn debt_beyond_the_arithmetic_saturates() {
    let mut bucket = bucket(1, 31 * DAY, 1 << 63, 0);
    for _ in 0..10_000 {
        bucket.take(u64::MAX, Nanos(0));
    }
    assert_eq!((bucket.room(1 << 63, Nanos(1)), bucket.used(Nanos(1))), (0, u64::MAX));
    assert_eq!(bucket.spare(Nanos(1), 1 << 62, 1 << 62, Nanos(2)), 0);
    assert!(bucket.earliest(1, 0).is_never() && bucket.full_at().is_never());
    assert!(bucket.flows_by(u128::MAX, u64::MAX, Nanos(1)).is_never());
    bucket.change(rate(1 << 63, 1_000_000), 1, Nanos(1));
    assert!(!bucket.fits(1, 0, Nanos(1)));
}

#[test]
fn another_window_rounds_what_is_spent_against_us() {
    let mut bucket = bucket(3, 3 * SECOND, 3, 0);
    bucket.take(2, Nanos(0));
    bucket.change(rate(60, 60 * SECOND), 3, Nanos(1));
    assert_eq!(bucket.room(0, Nanos(1)), 1, "all but a nanosecond of two units is missing");
    assert_eq!(bucket.earliest(2, 0), Nanos(SECOND + 1));
}

#[test]
#[ignore = "a billion steps: run it with --release"]
fn a_billion_refills_do_not_drift() {
    let mut often = bucket(7, 1_000_003, 1 << 63, 0);
    often.take(1 << 63, Nanos(0));
    let once = often.clone();
    for step in 1..=1_000_000_000_u64 {
        often.take(0, Nanos(step * 3));
    }
    let now = Nanos(3_000_000_000);
    assert_eq!(often.room(0, now), once.room(0, now));
    assert_eq!((often.full_at(), often.used(now)), (once.full_at(), once.used(now)));
}
