//! How many calls an upstream can have in flight, learned from how it does.
//!
//! More calls at once than an upstream works on do not make it faster: they wait inside of it, and replies take longer.
//! Calls are looked at in *rounds*: as many as go under one bound, but not those that went before it was in force, so each
//! bound is judged by its own calls, and cut once. Two rules:
//!
//! * *Gradient.* The median of a round's reply times beside the shortest median known. As long as they are alike the bound
//!   rises, by about half its square root; when a round takes longer by more than a third, the bound shrinks in that
//!   proportion. The shortest median is measured anew twice a minute, for a round with half the bound, so that an upstream
//!   that became slower for other reasons is not mistaken for one that is full.
//! * *AIMD.* One more after each good round, and 0.7 of it after one in which calls failed, or took longer than a time that
//!   is stated.
//!
//! Neither rises in a round in which the bound was never reached: nothing was learned about what is above it.

use std::time::Duration;

use crate::config::{Adaptation, AdaptiveConfig};
use crate::model::time::Nanos;

/// Where it begins, if it may.
const START: u64 = 10;
/// A round has as many calls as may be in flight, within this.
const ROUND: (f64, f64) = (10.0, 200.0);
/// By how much longer than at best replies may take.
const TOLERANCE: f64 = 1.33;
/// What is left after a cut, and the most that a slow round takes.
const CUT: f64 = 0.7;
const DEEPEST: f64 = 0.5;
/// The share of failures that makes a round a bad one.
const BAD: f64 = 0.1;
/// How often the shortest median is measured anew, and after how many cuts that did not help.
const CUTS: u32 = 3;
const ANEW: Duration = Duration::from_secs(30);

/// What may be in flight.
#[derive(Clone, Debug)]
pub(crate) struct Adaptive {
    rules: AdaptiveConfig,
    most: u64,
    bound: f64,
    /// When the round began.
    began: Nanos,
    times: Vec<Duration>,
    failed: usize,
    /// The bound was reached.
    full: bool,
    /// The shortest median, in seconds, and when it was last measured with half the bound.
    best: Option<f64>,
    measured: Nanos,
    /// This round measures it.
    measures: bool,
    /// Rounds in a row that were cut for being slow.
    cuts: u32,
}

impl Adaptive {
    /// At most `most`.
    pub fn new(rules: AdaptiveConfig, most: u64) -> Adaptive {
        let bound = START.clamp(rules.min.min(most), most) as f64;
        Adaptive {
            rules,
            most,
            bound,
            began: Nanos::ZERO,
            times: Vec::new(),
            failed: 0,
            full: false,
            best: None,
            measured: Nanos::ZERO,
            measures: false,
            cuts: 0,
        }
    }

    /// What was learned before counts from now on.
    pub fn resume(&mut self, bound: u64, now: Nanos) {
        self.bound = bound.clamp(self.rules.min.min(self.most), self.most) as f64;
        self.begin(now);
    }

    pub fn rules(&self) -> &AdaptiveConfig {
        &self.rules
    }

    /// The most that it may be is another number.
    pub fn change_most(&mut self, most: u64) {
        self.most = most;
        self.bound = self.bound.min(most as f64);
    }

    /// How many calls may be in flight.
    pub fn bound(&self) -> u64 {
        let bound = if self.measures { self.bound / 2.0 } else { self.bound };
        (bound.round() as u64).clamp(self.rules.min.min(self.most), self.most)
    }

    /// A call that went at `at` ended when `in_flight` were, itself included. Says whether the bound is another one now.
    pub fn ended(&mut self, at: Nanos, failed: bool, in_flight: u64, now: Nanos) -> bool {
        // It went under another bound.
        if at < self.began {
            return false;
        }
        let before = self.bound();
        self.full |= in_flight >= before;
        match failed {
            true => self.failed += 1,
            false => self.times.push(now.since(at)),
        }
        let ended = self.times.len() + self.failed;
        if ended < self.bound.clamp(ROUND.0, ROUND.1) as usize {
            return false;
        }
        let bad = self.failed as f64 >= (ended as f64 * BAD).max(2.0);
        let median = self.median();
        match (bad, self.rules.by) {
            (true, _) => self.bound *= CUT,
            (false, Adaptation::Aimd) => self.step(median),
            (false, Adaptation::Gradient) => self.follow(median, now),
        }
        let (least, most) = (self.rules.min.min(self.most) as f64, self.most as f64);
        self.bound = self.bound.clamp(least, most);
        self.begin(now);
        self.bound() != before
    }

