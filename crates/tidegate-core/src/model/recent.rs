//! Counts over the latest stretch of time, in N slots of equal length.
//!
//! The stretch is the slot that it is now and the N − 1 before it, so it is between N − 1 and N slots long.
//! Time that goes back counts as standing still.

use std::time::Duration;

use crate::model::time::{Nanos, whole_nanos};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recent<T, const N: usize> {
    slots: [T; N],
    /// The number of the slot that was last looked at.
    latest: u64,
    nanos_per_slot: u64,
}

impl<T: Copy + Default, const N: usize> Recent<T, N> {
    /// Over `stretch`, which is at least N nanoseconds.
    pub fn over(stretch: Duration) -> Recent<T, N> {
        let nanos_per_slot = (whole_nanos(stretch) / N as u64).max(1);
        Recent { slots: [T::default(); N], latest: 0, nanos_per_slot }
    }

    /// What is counted now; what is too old is forgotten.
    pub fn now(&mut self, now: Nanos) -> &mut T {
        let number = (now.0 / self.nanos_per_slot).max(self.latest);
        for passed in 0..(number - self.latest).min(N as u64) {
            self.slots[place::<N>(number - passed)] = T::default();
        }
        self.latest = number;
        &mut self.slots[place::<N>(number)]
    }

    /// The sum of one count over all slots.
    pub fn sum(&self, count: impl Fn(&T) -> u64) -> u64 {
        self.slots.iter().map(count).fold(0, u64::saturating_add)
    }
}

fn place<const N: usize>(number: u64) -> usize {
    (number % N as u64) as usize
}
