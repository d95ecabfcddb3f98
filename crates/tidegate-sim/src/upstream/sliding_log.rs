//! N in any window, to the nanosecond.
//!
//! What was counted at time a counts in `[a, a + W)`: a call of cost c at t passes if c and all that was
//! counted in `(t − W, t]` are N at most. So no half-open stretch of W ever holds more than N. The log keeps
//! what is inside the window and nothing else, and one entry for everything that came in one nanosecond.

use std::collections::VecDeque;

use tidegate_core::{Nanos, Rate, whole_nanos};

use super::meter::Meter;

/// A log of all that counts.
#[derive(Clone, Debug)]
pub struct SlidingLog {
    units: u64,
    window: u64,
    /// When, and how much; the oldest first.
    log: VecDeque<(Nanos, u64)>,
    /// The sum over the log. Wider than a unit count, since what does not fit may be logged as well.
    sum: u128,
}

impl SlidingLog {
    /// An empty log.
    #[must_use]
    pub fn new(rate: Rate) -> SlidingLog {
        SlidingLog { units: rate.units(), window: whole_nanos(rate.window()), log: VecDeque::new(), sum: 0 }
    }

    /// Entries that it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.log.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    fn ends(&self, at: Nanos) -> Nanos {
        Nanos(at.0.saturating_add(self.window))
    }

    fn advance(&mut self, now: Nanos) {
        while let Some((at, units)) = self.log.front().copied()
            && self.ends(at) <= now
        {
            self.log.pop_front();
            self.sum -= u128::from(units);
        }
    }

    /// The sum of what still counts at `now`.
    fn counted(&self, now: Nanos) -> u128 {
        let gone = self.log.iter().take_while(|(at, _)| self.ends(*at) <= now);
        self.sum - gone.map(|(_, units)| u128::from(*units)).sum::<u128>()
    }
}

impl Meter for SlidingLog {
    fn fits_at(&self, cost: u64, now: Nanos) -> Nanos {
        if cost > self.units {
            return Nanos::NEVER;
        }
        let allowed = u128::from(self.units - cost);
        let mut counted = self.sum;
        let mut from = now;
        for (at, units) in &self.log {
            if counted <= allowed {
                break;
            }
            counted -= u128::from(*units);
            from = from.max(self.ends(*at));
        }
        from
    }

    fn take(&mut self, cost: u64, now: Nanos) {
        self.advance(now);
        if cost == 0 {
            return;
        }
        self.sum += u128::from(cost);
        match self.log.back_mut() {
            Some((at, units)) if *at == now && units.checked_add(cost).is_some() => *units += cost,
            _ => self.log.push_back((now, cost)),
        }
    }

    fn give_back(&mut self, cost: u64, taken: Nanos, now: Nanos) -> u64 {
        self.advance(now);
        let place = self.log.partition_point(|(at, _)| *at < taken);
        let Some((at, units)) = self.log.get_mut(place) else { return 0 };
        if *at != taken {
            return 0;
        }
        let back = cost.min(*units);
        *units -= back;
        self.sum -= u128::from(back);
        back
    }

    fn remaining(&self, now: Nanos) -> u64 {
        // Not above N, which is a u64.
        u128::from(self.units).saturating_sub(self.counted(now)) as u64
    }

    fn full_at(&self, now: Nanos) -> Nanos {
        self.log.back().map_or(now, |(at, _)| self.ends(*at).max(now))
    }

    fn more_at(&self, now: Nanos) -> Option<Nanos> {
        // Where more is counted than allowed, the first to go may not be enough.
        let remaining = self.remaining(now);
        (remaining < self.units).then(|| self.fits_at(remaining + 1, now))
    }

    /// What it has forgotten does not come back when the window grows.
    fn change(&mut self, rate: Rate, _burst: u64, now: Nanos) {
        self.advance(now);
        self.units = rate.units();
        self.window = whole_nanos(rate.window());
    }
}