    fn begin(&mut self, now: Nanos) {
        self.began = now;
        self.times.clear();
        (self.failed, self.full) = (0, false);
    }

    fn median(&mut self) -> Option<f64> {
        self.times.sort_unstable();
        self.times.get(self.times.len() / 2).map(Duration::as_secs_f64)
    }

    fn step(&mut self, median: Option<f64>) {
        let slow = self.rules.latency.zip(median).is_some_and(|(most, median)| median > most.as_secs_f64());
        if slow {
            self.bound *= CUT;
        } else if self.full {
            self.bound += 1.0;
        }
    }

    fn follow(&mut self, median: Option<f64>, now: Nanos) {
        let Some(median) = median.map(|median| median.max(1e-6)) else { return };
        if std::mem::take(&mut self.measures) {
            (self.best, self.measured) = (Some(median), now);
            return;
        }
        let best = self.best.map_or(median, |best| best.min(median));
        self.best = Some(best);
        let gradient = best * TOLERANCE / median;
        if gradient < 1.0 {
            self.bound *= gradient.max(DEEPEST);
            self.cuts += 1;
        } else {
            self.bound += if self.full { (self.bound.sqrt() / 2.0).max(1.0) } else { 0.0 };
            self.cuts = 0;
        }
        // Half of a bound that is many times too high tells nothing: first it is cut, and measured if that does not help.
        let cut_enough = self.cuts == 0 || self.cuts >= CUTS;
        self.measures = self.full && cut_enough && now >= self.measured.after(ANEW);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Nanos {
        Nanos::ZERO.after(Duration::from_millis(ms))
    }

    fn adaptive(by: Adaptation, latency: Option<Duration>) -> Adaptive {
        Adaptive::new(AdaptiveConfig { by, min: 2, latency }, 100)
    }

    /// A round of calls that went at `ms`, took this long and met so many in flight.
    fn round(adaptive: &mut Adaptive, ms: u64, took: u64, in_flight: u64, failed: usize) -> u64 {
        for call in 0..adaptive.bound.clamp(ROUND.0, ROUND.1) as usize {
            adaptive.ended(at(ms), call < failed, in_flight, at(ms + took));
        }
        adaptive.bound()
    }

    #[test]
    fn it_rises_only_while_it_is_reached() {
        for by in [Adaptation::Gradient, Adaptation::Aimd] {
            let mut adaptive = adaptive(by, None);
            assert_eq!(adaptive.bound(), START);
            assert_eq!(round(&mut adaptive, 0, 100, 5, 0), START, "nobody knows what is above");
            assert!(round(&mut adaptive, 1_000, 100, START, 0) > START);
        }
    }

    #[test]
    fn it_is_cut_once_for_a_round_of_failures_whatever_was_on_its_way() {
        let mut adaptive = adaptive(Adaptation::Aimd, None);
        assert_eq!(round(&mut adaptive, 0, 100, START, 5), 7);
        for _ in 0..50 {
            assert!(!adaptive.ended(at(50), true, START, at(200)), "it went before the cut");
        }
        assert_eq!(adaptive.bound(), 7);
        for later in 1..50 {
            round(&mut adaptive, later * 1_000, 100, START, 5);
        }
        assert_eq!(adaptive.bound(), 2, "never below the least");
    }

    #[test]
    fn aimd_also_follows_a_stated_time() {
        let mut adaptive = adaptive(Adaptation::Aimd, Some(Duration::from_millis(500)));
        assert_eq!(round(&mut adaptive, 0, 400, START, 0), 11);
        assert_eq!(round(&mut adaptive, 1_000, 600, START, 0), 8);
    }

    #[test]
    fn the_gradient_takes_back_what_made_replies_slow() {
        let mut adaptive = adaptive(Adaptation::Gradient, None);
        round(&mut adaptive, 0, 100, START, 0);
        let high = adaptive.bound();
        let low = round(&mut adaptive, 1_000, 200, high, 0);
        assert!(low < high && low >= high / 2, "{low} of {high}");
    }

    #[test]
    fn an_upstream_that_became_slower_for_good_is_measured_anew() {
        let mut adaptive = adaptive(Adaptation::Gradient, None);
        round(&mut adaptive, 0, 100, 100, 0);
        let mut now = 1_000;
        for _ in 0..60 {
            round(&mut adaptive, now, 300, 100, 0);
            now += 2_000;
        }
        assert!(adaptive.bound() > 20, "it is not held down for ever: {}", adaptive.bound());
    }
}
