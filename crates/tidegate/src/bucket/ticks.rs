//! The moment at which a bucket is full again, in ticks, in one atomic word.
//!
//! The arithmetic and the compare-and-swap of [`TokenBucket`](super::TokenBucket); the essay is there. The word
//! is a parameter so that the same lines run over 64 bits, over 128, and over the words of a model checker.

use std::ops::{Add, Div, Mul, Sub};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use portable_atomic::AtomicU128;

/// A bucket's size and rate in ticks.
pub(super) struct Flow {
    /// How many ticks a nanosecond has: N/g.
    per_nano: u64,
    /// How many ticks a unit takes to flow: W/g.
    per_unit: u64,
    /// How many ticks the whole bucket takes to flow.
    full: u128,
}

impl Flow {
    /// All three at least 1 and at most 2⁶³.
    pub(super) fn new(capacity: u64, rate: u64, interval_nanos: u64) -> Flow {
        let divisor = gcd(rate, interval_nanos);
        let per_unit = interval_nanos / divisor;
        Flow { per_nano: rate / divisor, per_unit, full: u128::from(capacity) * u128::from(per_unit) }
    }
}

/// A whole number as wide as the word.
pub(super) trait Number:
    Copy
    + Ord
    + From<u64>
    + Into<u128>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
}

impl Number for u64 {}
impl Number for u128 {}

/// An atomic number.
pub(super) trait Word {
    type Number: Number;

    fn new(value: Self::Number) -> Self;
    fn load(&self) -> Self::Number;
    /// Whether `old` was there and `new` is now; sometimes fails for no reason.
    fn swap_if(&self, old: Self::Number, new: Self::Number) -> bool;
}

/// The number stands alone. Nothing else is read or written on its account, so the orderings promise more than
/// is needed; on x86-64 they cost nothing, elsewhere little.
macro_rules! word {
    ($atomic:ty, $number:ty) => {
        impl Word for $atomic {
            type Number = $number;

            fn new(value: $number) -> Self {
                <$atomic>::new(value)
            }

            #[inline]
            fn load(&self) -> $number {
                self.load(Ordering::Acquire)
            }

            #[inline]
            fn swap_if(&self, old: $number, new: $number) -> bool {
                self.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            }
        }
    };
}

word!(AtomicU64, u64);
word!(AtomicU128, u128);

/// On a cache line of its own. A take also reads the numbers beside it, which never change; on the line that
/// all cores fight over they would have to be fetched again every time.
#[repr(align(64))]
struct Alone<W>(W);

/// How full a bucket is.
///
/// Every function takes the clock and not a time, since a take reads it again when it lost a race.
pub(super) struct Level<W: Word> {
    /// When the bucket is full again. At most `last_nano` × `per_nano` + `full`, which the number holds.
    full_at: Alone<W>,
    per_nano: W::Number,
    per_unit: W::Number,
    full: W::Number,
    /// The last nanosecond that can be told; the clock stands still there.
    last_nano: u64,
}

impl Level<AtomicU64> {
    /// `None` if 18 years from `now` on do not fit.
    pub(super) fn narrow(flow: &Flow, now: u64) -> Option<Level<AtomicU64>> {
        const ENOUGH: u64 = 1 << 59;
        let full = u64::try_from(flow.full).ok()?;
        let last_nano = (u64::MAX - full) / flow.per_nano;
        (last_nano >= now.saturating_add(ENOUGH)).then(|| Level::over(flow, full, last_nano))
    }
}

impl Level<AtomicU128> {
    pub(super) fn wide(flow: &Flow) -> Level<AtomicU128> {
        Level::over(flow, flow.full, u64::MAX)
    }
}

impl<W: Word> Level<W> {
    fn over(flow: &Flow, full: W::Number, last_nano: u64) -> Level<W> {
        Level {
            full_at: Alone(W::new(0.into())),
            per_nano: flow.per_nano.into(),
            per_unit: flow.per_unit.into(),
            full,
            last_nano,
        }
    }

    /// Takes `units`, at most the capacity, or nothing.
    #[inline]
    pub(super) fn take(&self, units: u64, clock: impl Fn() -> u64) -> bool {
        let cost = self.ticks(units);
        // As much may be missing for `units` to be there.
        let room = self.full - cost;
        loop {
            // In this order: the time is then not later than the decision, and the word is fetched as late as
            // possible, which gives the others less time to change it.
            let now = self.tick(clock());
            let full_at = self.full_at.0.load();
            let missing = full_at.max(now) - now;
            if missing > room {
                // More than everything can be missing, by a clock that lags; nothing fits all the same.
                return units == 0;
            }
            if self.full_at.0.swap_if(full_at, now + missing + cost) {
                return true;
            }
        }
    }

