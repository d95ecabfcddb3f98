//! Others on the same key: calls at random times, as independent of each other as calls can be.
//!
//! Each neighbour is a Poisson process with dice of its own, so what one does never depends on how often the
//! upstream is asked, nor on the others. Only the next call of each is drawn: they cost no memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tidegate_core::Nanos;

use crate::dice::Dice;
use crate::scenario::Neighbour;
use crate::spread::{Spread, exponential};

/// All neighbours of an upstream.
#[derive(Debug)]
pub(super) struct Neighbours {
    each: Vec<Caller>,
    /// How long their calls hold a slot, where there are slots: as long as a reply takes.
    holds: Option<Spread>,
    /// When slots come back.
    ends: BinaryHeap<Reverse<Nanos>>,
    dice: Dice,
}

#[derive(Debug)]
struct Caller {
    /// Nanoseconds between calls, on average.
    mean: f64,
    tokens: Spread,
    until: Nanos,
    next: Nanos,
    dice: Dice,
}

impl Neighbours {
    pub(super) fn new(specs: &[Neighbour], holds: Option<Spread>, seed: u64, start: Nanos) -> Neighbours {
        let caller = |(number, spec): (usize, &Neighbour)| {
            let mut caller = Caller {
                mean: spec.rate.window().as_nanos() as f64 / spec.rate.units() as f64,
                tokens: spec.tokens,
                until: spec.until.map_or(Nanos::NEVER, |until| start.after(until)),
                next: start.after(spec.from),
                dice: Dice::part(seed, "neighbour", number as u64),
            };
            caller.draw_next();
            caller
        };
        Neighbours {
            each: specs.iter().enumerate().map(caller).collect(),
            holds,
            ends: BinaryHeap::new(),
            dice: Dice::part(seed, "neighbours' slots", 0),
        }
    }

    /// When one of them next calls, or a call of theirs ends.
    pub(super) fn next(&self) -> Nanos {
        let ends = self.ends.peek().map_or(Nanos::NEVER, |Reverse(at)| *at);
        self.each.iter().map(|caller| caller.next).fold(ends, Nanos::min)
    }

    /// How many calls of theirs end at `at`.
    pub(super) fn ended(&mut self, at: Nanos) -> usize {
        let before = self.ends.len();
        while self.ends.peek().is_some_and(|Reverse(end)| *end <= at) {
            self.ends.pop();
        }
        before - self.ends.len()
    }

    /// The next call that is due at `at`, if there is one: its cost in units other than requests.
    pub(super) fn call(&mut self, at: Nanos) -> Option<u64> {
        let caller = self.each.iter_mut().find(|caller| caller.next <= at)?;
        let tokens = caller.tokens.draw(&mut caller.dice);
        caller.draw_next();
        Some(tokens)
    }

    /// A call of theirs was accepted.
    pub(super) fn accepted(&mut self, now: Nanos) {
        if let Some(holds) = self.holds {
            self.ends.push(Reverse(now.after(holds.draw_span(&mut self.dice))));
        }
    }
}

impl Caller {
    fn draw_next(&mut self) {
        // At least a nanosecond, so that time goes on whatever the rate.
        let gap = exponential(self.mean, &mut self.dice).max(1);
        self.next = Nanos(self.next.0.saturating_add(gap));
        if self.next >= self.until {
            self.next = Nanos::NEVER;
        }
    }
}
