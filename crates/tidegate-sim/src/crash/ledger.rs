//! What an upstream that never crashes has seen of one limit, and whether that is within its definition.
//!
//! Written from what limits promise, and not from how the engine keeps them.

use std::collections::BTreeMap;

use tidegate_core::Nanos;

/// How a limit counts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counts {
    /// At most `n` in any stretch of `w` nanoseconds.
    Sliding { n: u64, w: u64 },
    /// Up to `size` at once, `n` more in every `w`.
    Bucket { n: u64, w: u64, size: u64 },
    /// At most `n` in every window of `w` since the beginning.
    Fixed { n: u64, w: u64 },
    /// At most `n` at once.
    Slots { n: u64 },
}

/// Every unit that was taken, whichever engine allowed it.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    pub counts: Counts,
    /// Sliding: units by when they were taken.
    taken: BTreeMap<Nanos, u64>,
    /// Bucket: what is missing, in units × w, and when.
    missing: i128,
    at: Nanos,
    /// Fixed: what was spent in the window of that number.
    window: u64,
    spent: u64,
    /// Slots: the ends of calls in flight.
    ends: Vec<Nanos>,
}

impl Ledger {
    pub fn new(counts: Counts) -> Ledger {
        Ledger {
            counts,
            taken: BTreeMap::new(),
            missing: 0,
            at: Nanos::ZERO,
            window: 0,
            spent: 0,
            ends: Vec::new(),
        }
    }

    /// A call was let go that takes so much, and is over at `end`. Says what is wrong with that.
    pub fn grant(&mut self, units: u64, end: Nanos, now: Nanos) -> Result<(), String> {
        self.add(units, now);
        if let Counts::Slots { .. } = self.counts {
            self.ends.retain(|end| *end > now);
            self.ends.push(end);
        }
        let (used, most) = self.standing(now);
        if used > most { Err(format!("{used} of {most} in {:?} at {now:?}", self.counts)) } else { Ok(()) }
    }

    /// What counts now, and what may at most.
    pub fn standing(&mut self, now: Nanos) -> (u64, u64) {
        self.turn(now);
        match self.counts {
            Counts::Sliding { n, w } => {
                let since = Nanos(now.0.saturating_sub(w));
                // A half-open stretch: what was taken exactly w ago has left it.
                self.taken = self.taken.split_off(&Nanos(since.0 + u64::from(now.0 >= w)));
                (self.taken.values().sum(), n)
            }
            Counts::Bucket { w, size, .. } => ((self.missing / i128::from(w)) as u64, size),
            Counts::Fixed { n, .. } => (self.spent, n),
            Counts::Slots { n } => (self.ends.iter().filter(|end| **end > now).count() as u64, n),
        }
    }

    /// It cost more than it took: that counts from now on.
    pub fn add(&mut self, units: u64, now: Nanos) {
        self.turn(now);
        *self.taken.entry(now).or_default() += units;
        self.missing += i128::from(units) * self.width();
        self.spent += units;
    }

    /// Some of what was taken at `taken` was not used.
    pub fn take_back(&mut self, units: u64, taken: Nanos, now: Nanos) {
        self.turn(now);
        if let Some(held) = self.taken.get_mut(&taken) {
            *held = held.saturating_sub(units);
        }
        self.missing = (self.missing - i128::from(units) * self.width()).max(0);
        if let Counts::Fixed { w, .. } = self.counts
            && taken.0 / w == self.window
        {
            self.spent = self.spent.saturating_sub(units);
        }
    }

    fn width(&self) -> i128 {
        match self.counts {
            Counts::Bucket { w, .. } => w.into(),
            _ => 0,
        }
    }

    fn turn(&mut self, now: Nanos) {
        match self.counts {
            Counts::Bucket { n, .. } => {
                let flowed = i128::from(now.0.saturating_sub(self.at.0)) * i128::from(n);
                self.missing = (self.missing - flowed).max(0);
                self.at = now;
            }
            Counts::Fixed { n, w } => {
                let window = now.0 / w;
                let passed = window.saturating_sub(self.window);
                if passed > 0 {
                    // Debt is carried over, and paid first.
                    self.spent = self.spent.saturating_sub(n.saturating_mul(passed));
                    self.window = window;
                }
            }
            _ => {}
        }
    }
}