    /// Gives `units`, at most the capacity, back.
    pub(super) fn put_back(&self, units: u64, clock: impl Fn() -> u64) {
        let cost = self.ticks(units);
        loop {
            let now = self.tick(clock());
            let full_at = self.full_at.0.load();
            let missing = full_at.max(now) - now;
            if missing == 0.into() || self.full_at.0.swap_if(full_at, full_at - cost.min(missing)) {
                return;
            }
        }
    }

    pub(super) fn available(&self, clock: impl Fn() -> u64) -> u64 {
        let now = self.tick(clock());
        let full_at = self.full_at.0.load();
        let missing = full_at.max(now) - now;
        let units = (self.full - missing.min(self.full)) / self.per_unit;
        // At most the capacity, which is a u64.
        u64::try_from(units.into()).unwrap_or(u64::MAX)
    }

    /// How long until `units`, at most the capacity, are there.
    pub(super) fn wait_for(&self, units: u64, clock: impl Fn() -> u64) -> Duration {
        let now = self.tick(clock());
        let full_at = self.full_at.0.load();
        let missing = full_at.max(now) - now;
        let room = self.full - self.ticks(units);
        if units == 0 || missing <= room {
            return Duration::ZERO;
        }
        span((missing - room).into().div_ceil(self.per_nano.into()))
    }

    /// The time on the clock, in ticks.
    #[inline]
    fn tick(&self, nano: u64) -> W::Number {
        W::Number::from(nano.min(self.last_nano)) * self.per_nano
    }

    #[inline]
    fn ticks(&self, units: u64) -> W::Number {
        W::Number::from(units) * self.per_unit
    }
}

fn span(nanos: u128) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    match u64::try_from(nanos / SECOND) {
        // The remainder is below 10⁹.
        Ok(seconds) => Duration::new(seconds, (nanos % SECOND) as u32),
        Err(_) => Duration::MAX,
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod races;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn is_narrow(capacity: u64, rate: u64, interval: u64) -> bool {
        Level::narrow(&Flow::new(capacity, rate, interval), 0).is_some()
    }

    #[test]
    fn the_usual_rates_need_one_64_bit_word() {
        for rate in [1, 7, 30, 60, 450, 500, 700, 3_000, 10_000, 200_000, 2_000_000, 30_000_000] {
            assert!(is_narrow(2 * rate, rate, 60 * SECOND), "{rate}/min");
        }
        for rate in [1, 2, 7, 10, 15, 100, 5_000, 1_000_000, SECOND] {
            assert!(is_narrow(2 * rate, rate, SECOND), "{rate}/s");
        }
        assert!(is_narrow(100_000, 1, 86_400 * SECOND), "1/day");
    }

    #[test]
    fn what_64_bits_cannot_hold_exactly_is_held_in_128() {
        assert!(!is_narrow(100, 997, SECOND));
        assert!(!is_narrow(1 << 63, 1, 86_400 * SECOND));
        assert!(!is_narrow(1 << 63, (1 << 63) - 1, 1 << 63));
    }

    #[test]
    fn a_clock_that_is_far_from_its_origin_still_has_its_18_years() {
        // Nanoseconds since the Unix epoch.
        let now = 1_700_000_000 * SECOND;
        assert!(Level::narrow(&Flow::new(10, 1, SECOND), now).is_some());
        assert!(Level::narrow(&Flow::new(10, 13, SECOND), now).is_none());
        assert!(Level::narrow(&Flow::new(10, 13, SECOND), 0).is_some());
    }

    #[test]
    fn a_narrow_clock_that_has_run_out_stands_still_and_grants_nothing_more() {
        let level = Level::narrow(&Flow::new(1, 16, SECOND + 1), 0).unwrap();
        assert!(level.take(1, || u64::MAX - 1));
        assert!(!level.take(1, || u64::MAX));
    }

    #[test]
    fn the_extremes_of_the_wide_word_do_not_overflow() {
        for (rate, interval) in
            [(1 << 63, (1 << 63) - 1), ((1 << 63) - 1, 1 << 63), (1, 1 << 63), (1 << 63, 1)]
        {
            let level = Level::wide(&Flow::new(1 << 63, rate, interval));
            assert!(level.take(1 << 63, || u64::MAX));
            assert!(!level.take(1 << 63, || u64::MAX));
            assert!(!level.take(1, || 0));
            assert!(level.wait_for(1 << 63, || 0) > Duration::ZERO);
            level.put_back(1 << 63, || u64::MAX);
            assert_eq!(level.available(|| u64::MAX), 1 << 63);
        }
    }
}
