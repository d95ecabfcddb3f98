//! The token bucket: up to `capacity` at once, refilled continuously at N per W.
//!
//! The level is counted in *grains*: one unit is W grains (W in nanoseconds) and N grains flow in every
//! nanosecond. Both are whole numbers, so nothing is ever rounded away: after 10⁹ refills the level is what
//! one refill over the whole time would have made it, a rate of 1/day refills by one grain a nanosecond, and
//! 10⁹/s by a whole unit. The largest level is 2⁶³ units × 31 days ≈ 2¹¹⁵ grains, which an `i128` holds with
//! room for thousands of debts of the largest size; beyond that it saturates.
//!
//! The level may be negative: that is debt, and refilling pays it first.

use std::time::Duration;

use crate::rate::Rate;
use crate::time::{Nanos, whole_nanos};

/// A token bucket.
#[derive(Clone, Debug)]
pub struct Bucket {
    level: i128,
    last: Nanos,
    capacity: u64,
    units: u64,
    window: u64,
}

impl Bucket {
    /// A full bucket of `capacity`, refilled at `rate`.
    #[must_use]
    pub fn full(rate: Rate, capacity: u64, now: Nanos) -> Bucket {
        let window = whole_nanos(rate.window());
        Bucket { level: grains(capacity, window), last: now, capacity, units: rate.units(), window }
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
        self.level_at(now) >= self.need(cost, withheld)
    }

    /// When `cost` could go.
    #[must_use]
    pub fn earliest(&self, cost: u64, withheld: u64) -> Nanos {
        if cost.saturating_add(withheld) > self.capacity {
            return Nanos::NEVER;
        }
        self.reaches(self.need(cost, withheld))
    }

    /// The largest cost that fits now.
    #[must_use]
    pub fn room(&self, withheld: u64, now: Nanos) -> u64 {
        self.whole_units(self.level_at(now).saturating_sub(grains(withheld, self.window)))
    }

    /// How much may be taken now without moving a booking of `cost` at `at`.
    #[must_use]
    pub fn spare(&self, now: Nanos, cost: u64, withheld: u64, at: Nanos) -> u64 {
        let flow = i128::try_from(u128::from(at.0.saturating_sub(now.0)) * u128::from(self.units))
            .unwrap_or(i128::MAX);
        self.whole_units(self.level_at(now).saturating_add(flow).saturating_sub(self.need(cost, withheld)))
    }

    /// Spends `cost`, into debt if there is not enough. A time before the last one counts as the last one.
    #[inline]
    pub fn take(&mut self, cost: u64, now: Nanos) {
        self.advance(now);
        self.level = self.level.saturating_sub(grains(cost, self.window));
    }

    /// Gives `units` back, never above capacity.
    pub fn refund(&mut self, units: u64, now: Nanos) {
        self.advance(now);
        let full = grains(self.capacity, self.window);
        self.level = self.level.saturating_add(grains(units, self.window)).min(full);
    }

    /// Units missing from a full bucket, debt included, rounded up.
    #[must_use]
    pub fn used(&self, now: Nanos) -> u64 {
        let missing = grains(self.capacity, self.window).saturating_sub(self.level_at(now));
        u64::try_from(missing.unsigned_abs().div_ceil(u128::from(self.window))).unwrap_or(u64::MAX)
    }

    /// When the bucket is full again.
    #[must_use]
    pub fn full_at(&self) -> Nanos {
        self.reaches(grains(self.capacity, self.window))
    }

    /// When `units` in all have been let through, however many that are.
    #[must_use]
    pub fn flows_by(&self, units: u128, withheld: u64, now: Nanos) -> Nanos {
        let need = units.saturating_add(u128::from(withheld)).saturating_mul(u128::from(self.window));
        self.reaches(i128::try_from(need).unwrap_or(i128::MAX)).max(now)
    }

    /// Changes rate and capacity, keeping what is spent.
    pub fn change(&mut self, rate: Rate, capacity: u64, now: Nanos) {
        let missing = grains(self.capacity, self.window).saturating_sub(self.level_at(now));
        let fresh = Bucket::full(rate, capacity, now);
        // Over another window a unit has other grains: then what is spent is rounded up to whole units.
        let missing = match fresh.window == self.window {
            true => missing,
            false => grains(self.used(now), fresh.window),
        };
        *self = Bucket { level: fresh.level.saturating_sub(missing), ..fresh };
    }

    fn advance(&mut self, now: Nanos) {
        if now > self.last {
            self.level = self.level_at(now);
            self.last = now;
        }
    }

    #[inline]
    fn level_at(&self, now: Nanos) -> i128 {
        let full = grains(self.capacity, self.window);
        let elapsed = now.0.saturating_sub(self.last.0);
        // Below 2^127 since units ≤ 2^63: only the sum needs care.
        let flow = i128::try_from(u128::from(elapsed) * u128::from(self.units)).unwrap_or(i128::MAX);
        self.level.saturating_add(flow).min(full)
    }

    fn need(&self, cost: u64, withheld: u64) -> i128 {
        grains(cost, self.window) + grains(withheld, self.window)
    }

    /// The first nanosecond at which the level is at least `target`.
    fn reaches(&self, target: i128) -> Nanos {
        if self.level >= target {
            return self.last;
        }
        let wait = target.saturating_sub(self.level).unsigned_abs().div_ceil(u128::from(self.units));
        self.last.after(Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    fn whole_units(&self, level: i128) -> u64 {
        if level <= 0 {
            return 0;
        }
        u64::try_from(level.unsigned_abs() / u128::from(self.window)).unwrap_or(u64::MAX)
    }
}

fn grains(units: u64, window: u64) -> i128 {
    // At most 2^64 × 2^52: far below 2^127.
    (u128::from(units) * u128::from(window)) as i128
}
