//! What every model of a limit can be asked and told.
//!
//! A meter only counts. Whether a call is let through is decided over all limits at once, by
//! [`Upstream`](super::Upstream); so a meter may be told to count what does not fit, and it bears it: the
//! output of a call that was longer than announced, or calls that were refused and count all the same.

use std::fmt;

use tidegate_core::{Nanos, Rate};

/// A limit that counts. Times never go backwards from one call to the next.
pub trait Meter: fmt::Debug + Send + Sync {
    /// The first time, from `now` on, at which `cost` fits if nothing else is taken; from then on it
    /// stays so. [`Nanos::NEVER`] if it never does, or if it cannot be known when.
    fn fits_at(&self, cost: u64, now: Nanos) -> Nanos;

    /// Counts `cost`, whether it fits or not.
    fn take(&mut self, cost: u64, now: Nanos);

    /// Counts the cost of a call that was refused.
    fn take_refused(&mut self, cost: u64, now: Nanos) {
        self.take(cost, now);
    }

    /// Gives back `cost` of what was taken at `taken`; how much of it still counted.
    fn give_back(&mut self, cost: u64, taken: Nanos, now: Nanos) -> u64;

    /// The most that fits now.
    fn remaining(&self, now: Nanos) -> u64;

    /// When nothing counts any more. A fixed window is only over at its end, even if nothing was taken.
    fn full_at(&self, now: Nanos) -> Nanos;

    /// When more fits than now, if it ever does.
    fn more_at(&self, now: Nanos) -> Option<Nanos>;

    /// Becomes another limit; what counts goes on counting.
    fn change(&mut self, rate: Rate, burst: u64, now: Nanos);
}
