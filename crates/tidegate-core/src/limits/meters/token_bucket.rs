//! The token bucket: up to `capacity` at once, refilled continuously at N per W.
//!
//! What is missing from a full bucket is counted in *grains*: one unit is W grains (W in nanoseconds) and N
//! grains flow in every nanosecond, both divided by what they have in common. They are whole numbers, so
//! nothing is ever rounded away: after 10⁹ refills the level is what one refill over the whole time would have
//! made it, a rate of 1/day refills by one grain a nanosecond, and 10⁹/s by a whole unit.
//!
//! The rates that people write have much in common with W: at 500/min a unit is 120,000,000 grains of which one
//! flows in a nanosecond. Then 64 bits hold everything that most calls need, and `try_take_quickly` never leaves
//! them. It decides only if no product or sum on its way overflows, so it is exact; a *lid* tells it in one comparison
//! that the bucket is not full and that nothing is missing that 64 bits could not hold. Else 128 bits decide: they
//! hold the largest bucket, 2⁶³ units × 31 days ≈ 2¹¹⁵ grains, with room for thousands of debts of that size, and
//! beyond that saturate.
//!
//! More may be missing than the bucket holds: that is debt, and refilling pays it first. Debt is bounded. When a lower N brings
//! it above its bound, the rest is *forgiven*; calls that took it may still be in flight, so what they give back counts against
//! what was forgiven first, until the bucket is full.

use std::time::Duration;

use crate::limits::meters::MOST_DEBT;
use crate::model::rate::Rate;
use crate::model::time::{Nanos, whole_nanos};

/// A token bucket.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Grains missing at `last`, and how many times 2⁶⁴ more. Two halves, since a `u128` would have every limit
    /// aligned and padded to sixteen bytes.
    missing: u64,
    last: Nanos,
    /// What may be missing stays below this as long as 64 bits decide: a grain more than a full bucket has, or more than
    /// `FEW` if it has more, or none if more than that is missing already.
    lid: u64,
    /// Grains of a unit.
    unit: u64,
    /// Grains that flow in a nanosecond.
    flow: u64,
    capacity: u64,
    /// What N and W were divided by.
    divisor: u64,
    missing_high: u64,
    /// Units that were forgiven, and until when refunds count against them.
    forgiven: u64,
    forgiven_until: Nanos,
}

/// So many grains and the largest product that a call is let through with are less than 2⁶⁴ together.
const FEW: u64 = 1 << 62;

impl Bucket {
    /// A full bucket of `capacity`, refilled at `rate`.
    #[must_use]
    pub fn full(rate: Rate, capacity: u64, now: Nanos) -> Bucket {
        let window = whole_nanos(rate.window());
        Bucket::divided(rate, capacity, now, common(rate.units(), window.into()))
    }

