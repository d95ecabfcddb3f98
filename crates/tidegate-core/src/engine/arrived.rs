//! Coming back: a call that is tried again waits where it would if it had never gone.
//!
//! Rank, age and the order in its lane go by when a call first came. One that comes back therefore stands before
//! all calls of its lane that came after it, which is nearly always at the head: those that are still waiting
//! were behind it when it went.

use super::Engine;
use super::lane::{Arrived, Lane, Like, Waiter};
use crate::model::time::Nanos;
use crate::model::{BatchId, LaneId, WaiterId};

impl Engine {
    /// A call comes now. Every attempt of it enters the queue with this by
    /// [`Engine::enqueue_again`], and is ranked by it.
    pub fn arrived(&mut self, now: Nanos) -> Arrived {
        let at = self.clock(now);
        self.scheduler.seq += 1;
        Arrived { seq: self.scheduler.seq, at }
    }

    /// The first call of a lane that came after this one.
    pub(super) fn first_later(&self, waiter: WaiterId, lane: LaneId) -> Option<WaiterId> {
        let seq = |waiter: WaiterId| self.scheduler.waiters[waiter].seq;
        let Lane { tail, .. } = self.scheduler.lanes[lane];
        match tail {
            WaiterId::NIL => None,
            tail if seq(tail) < seq(waiter) => None,
            _ => self.calls_of(lane).find(|other| seq(*other) > seq(waiter)),
        }
    }

    /// Puts a waiter before a call of its lane.
    pub(super) fn insert_before(&mut self, later: WaiterId, waiter: WaiterId, lane: LaneId, like: Like) {
        let Waiter { run: later_run, ahead, .. } = self.scheduler.waiters[later];
        let first_of_run = self.scheduler.runs[later_run].first == later;
        let ahead_run = self.scheduler.waiters.get(ahead).map_or(BatchId::NIL, |ahead| ahead.run);
        let is_like = |run: BatchId| self.scheduler.runs.get(run).is_some_and(|run| run.like == like);
        let run = match (is_like(later_run), is_like(ahead_run)) {
            (true, _) => later_run,
            (false, true) if first_of_run => ahead_run,
            (false, _) if first_of_run => BatchId::NIL,
            (false, _) => return self.split(later, waiter, lane, like),
        };
        self.scheduler.lanes[lane].count(&like.units);
        match ahead {
            WaiterId::NIL => self.scheduler.lanes[lane].head = waiter,
            ahead => self.scheduler.waiters[ahead].behind = waiter,
        }
        self.scheduler.waiters[later].ahead = waiter;
        let held = &mut self.scheduler.waiters[waiter];
        (held.ahead, held.behind) = (ahead, later);
        let run = match self.scheduler.runs.get_mut(run) {
            Some(held) => {
                held.len += 1;
                if held.first == later {
                    held.first = waiter;
                }
                run
            }
            None => {
                let run = self.begin_run(waiter, lane, like);
                let seq = |run: BatchId| self.scheduler.runs.get(run).map_or(0, |run| run.seq);
                if !(seq(ahead_run) < seq(run) && seq(run) < seq(later_run)) {
                    self.order_runs(lane);
                }
                run
            }
        };
        self.scheduler.waiters[waiter].run = run;
    }

    /// Puts a waiter into the midst of calls that are alike and unlike it.
    fn split(&mut self, later: WaiterId, waiter: WaiterId, lane: LaneId, like: Like) {
        let known = |call: WaiterId| (call, self.run_of(call).like.clone());
        let mut calls: Vec<(WaiterId, Like)> = self.calls_of(lane).map(known).collect();
        let place = calls.iter().position(|(call, _)| *call == later).unwrap_or(calls.len());
        calls.insert(place, (waiter, like));
        self.refill(lane, calls);
    }

    /// Runs are found by the arrival of the call that began them, which may have gone. A call that came back may
    /// be older than that one, or younger: then runs are put in the order of the calls that are there.
    fn order_runs(&mut self, lane: LaneId) {
        let mut runs = Vec::new();
        self.scheduler.run_order.each(self.scheduler.lanes[lane].runs, &mut |(_, run)| {
            runs.push(run);
            true
        });
        for run in runs {
            let root = &mut self.scheduler.lanes[lane].runs;
            let held = &mut self.scheduler.runs[run];
            self.scheduler.run_order.remove(root, (held.seq, run));
            held.seq = self.scheduler.waiters[held.first].seq;
            self.scheduler.run_order.insert(root, (held.seq, run), held.like.units);
        }
    }
}
