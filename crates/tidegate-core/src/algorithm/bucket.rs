//! The token bucket: up to `capacity` at once, refilled continuously at N per W.
//!
//! What is missing from a full bucket is counted in *grains*: one unit is W grains (W in nanoseconds) and N
//! grains flow in every nanosecond, both divided by what they have in common. They are whole numbers, so
//! nothing is ever rounded away: after 10⁹ refills the level is what one refill over the whole time would have
//! made it, a rate of 1/day refills by one grain a nanosecond, and 10⁹/s by a whole unit.
//!
//! The rates that people write have much in common with W: at 500/min a unit is 120,000,000 grains of which one
//! flows in a nanosecond. Then 64 bits hold everything that a call needs, and the short way through
//! [`Bucket::try_take`] never leaves them. It is taken whenever no product or sum on it overflows, so it is exact;
//! else 128 bits decide: they hold the largest bucket, 2⁶³ units × 31 days ≈ 2¹¹⁵ grains, with room for
//! thousands of debts of that size, and beyond that saturate.
//!
//! More may be missing than the bucket holds: that is debt, and refilling pays it first.

use std::time::Duration;

use crate::rate::Rate;
use crate::time::{Nanos, whole_nanos};

/// A token bucket.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Grains missing at `last`, and how many times 2⁶⁴ more. Two halves, since a `u128` would have every limit
    /// aligned and padded to sixteen bytes.
    missing: u64,
    missing_high: u64,
    last: Nanos,
    capacity: u64,
    /// Grains of a full bucket, or 2⁶⁴ − 1 if they are more.
    brim: u64,
    /// Grains of a unit.
    unit: u64,
    /// Grains that flow in a nanosecond.
    flow: u64,
    /// What N and W were divided by.
    divisor: u64,
}

impl Bucket {
    /// A full bucket of `capacity`, refilled at `rate`.
    #[must_use]
    pub fn full(rate: Rate, capacity: u64, now: Nanos) -> Bucket {
        let window = whole_nanos(rate.window());
        Bucket::divided(rate, capacity, now, common(rate.units(), window.into()))
    }

    fn divided(rate: Rate, capacity: u64, now: Nanos, divisor: u64) -> Bucket {
        let (unit, flow) = (whole_nanos(rate.window()) / divisor, rate.units() / divisor);
        let brim = capacity.saturating_mul(unit);
        Bucket { missing: 0, missing_high: 0, last: now, capacity, brim, unit, flow, divisor }
    }

    /// What one call may take at most.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Whether `cost` may go now.
    #[inline]
    #[must_use]
    pub fn fits(&self, cost: u64, withheld: u64, now: Nanos) -> bool {
        self.missing_at(now).saturating_add(self.need(cost, withheld)) <= self.brimful()
    }

    /// Spends `cost` if it fits now.
    #[inline]
    pub fn try_take(&mut self, cost: u64, withheld: u64, now: Nanos) -> bool {
        match self.short(cost, now) {
            Some((_, after)) if withheld == 0 && after <= self.brim => self.leave(after, now),
            _ => self.try_take_long(cost, withheld, now),
        }
    }

    /// As a pacer: spends `cost` if that much has flowed in, or if it is full.
    #[inline]
    pub(super) fn try_pace(&mut self, cost: u64, now: Nanos) -> bool {
        match self.short(cost, now) {
            Some((missing, after)) if after <= self.brim || missing == 0 => self.leave(after, now),
            _ => self.try_pace_long(cost, now),
        }
    }

    /// Grains missing now, and after `cost` was taken, if all of it happens within 64 bits and time has not gone
    /// backwards.
    #[inline(always)]
    fn short(&self, cost: u64, now: Nanos) -> Option<(u64, u64)> {
        if self.missing_high > 0 {
            return None;
        }
        let flowed = now.0.checked_sub(self.last.0)?.checked_mul(self.flow)?;
        let missing = self.missing.saturating_sub(flowed);
        Some((missing, missing.checked_add(cost.checked_mul(self.unit)?)?))
    }

    /// The end of the short way: so many grains are missing now.
    #[inline(always)]
    fn leave(&mut self, missing: u64, now: Nanos) -> bool {
        (self.missing, self.last) = (missing, now);
        true
    }

    #[cold]
    fn try_take_long(&mut self, cost: u64, withheld: u64, now: Nanos) -> bool {
        self.advance(now);
        let fits = self.fits(cost, withheld, now);
        if fits {
            self.take_long(cost, now);
        }
        fits
    }

