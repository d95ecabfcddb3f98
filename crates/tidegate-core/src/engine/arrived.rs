//! Coming back: a call that is tried again waits where it would if it had never gone.
//!
//! Rank, age and the order in its lane go by when a call first came. One that comes back therefore stands before
//! all calls of its lane that came after it, which is nearly always at the head: those that are still waiting
//! were behind it when it went.

use super::Engine;
use super::lane::{Lane, Like, Waiter};
use crate::time::Nanos;
use crate::tree::NIL;

/// When a call first came, and before whom. See [`Engine::arrived`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrived {
    pub(super) seq: u64,
    pub(super) at: Nanos,
}

impl Arrived {
    /// When that was.
    #[must_use]
    pub fn at(self) -> Nanos {
        self.at
    }
}

impl Engine {
    /// A call comes now. Every attempt of it enters the queue with this by
    /// [`Engine::enqueue_again`], and is ranked by it.
    pub fn arrived(&mut self, now: Nanos) -> Arrived {
        let at = self.clock(now);
        self.seq += 1;
        Arrived { seq: self.seq, at }
    }

    /// The first call of a lane that came after this one.
    pub(super) fn first_later(&self, waiter: u32, lane: u32) -> Option<u32> {
        let seq = |waiter: u32| self.waiters[waiter as usize].seq;
        let Lane { tail, .. } = self.lanes[lane as usize];
        match tail {
            NIL => None,
            tail if seq(tail) < seq(waiter) => None,
            _ => self.calls_of(lane).find(|other| seq(*other) > seq(waiter)),
        }
    }

    /// Puts a waiter before a call of its lane.
    pub(super) fn insert_before(&mut self, later: u32, waiter: u32, lane: u32, like: Like) {
        let Waiter { run: later_run, ahead, .. } = self.waiters[later as usize];
        let first_of_run = self.runs[later_run as usize].first == later;
        let ahead_run = self.waiters.get(ahead as usize).map_or(NIL, |ahead| ahead.run);
        let is_like = |run: u32| self.runs.get(run as usize).is_some_and(|run| run.like == like);
        let run = match (is_like(later_run), is_like(ahead_run)) {
            (true, _) => later_run,
            (false, true) if first_of_run => ahead_run,
            (false, _) if first_of_run => NIL,
            (false, _) => return self.split(later, waiter, lane, like),
        };
        self.lanes[lane as usize].count(&like.units);
        match ahead {
            NIL => self.lanes[lane as usize].head = waiter,
            ahead => self.waiters[ahead as usize].behind = waiter,
        }
        self.waiters[later as usize].ahead = waiter;
        let held = &mut self.waiters[waiter as usize];
        (held.ahead, held.behind) = (ahead, later);
        let run = match self.runs.get_mut(run as usize) {
            Some(held) => {
                held.len += 1;
                if held.first == later {
                    held.first = waiter;
                }
                run
            }
            None => {
                let run = self.begin_run(waiter, lane, like);
                let seq = |run: u32| self.runs.get(run as usize).map_or(0, |run| run.seq);
                if !(seq(ahead_run) < seq(run) && seq(run) < seq(later_run)) {
                    self.order_runs(lane);
                }
                run
            }
        };
        self.waiters[waiter as usize].run = run;
    }

    /// Puts a waiter into the midst of calls that are alike and unlike it.
    fn split(&mut self, later: u32, waiter: u32, lane: u32, like: Like) {
        let known = |call: u32| (call, self.run_of(call).like.clone());
        let mut calls: Vec<(u32, Like)> = self.calls_of(lane).map(known).collect();
        let place = calls.iter().position(|(call, _)| *call == later).unwrap_or(calls.len());
        calls.insert(place, (waiter, like));
        self.refill(lane, calls);
    }

    /// Runs are found by the arrival of the call that began them, which may have gone. A call that came back may
    /// be older than that one, or younger: then runs are put in the order of the calls that are there.
    fn order_runs(&mut self, lane: u32) {
        let mut runs = Vec::new();
        self.run_order.each(self.lanes[lane as usize].runs, &mut |(_, run)| {
            runs.push(run);
            true
        });
        for run in runs {
            let root = &mut self.lanes[lane as usize].runs;
            let held = &mut self.runs[run as usize];
            self.run_order.remove(root, (held.seq, run));
            held.seq = self.waiters[held.first as usize].seq;
            self.run_order.insert(root, (held.seq, run), held.like.units);
        }
    }
}
