//! Whether an upstream is short of breath: too many calls end in failures of its own.
//!
//! An overloaded upstream turns nobody away by a limit, so there is no limit to learn; what helps it is to be asked less for
//! a time. When a quarter of the calls of a recent stretch failed, the pace is cut once for that *episode*: calls that were
//! on their way already say nothing more, and what is counted begins anew. If it goes on failing at the lower pace it is cut
//! again. When failures have become few, the pace comes back step by step.

use std::time::Duration;

use crate::model::time::Nanos;

/// The stretch in which failures are counted, in parts.
const PART: Duration = Duration::from_secs(5);
const PARTS: usize = 6;
/// The share of failures that is too much, of at least so many calls, and so many of them: what went well before the first
/// failure was not counted.
const TOO_MANY: f64 = 0.25;
const ENOUGH: u32 = 8;
const FAILED: u32 = 5;
/// What is left of the pace after a cut; lower than `LEAST` it never goes.
const CUT: f64 = 0.6;
const LEAST: f64 = 0.1;
/// How it comes back: by so much, so often.
const STEP: f64 = 0.1;
const EVERY: Duration = Duration::from_secs(10);

/// How calls to an upstream ended lately, and the pace that follows from it.
#[derive(Clone, Debug)]
pub(crate) struct Overload {
    parts: [Part; PARTS],
    /// When the latest part ends.
    ends: Nanos,
    pace: f64,
    /// When the pace was cut last.
    cut: Nanos,
    /// When it is to be looked at next, if it is below 1.
    next: Nanos,
}

#[derive(Clone, Copy, Debug, Default)]
struct Part {
    ended: u32,
    failed: u32,
}

impl Default for Overload {
    fn default() -> Overload {
        let parts = [Part::default(); PARTS];
        Overload { parts, ends: Nanos::ZERO, pace: 1.0, cut: Nanos::ZERO, next: Nanos::NEVER }
    }
}

impl Overload {
    /// The share of the usual pace that is right now.
    pub fn pace(&self) -> f64 {
        self.pace
    }

    /// When it is to be looked at again.
    pub fn due(&self) -> Nanos {
        self.next
    }

    /// A call that went at `at` ended. Says whether the pace is another one now. How many are on their way is asked only
    /// if it matters: they have not failed yet, and failures come back sooner than answers do.
    pub fn ended(&mut self, at: Nanos, failed: bool, on_their_way: impl FnOnce() -> u32, now: Nanos) -> bool {
        if self.pace < 1.0 && at < self.cut {
            return false;
        }
        self.turn(now);
        let part = &mut self.parts[PARTS - 1];
        part.ended = part.ended.saturating_add(1);
        part.failed = part.failed.saturating_add(u32::from(failed));
        let (ended, failures) = self.sum();
        let too_many = |of: u32| f64::from(failures) >= f64::from(of) * TOO_MANY;
        if !failed || ended < ENOUGH || failures < FAILED || !too_many(ended) || self.pace <= LEAST {
            return false;
        }
        if !too_many(ended.saturating_add(on_their_way())) {
            return false;
        }
        self.pace = (self.pace * CUT).max(LEAST);
        self.parts = [Part::default(); PARTS];
        (self.cut, self.next) = (now, now.after(EVERY));
        true
    }

    /// Its time has come: up by a step, unless many still fail. Says whether the pace is another one now.
    pub fn look(&mut self, now: Nanos) -> bool {
        if now < self.next {
            return false;
        }
        self.turn(now);
        let (ended, failures) = self.sum();
        let well = failures == 0 || f64::from(failures) < f64::from(ended) * TOO_MANY / 2.0;
        if well {
            // A sum of tenths is seldom a whole.
            let more = self.pace + STEP;
            self.pace = if more > 0.99 { 1.0 } else { more };
        }
        self.next = if self.pace >= 1.0 { Nanos::NEVER } else { now.after(EVERY) };
        well
    }

    /// Whether there is nothing to remember.
    pub fn is_idle(&mut self, now: Nanos) -> bool {
        self.turn(now);
        self.pace >= 1.0 && self.sum().0 == 0
    }

    /// How many calls ended, and how many of them failed.
    fn sum(&self) -> (u32, u32) {
        let ended = self.parts.iter().fold(0_u32, |sum, part| sum.saturating_add(part.ended));
        let failed = self.parts.iter().fold(0_u32, |sum, part| sum.saturating_add(part.failed));
        (ended, failed)
    }

    fn turn(&mut self, now: Nanos) {
        if now >= self.ends.after(PART * PARTS as u32) {
            self.parts = [Part::default(); PARTS];
            self.ends = now.after(PART);
        }
        while now >= self.ends {
            self.parts.rotate_left(1);
            self.parts[PARTS - 1] = Part::default();
            self.ends = self.ends.after(PART);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Nanos {
        Nanos::ZERO.after(Duration::from_secs(seconds))
    }

    /// A call a second from `from` on; every `nth` of them fails. Says when the pace changed.
    fn play(overload: &mut Overload, from: u64, to: u64, nth: u64) -> Vec<u64> {
        (from..to)
            .filter(|second| overload.ended(at(*second), second % nth == 0, || 0, at(*second)))
            .collect()
    }

    #[test]
    fn a_failure_now_and_then_changes_nothing() {
        let mut overload = Overload::default();
        assert!(play(&mut overload, 100, 1_000, 10).is_empty());
        assert_eq!((overload.pace(), overload.due()), (1.0, Nanos::NEVER));
    }

    #[test]
    fn failures_that_come_before_the_answers_are_not_yet_too_many() {
        let mut overload = Overload::default();
        for failures in 1..=10 {
            assert!(!overload.ended(at(100), true, || 120 - failures, at(100)), "of 120 that went");
        }
        assert!((0..110).all(|_| !overload.ended(at(100), false, || 0, at(101))));
        assert_eq!(overload.pace(), 1.0);
        assert!((0..40).any(|_| overload.ended(at(102), true, || 0, at(102))), "a third of all");
    }

    #[test]
    fn one_cut_for_an_episode_and_another_if_it_goes_on() {
        let mut overload = Overload::default();
        for _ in 0..20 {
            overload.ended(at(100), true, || 0, at(101));
        }
        assert!((overload.pace() - CUT).abs() < 1e-9, "those were all on their way: {}", overload.pace());
        assert_eq!(play(&mut overload, 101, 109, 1), [108], "eight that went after the cut failed too");
        assert!((overload.pace() - CUT * CUT).abs() < 1e-9);
    }

    #[test]
    fn it_comes_back_slowly_once_failures_are_few() {
        let mut overload = Overload::default();
        assert_eq!(play(&mut overload, 100, 108, 1), [107]);
        play(&mut overload, 108, 117, 3);
        assert!(!overload.look(at(117)), "still too many");
        let mut steps = 0;
        while !overload.due().is_never() {
            let now = overload.due();
            steps += u32::from(overload.look(now));
        }
        assert_eq!((overload.pace(), steps), (1.0, 4));
    }

    #[test]
    fn it_never_stops_altogether() {
        let mut overload = Overload::default();
        play(&mut overload, 100, 1_000, 1);
        assert_eq!(overload.pace(), LEAST);
    }
}