    #[cold]
    fn try_pace_long(&mut self, cost: u64, now: Nanos) -> bool {
        self.advance(now);
        let fits = self.fits(cost.min(self.capacity), 0, now);
        if fits {
            self.take_long(cost, now);
        }
        fits
    }

    /// When `cost` could go.
    #[must_use]
    pub fn earliest(&self, cost: u64, withheld: u64) -> Nanos {
        if cost.saturating_add(withheld) > self.capacity {
            return Nanos::NEVER;
        }
        self.holds(self.need(cost, withheld))
    }

    /// The largest cost that fits now.
    #[must_use]
    pub fn room(&self, withheld: u64, now: Nanos) -> u64 {
        let held = self.brimful().saturating_sub(self.missing_at(now));
        self.whole_units(held.saturating_sub(self.grains(withheld)))
    }

    /// How much may be taken now without moving a booking of `cost` at `at`.
    #[must_use]
    pub fn spare(&self, now: Nanos, cost: u64, withheld: u64, at: Nanos) -> u64 {
        // Below 2^128 together: each is below 2^127.
        let flow = u128::from(at.0.saturating_sub(now.0)) * u128::from(self.flow);
        let spoken_for = self.missing_at(now).saturating_add(self.need(cost, withheld));
        self.whole_units((self.brimful() + flow).saturating_sub(spoken_for))
    }

    /// Spends `cost`, into debt if there is not enough. A time before the last one counts as the last one.
    #[inline]
    pub fn take(&mut self, cost: u64, now: Nanos) {
        match self.short(cost, now) {
            Some((_, after)) => {
                self.leave(after, now);
            }
            None => self.take_long(cost, now),
        }
    }

    #[cold]
    fn take_long(&mut self, cost: u64, now: Nanos) {
        self.advance(now);
        self.set_missing(self.missing().saturating_add(self.grains(cost)));
    }

    /// Gives `units` back, never above capacity.
    pub fn refund(&mut self, units: u64, now: Nanos) {
        self.advance(now);
        self.set_missing(self.missing().saturating_sub(self.grains(units)));
    }

    /// Units missing from a full bucket, debt included, rounded up.
    #[must_use]
    pub fn used(&self, now: Nanos) -> u64 {
        u64::try_from(self.missing_at(now).div_ceil(self.unit.into())).unwrap_or(u64::MAX)
    }

    /// When the bucket is full again.
    #[must_use]
    pub fn full_at(&self) -> Nanos {
        self.holds(self.brimful())
    }

    /// When `units` in all have been let through, however many that are.
    #[must_use]
    pub fn flows_by(&self, units: u128, withheld: u64, now: Nanos) -> Nanos {
        let need = units.saturating_add(u128::from(withheld)).saturating_mul(u128::from(self.unit));
        self.holds(need).max(now)
    }

    /// Changes rate and capacity, keeping what is spent.
    pub fn change(&mut self, rate: Rate, capacity: u64, now: Nanos) {
        let fresh = Bucket::full(rate, capacity, now);
        let same_window = fresh.unit * fresh.divisor == self.unit * self.divisor;
        let (changed, missing) = if same_window {
            // What is missing may not be a multiple of what the new N has in common with W.
            let undivided = self.missing_at(now).saturating_mul(self.divisor.into());
            let divisor = common(fresh.divisor, undivided);
            (Bucket::divided(rate, capacity, now, divisor), undivided / u128::from(divisor))
        } else {
            // Over another window a unit has other grains: what is spent is rounded up to whole units.
            let missing = fresh.grains(self.used(now));
            (fresh, missing)
        };
        *self = changed;
        self.set_missing(missing);
    }

    fn advance(&mut self, now: Nanos) {
        self.set_missing(self.missing_at(now));
        self.last = self.last.max(now);
    }

    #[inline]
    fn missing_at(&self, now: Nanos) -> u128 {
        // Below 2^127 since units ≤ 2^63.
        let flowed = u128::from(now.0.saturating_sub(self.last.0)) * u128::from(self.flow);
        self.missing().saturating_sub(flowed)
    }

    fn missing(&self) -> u128 {
        u128::from(self.missing_high) << 64 | u128::from(self.missing)
    }

    fn set_missing(&mut self, missing: u128) {
        (self.missing_high, self.missing) = ((missing >> 64) as u64, missing as u64);
    }

    /// Grains of a full bucket.
    fn brimful(&self) -> u128 {
        self.grains(self.capacity)
    }

