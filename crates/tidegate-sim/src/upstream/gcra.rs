//! The generic cell rate algorithm: one unit every T = W/N, `burst` of them at once.
//!
//! It keeps one time, the theoretical arrival time (TAT): when the next unit would be due if all came exactly
//! on time. A call of cost c at t passes if `max(TAT, t) + c·T ≤ t + burst·T`, and the left side becomes the
//! new TAT. T is seldom a whole number of nanoseconds, so the TAT is counted in N-ths of one, where T is W
//! exactly.
//!
//! What it lets through is what a [token bucket](super::TokenBucket) of the same size lets through; the two
//! are written apart, and a test holds them against each other.

use tidegate_core::{Nanos, Rate, whole_nanos};

use super::meter::Meter;

/// A theoretical arrival time.
#[derive(Clone, Debug)]
pub struct Gcra {
    units: u64,
    window: u64,
    burst: u64,
    /// In N-ths of a nanosecond.
    tat: u128,
}

impl Gcra {
    /// Nothing is due yet.
    #[must_use]
    pub fn new(rate: Rate, burst: u64) -> Gcra {
        Gcra { units: rate.units(), window: whole_nanos(rate.window()), burst, tat: 0 }
    }

    /// A time in N-ths of a nanosecond.
    fn fine(&self, time: Nanos) -> u128 {
        u128::from(time.0) * u128::from(self.units)
    }

    /// How long so many units take, in N-ths of a nanosecond.
    fn lasts(&self, units: u64) -> u128 {
        u128::from(units) * u128::from(self.window)
    }

    /// The first whole nanosecond that is not before a fine time.
    fn whole(&self, fine: u128) -> Nanos {
        Nanos(u64::try_from(fine.div_ceil(u128::from(self.units))).unwrap_or(u64::MAX))
    }

    fn tat_at(&self, now: Nanos) -> u128 {
        self.tat.max(self.fine(now))
    }
}

impl Meter for Gcra {
    fn fits_at(&self, cost: u64, now: Nanos) -> Nanos {
        if cost > self.burst {
            return Nanos::NEVER;
        }
        let tolerance = self.lasts(self.burst - cost);
        if self.tat <= self.fine(now) + tolerance {
            return now;
        }
        self.whole(self.tat - tolerance)
    }

    fn take(&mut self, cost: u64, now: Nanos) {
        self.tat = self.tat_at(now).saturating_add(self.lasts(cost));
    }

    /// At most two bursts ahead: a storm of refused calls locks out for as long as one burst takes.
    fn take_refused(&mut self, cost: u64, now: Nanos) {
        let tat = self.tat_at(now);
        let most = tat.max(self.fine(now).saturating_add(2 * self.lasts(self.burst)));
        self.tat = tat.saturating_add(self.lasts(cost)).min(most);
    }

    fn give_back(&mut self, cost: u64, _taken: Nanos, now: Nanos) -> u64 {
        let tat = self.tat_at(now);
        let back = self.lasts(cost).min(tat - self.fine(now));
        self.tat = tat - back;
        back.div_ceil(u128::from(self.window)) as u64
    }

    fn remaining(&self, now: Nanos) -> u64 {
        let ahead = self.tat_at(now) - self.fine(now);
        (self.lasts(self.burst).saturating_sub(ahead) / u128::from(self.window)) as u64
    }

    fn full_at(&self, now: Nanos) -> Nanos {
        self.whole(self.tat).max(now)
    }

    fn more_at(&self, now: Nanos) -> Option<Nanos> {
        let remaining = self.remaining(now);
        (remaining < self.burst).then(|| self.fits_at(remaining + 1, now))
    }

    /// The units that the TAT is ahead stay the same, rounded up where the window changes.
    fn change(&mut self, rate: Rate, burst: u64, now: Nanos) {
        let mut ahead = self.tat_at(now) - self.fine(now);
        let window = whole_nanos(rate.window());
        if window != self.window {
            ahead = ahead.div_ceil(u128::from(self.window)).saturating_mul(u128::from(window));
        }
        (self.units, self.window, self.burst) = (rate.units(), window, burst);
        self.tat = self.fine(now).saturating_add(ahead);
    }
}
