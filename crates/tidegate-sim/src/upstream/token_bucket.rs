//! A bucket that refills continuously: up to `burst` at once, N in every W.
//!
//! It counts what is *missing*, in grains: a unit is W grains (W in nanoseconds), and N grains flow in with
//! every nanosecond, so nothing is ever rounded. A call of cost c passes if `missing + c·W ≤ burst·W`; the wait
//! is the difference over N, rounded up to a nanosecond. Over any stretch of d nanoseconds no more than
//! `burst + d·N/W` units pass.
//!
//! What is taken without fitting is missing beyond the bucket's size, and flows in first. Refused calls can
//! take that debt to one bucket at most: a storm of them locks out for as long as a sliding log would, and not
//! for as long as the storm was.

use tidegate_core::{Nanos, Rate, whole_nanos};

use super::meter::Meter;

/// A token bucket.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    units: u64,
    window: u64,
    burst: u64,
    /// Grains missing at `last`.
    missing: u128,
    last: Nanos,
}

impl TokenBucket {
    /// A full bucket.
    #[must_use]
    pub fn new(rate: Rate, burst: u64, now: Nanos) -> TokenBucket {
        TokenBucket { units: rate.units(), window: whole_nanos(rate.window()), burst, missing: 0, last: now }
    }

    fn grains(&self, units: u64) -> u128 {
        u128::from(units) * u128::from(self.window)
    }

    fn missing_at(&self, now: Nanos) -> u128 {
        let passed = now.0.saturating_sub(self.last.0);
        self.missing.saturating_sub(u128::from(passed) * u128::from(self.units))
    }

    fn advance(&mut self, now: Nanos) {
        self.missing = self.missing_at(now);
        self.last = self.last.max(now);
    }

    /// When no more than `left` grains are missing.
    fn falls_to(&self, left: u128, now: Nanos) -> Nanos {
        let over = self.missing_at(now).saturating_sub(left);
        if over == 0 {
            return now;
        }
        let wait = over.div_ceil(u128::from(self.units));
        Nanos(now.0.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX)))
    }
}

impl Meter for TokenBucket {
    fn fits_at(&self, cost: u64, now: Nanos) -> Nanos {
        if cost > self.burst { Nanos::NEVER } else { self.falls_to(self.grains(self.burst - cost), now) }
    }

    fn take(&mut self, cost: u64, now: Nanos) {
        self.advance(now);
        self.missing = self.missing.saturating_add(self.grains(cost));
    }

    fn take_refused(&mut self, cost: u64, now: Nanos) {
        self.advance(now);
        let most = self.missing.max(2 * self.grains(self.burst));
        self.missing = self.missing.saturating_add(self.grains(cost)).min(most);
    }

    fn give_back(&mut self, cost: u64, _taken: Nanos, now: Nanos) -> u64 {
        self.advance(now);
        let back = self.grains(cost).min(self.missing);
        self.missing -= back;
        // Not above the cost, which is a u64. A part of a unit that did not fit is lost, not counted.
        back.div_ceil(u128::from(self.window)) as u64
    }

    fn remaining(&self, now: Nanos) -> u64 {
        let level = self.grains(self.burst).saturating_sub(self.missing_at(now));
        (level / u128::from(self.window)) as u64
    }

    fn full_at(&self, now: Nanos) -> Nanos {
        self.falls_to(0, now)
    }

    fn more_at(&self, now: Nanos) -> Option<Nanos> {
        let remaining = self.remaining(now);
        (remaining < self.burst).then(|| self.fits_at(remaining + 1, now))
    }

    /// Over another window a unit has other grains: then what is missing is rounded up to whole units.
    fn change(&mut self, rate: Rate, burst: u64, now: Nanos) {
        self.advance(now);
        let missing = self.missing.div_ceil(u128::from(self.window));
        let window = whole_nanos(rate.window());
        if window != self.window {
            self.missing = missing.saturating_mul(u128::from(window));
        }
        (self.units, self.window, self.burst) = (rate.units(), window, burst);
    }
}