    fn grains(&self, units: u64) -> u128 {
        // At most 2^64 × 2^52: far below 2^127.
        u128::from(units) * u128::from(self.unit)
    }

    #[inline]
    fn need(&self, cost: u64, withheld: u64) -> u128 {
        self.grains(cost) + self.grains(withheld)
    }

    /// The first nanosecond at which the bucket holds so many grains, if it could hold as many.
    fn holds(&self, grains: u128) -> Nanos {
        match self.missing().saturating_add(grains).saturating_sub(self.brimful()) {
            0 => self.last,
            lacking => {
                let wait = u64::try_from(lacking.div_ceil(self.flow.into())).unwrap_or(u64::MAX);
                self.last.after(Duration::from_nanos(wait))
            }
        }
    }

    fn whole_units(&self, grains: u128) -> u64 {
        u64::try_from(grains / u128::from(self.unit)).unwrap_or(u64::MAX)
    }
}

/// The greatest common divisor; that of a number and nothing is the number.
fn common(number: u64, other: u128) -> u64 {
    let (mut number, mut rest) = (number, (other % u128::from(number)) as u64);
    while rest > 0 {
        (number, rest) = (rest, number % rest);
    }
    number
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// Half of them in the millions, half about where a product with a window stops to fit into 64 bits.
    fn amounts() -> impl Strategy<Value = u64> {
        prop_oneof![
            1_u64..2_000_000,
            (0_u32..64, 0_u64..4).prop_map(|(bits, more)| (1_u64 << bits).saturating_add(more)),
            (1_u64..1 << 40, 0_u64..4).prop_map(|(window, more)| u64::MAX / window - 1 + more.min(window)),
        ]
        .prop_map(|units| units.clamp(1, 1 << 63))
    }

    fn windows() -> impl Strategy<Value = u64> {
        prop_oneof![
            select(vec![1_000_000, 1_000_003, 60_000_000_000, 86_400_000_000_000, 31 * 86_400_000_000_000]),
            1_000_000_u64..=31 * 86_400_000_000_000,
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

        #[test]
        fn sixty_four_bits_decide_as_a_hundred_and_twenty_eight_do(
            (units, window, capacity) in (amounts(), windows(), amounts()),
            steps in prop::collection::vec((0..4_u8, amounts(), amounts(), amounts()), 1..40),
        ) {
            let rate = Rate::new(units, Duration::from_nanos(window)).expect("a rate in range");
            let mut short = Bucket::full(rate, capacity, Nanos::ZERO);
            let mut long = short.clone();
            let mut now = Nanos::ZERO;
            for (step, amount, withheld, wait) in steps {
                // A time may also lie before the last one.
                let stamp = if wait % 5 == 0 { Nanos(now.0.saturating_sub(wait)) } else { now };
                match step {
                    0 => prop_assert_eq!(short.try_pace(amount, stamp), long.try_pace_long(amount, stamp)),
                    1 => {
                        let withheld = if wait % 2 == 0 { withheld } else { 0 };
                        let taken = long.try_take_long(amount, withheld, stamp);
                        prop_assert_eq!(short.try_take(amount, withheld, stamp), taken);
                    }
                    2 => {
                        short.take(amount, stamp);
                        long.take_long(amount, stamp);
                    }
                    _ => now = Nanos(now.0.saturating_add(wait)),
                }
                prop_assert_eq!((short.missing(), short.last), (long.missing(), long.last));
            }
        }
    }

    #[test]
    fn what_n_and_w_have_in_common_is_divided_out() {
        let rate = Rate::new(500, Duration::from_secs(60)).expect("a rate in range");
        let bucket = Bucket::full(rate, 4, Nanos::ZERO);
        assert_eq!((bucket.unit, bucket.flow, bucket.divisor), (120_000_000, 1, 500));
    }

    /// A third of a unit is no whole number of the coarser grains that the new rate alone would have.
    #[test]
    fn a_change_of_rate_loses_no_grain() {
        let minute = Duration::from_secs(60);
        let mut bucket = Bucket::full(Rate::new(7, minute).expect("a rate in range"), 1, Nanos::ZERO);
        bucket.take(1, Nanos::ZERO);
        let missing = bucket.missing_at(Nanos(1));
        bucket.change(Rate::new(600_000, minute).expect("a rate in range"), 1, Nanos(1));
        assert_eq!(bucket.missing() * u128::from(bucket.divisor), missing);
        bucket.change(Rate::new(7, minute).expect("a rate in range"), 1, Nanos(1));
        assert_eq!(bucket.missing(), missing);
    }
}