    fn divided(rate: Rate, capacity: u64, now: Nanos, divisor: u64) -> Bucket {
        let (unit, flow) = (whole_nanos(rate.window()) / divisor, rate.units() / divisor);
        let lid = lid(capacity, unit);
        Bucket {
            missing: 0,
            missing_high: 0,
            last: now,
            capacity,
            lid,
            unit,
            flow,
            divisor,
            forgiven: 0,
            forgiven_until: Nanos::ZERO,
        }
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
    pub fn try_take(&mut self, cost: u64, withheld: u64, now: Nanos) -> bool {
        self.advance(now);
        let fits = self.fits(cost, withheld, now);
        if fits {
            self.take(cost, now);
        }
        fits
    }

    /// As a pacer: spends `cost` if that much has flowed in, or if it is full.
    pub(super) fn try_pace(&mut self, cost: u64, now: Nanos) -> bool {
        self.advance(now);
        let fits = self.fits(cost.min(self.capacity), 0, now);
        if fits {
            self.take(cost, now);
        }
        fits
    }

    /// Spends `cost`, which is at most 2⁶³, if it fits now and 64 bits are enough to see that. If it says no, it has
    /// changed nothing, and `cost` may fit all the same.
    #[inline(always)]
    pub(super) fn try_take_quickly(&mut self, cost: u64, now: Nanos) -> bool {
        match self.missing_after(cost, now) {
            Some(missing) if missing < self.lid => {
                (self.missing, self.last) = (missing, now);
                true
            }
            _ => false,
        }
    }

    /// Grains missing once `cost` is taken now, if all on the way to it fits into 64 bits and time has not gone
    /// backwards.
    ///
    /// Products of signed numbers, since the processor says at once whether those overflow. One that does not and is
    /// negative has a factor of 2⁶³ or more, and stands for at least 2⁶³ when it is read without its sign: then all has
    /// flowed back, or more is needed than under any lid. The sum is below 2⁶⁴ where there is a lid: at most `FEW` and
    /// 2⁶³.
    #[inline(always)]
    fn missing_after(&self, cost: u64, now: Nanos) -> Option<u64> {
        debug_assert!(cost <= 1 << 63);
        let passed = now.0.checked_sub(self.last.0)? as i64;
        let flowed = passed.checked_mul(self.flow as i64)? as u64;
        let taken = (cost as i64).checked_mul(self.unit as i64)? as u64;
        Some(self.missing.saturating_sub(flowed).wrapping_add(taken))
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
    pub fn take(&mut self, cost: u64, now: Nanos) {
        self.advance(now);
        self.set_missing(self.missing().saturating_add(self.grains(cost)));
    }

    /// Charges `units` up to the bound on debt. Returns how many count.
    pub fn charge(&mut self, units: u64, now: Nanos) -> u64 {
        let counted = units.min(self.most_used().saturating_sub(self.used(now)));
        self.take(counted, now);
        counted
    }

    /// Drops debt above the bound.
    pub fn bound_debt(&mut self, now: Nanos) {
        self.advance(now);
        self.set_missing(self.missing().min(self.grains(self.most_used())));
    }

    /// Fills the bucket.
    pub fn reset(&mut self, now: Nanos) {
        self.advance(now);
        self.set_missing(0);
        self.forgiven = 0;
    }

    /// Gives `units` back, never above capacity.
    pub fn refund(&mut self, units: u64, now: Nanos) {
        self.advance(now);
        let forgiven = if now < self.forgiven_until { units.min(self.forgiven) } else { 0 };
        self.forgiven -= forgiven;
        self.set_missing(self.missing().saturating_sub(self.grains(units - forgiven)));
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
        let forgiven = if now < self.forgiven_until { self.forgiven } else { 0 };
        *self = Bucket { forgiven, forgiven_until: self.forgiven_until, ..changed };
        self.set_missing(missing);
        let above = self.used(now).saturating_sub(self.most_used());
        if above > 0 {
            self.bound_debt(now);
            self.forgiven = forgiven.saturating_add(above);
            self.forgiven_until = self.forgiven_until.max(self.full_at());
        }
    }

    /// What is missing, in grains of which a unit has W, and when that was.
    pub(crate) fn spent(&self) -> (u128, Nanos) {
        (self.missing().saturating_mul(self.divisor.into()), self.last)
    }

    /// A bucket of which so much was missing then, as [`Bucket::spent`] has it.
    pub(crate) fn restore(&mut self, missing: u128, last: Nanos) {
        let window = self.unit * self.divisor;
        let divisor = common(common(self.flow * self.divisor, window.into()), missing);
        (self.flow, self.unit) = (self.flow * self.divisor / divisor, window / divisor);
        self.divisor = divisor;
        self.lid = lid(self.capacity, self.unit);
        self.set_missing(missing / u128::from(divisor));
        self.last = last;
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
        if missing > u128::from(FEW) {
            self.lid = 0;
        } else if self.lid == 0 {
            self.lid = lid(self.capacity, self.unit);
        }
    }

    /// Units that may be missing at most: all, and the bound on debt.
    fn most_used(&self) -> u64 {
        // N is at most 2^63.
        self.capacity.saturating_add((self.flow * self.divisor).saturating_mul(MOST_DEBT))
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

/// A grain more than a full bucket has, if those are few.
fn lid(capacity: u64, unit: u64) -> u64 {
    capacity.saturating_mul(unit).min(FEW) + 1
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
        fn what_64_bits_let_go_128_bits_let_go_to_the_same_level(
            (units, window, capacity) in (amounts(), windows(), amounts()),
            steps in prop::collection::vec((0..4_u8, amounts(), amounts()), 1..40),
        ) {
            let rate = Rate::new(units, Duration::from_nanos(window)).expect("a rate in range");
            let mut short = Bucket::full(rate, capacity, Nanos::ZERO);
            let mut long = short.clone();
            let mut now = Nanos::ZERO;
            for (step, amount, wait) in steps {
                // A time may also lie before the last one.
                let stamp = if wait % 5 == 0 { Nanos(now.0.saturating_sub(wait)) } else { now };
                let before = (short.missing(), short.last);
                match step {
                    0 if short.try_take_quickly(amount, stamp) => {
                        prop_assert!(long.clone().try_pace(amount, stamp));
                        prop_assert!(long.try_take(amount, 0, stamp));
                    }
                    0 => prop_assert_eq!((short.missing(), short.last), before, "it said no"),
                    1 => {
                        short.take(amount, stamp);
                        long.take(amount, stamp);
                    }
                    2 => {
                        short.refund(amount, stamp);
                        long.refund(amount, stamp);
                    }
                    _ => now = Nanos(now.0.saturating_add(wait)),
                }
                prop_assert_eq!((short.missing(), short.last), (long.missing(), long.last));
            }
        }
    }

    /// Up to the last of a few grains; from there on it leaves the decision to 128 bits.
    #[test]
    fn sixty_four_bits_decide_as_long_as_they_can() {
        // One grain flows in a nanosecond, and a unit has a million and three of them.
        let rate = Rate::new(1, Duration::from_nanos(1_000_003)).expect("a rate in range");
        let most = FEW / 1_000_003;
        let fresh = |capacity| Bucket::full(rate, capacity, Nanos::ZERO);
        assert!(fresh(most).try_take_quickly(most, Nanos::ZERO));
        assert!(fresh(1 << 63).try_take_quickly(most, Nanos::ZERO));
        let mut bucket = fresh(1 << 63);
        assert!(!bucket.try_take_quickly(most + 1, Nanos::ZERO) && bucket.try_take(most + 1, 0, Nanos::ZERO));
        assert!(bucket.missing > FEW && !bucket.try_take_quickly(1, Nanos(5)));
        assert!(bucket.try_take(1, 0, Nanos(5)));
        // Two units have flowed back, and what is missing are few again.
        bucket.take(0, Nanos(2_000_006));
        assert!(bucket.missing <= FEW && !bucket.try_take_quickly(1, Nanos(2_000_005)), "time went back");
        bucket.refund(1, Nanos(2_000_006));
        assert!(bucket.try_take_quickly(1, Nanos(2_000_006)));
        bucket.take(1 << 63, Nanos(2_000_006));
        assert!(bucket.missing_high > 0 && !bucket.try_take_quickly(0, Nanos(2_000_006)));
        assert!(!fresh(1 << 63).try_take_quickly(1 << 63, Nanos::ZERO));
        // All has flowed back since the beginning of time, and as much again.
        let mut bucket = fresh(most);
        bucket.take(most, Nanos::ZERO);
        assert!(bucket.try_take_quickly(most, Nanos(u64::MAX - 1)));
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
