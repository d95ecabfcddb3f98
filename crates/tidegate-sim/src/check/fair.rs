//! Fair shares between loops, at a limit that is all there is on its route and whose calls all cost the same.
//!
//! While two loops have something waiting, what they are served, each by its weight, differs by no more than
//! one call of each. To compare every two in one step, a stretch of time is looked at in which the same loops
//! wait: all start at nothing, those who run out leave, those who come wait for the next stretch. Then no loop
//! may be further than the least served one plus that one's next call.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tidegate_core::Priority;

/// A stretch is this many calls for each loop in it.
const CALLS: u64 = 32;
/// Millionths are cut off at every call.
const ROUNDING: u64 = 2 * CALLS;

/// What loops were served at one limit.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    classes: [Class; 4],
    /// What every call costs here, as far as they are all the same.
    cost: Option<u64>,
    uneven: bool,
}

#[derive(Debug, Default)]
struct Class {
    /// Loops that have something waiting, each with what a call counts for it.
    waiting: BTreeMap<u32, u64>,
    /// Served in this stretch, in millionths of a call at weight 1; and in order, each with its next call.
    served: HashMap<u32, Served>,
    order: BTreeSet<(u64, u32)>,
    left: u64,
}

#[derive(Clone, Copy, Debug)]
struct Served {
    so_far: u64,
    next: u64,
}

impl Shares {
    /// A call cost other than it reserved, which moves shares in ways that are not followed here.
    pub fn settled_otherwise(&mut self) {
        self.uneven = true;
    }

    /// A loop has something waiting. One whose calls name loop types of different weights is not followed.
    pub fn joins(&mut self, class: Priority, loop_: u32, weight: f64) {
        let call = (1e6 / weight) as u64;
        let known = self.classes[class as usize].waiting.insert(loop_, call);
        self.uneven |= known.is_some_and(|known| known != call);
    }

    /// A loop has nothing waiting any more.
    pub fn leaves(&mut self, class: Priority, loop_: u32) {
        let held = &mut self.classes[class as usize];
        held.waiting.remove(&loop_);
        if let Some(served) = held.served.remove(&loop_) {
            held.order.remove(&(served.so_far + served.next, loop_));
        }
    }

    /// A loop's call that had waited went.
    pub fn went(&mut self, class: Priority, loop_: u32, cost: u64) -> Result<(), String> {
        self.uneven |= *self.cost.get_or_insert(cost) != cost;
        if self.uneven {
            return Ok(());
        }
        let held = &mut self.classes[class as usize];
        if held.left == 0 {
            held.begin();
        }
        held.left -= 1;
        let Some(served) = held.served.get(&loop_).copied() else { return Ok(()) };
        held.order.remove(&(served.so_far + served.next, loop_));
        let now = Served { so_far: served.so_far + served.next, ..served };
        held.served.insert(loop_, now);
        held.order.insert((now.so_far + now.next, loop_));
        match held.order.first() {
            Some(&(least, other)) if served.so_far > least + ROUNDING => Err(format!(
                "loop {loop_} was served {} and loop {other} only {}, in millionths of a call by weight",
                now.so_far,
                held.served.get(&other).map_or(0, |served| served.so_far)
            )),
            _ => Ok(()),
        }
    }
}

impl Class {
    fn begin(&mut self) {
        self.served.clear();
        self.order.clear();
        for (&loop_, &next) in &self.waiting {
            self.served.insert(loop_, Served { so_far: 0, next });
            self.order.insert((next, loop_));
        }
        self.left = CALLS * (self.waiting.len() as u64 + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(weights: [f64; 2], order: &[u32]) -> Result<(), String> {
        let mut shares = Shares::default();
        for (loop_, weight) in (1..).zip(weights) {
            shares.joins(Priority::Normal, loop_, weight);
        }
        order.iter().try_for_each(|loop_| shares.went(Priority::Normal, *loop_, 1))
    }

    #[test]
    fn loops_that_take_turns_are_fair() {
        assert_eq!(stretch([1.0, 1.0], &[1, 2].repeat(50)), Ok(()));
        assert_eq!(stretch([2.0, 1.0], &[1, 1, 2].repeat(50)), Ok(()));
    }

    #[test]
    fn a_loop_that_is_served_too_often_is_seen() {
        assert!(stretch([1.0, 1.0], &[1, 2, 1, 1, 1]).is_err());
        assert!(stretch([2.0, 1.0], &[1, 2].repeat(50)).is_err(), "twice the weight, the same share");
    }
}
