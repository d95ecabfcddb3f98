//! N in each window; the windows follow each other from the start.
//!
//! With windows `[s, s + W)`, `[s + W, s + 2W)`, … a call of cost c at time t passes if c and what was counted
//! in t's window are N at most. At a window's end everything is forgotten, what was counted above N included.

use tidegate_core::{Nanos, Rate, whole_nanos};

use super::meter::Meter;

/// A counter that begins anew with every window.
#[derive(Clone, Debug)]
pub struct FixedWindow {
    units: u64,
    window: u64,
    /// Where the window begins that `used` is about.
    begins: Nanos,
    used: u64,
}

impl FixedWindow {
    /// Windows that follow each other from `now` on.
    #[must_use]
    pub fn new(rate: Rate, now: Nanos) -> FixedWindow {
        FixedWindow { units: rate.units(), window: whole_nanos(rate.window()), begins: now, used: 0 }
    }

    /// Where the window of `now` begins.
    fn window_of(&self, now: Nanos) -> Nanos {
        let passed = now.0.saturating_sub(self.begins.0);
        if passed < self.window { self.begins } else { Nanos(now.0 - passed % self.window) }
    }

    fn end_of_window(&self, now: Nanos) -> Nanos {
        Nanos(self.window_of(now).0.saturating_add(self.window))
    }

    fn used_at(&self, now: Nanos) -> u64 {
        if self.window_of(now) == self.begins { self.used } else { 0 }
    }

    fn advance(&mut self, now: Nanos) {
        self.used = self.used_at(now);
        self.begins = self.window_of(now);
    }
}

impl Meter for FixedWindow {
    fn fits_at(&self, cost: u64, now: Nanos) -> Nanos {
        if cost > self.units {
            Nanos::NEVER
        } else if self.used_at(now).saturating_add(cost) <= self.units {
            now
        } else {
            self.end_of_window(now)
        }
    }

    fn take(&mut self, cost: u64, now: Nanos) {
        self.advance(now);
        self.used = self.used.saturating_add(cost);
    }

    fn give_back(&mut self, cost: u64, taken: Nanos, now: Nanos) -> u64 {
        self.advance(now);
        let back = if taken >= self.begins { cost.min(self.used) } else { 0 };
        self.used -= back;
        back
    }

    fn remaining(&self, now: Nanos) -> u64 {
        self.units.saturating_sub(self.used_at(now))
    }

    fn full_at(&self, now: Nanos) -> Nanos {
        self.end_of_window(now)
    }

    fn more_at(&self, now: Nanos) -> Option<Nanos> {
        Some(self.end_of_window(now))
    }

    /// A window of another length begins at once; what was counted in the one before counts in it.
    fn change(&mut self, rate: Rate, _burst: u64, now: Nanos) {
        self.advance(now);
        self.units = rate.units();
        let window = whole_nanos(rate.window());
        if window != self.window {
            self.window = window;
            self.begins = now;
        }
    }
}
