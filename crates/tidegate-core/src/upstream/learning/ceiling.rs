//! A limit that nobody states, learned from being turned away.
//!
//! An upstream that turns calls away though there should be room has a limit that we do not know: ours is wrong, or there
//! is one more. What went through lately is what it allows, so a little less than that is the ceiling from then on: one
//! cut for an *episode*, which is everything that was on its way when it began and a window after it, for that long the
//! upstream may still count what went before. Then we feel our way up again, by steps that grow as long as nobody is
//! turned away, so that a limit that was raised is found within a few windows, and one that was not costs a few refusals
//! each time.

use std::time::Duration;

use crate::model::time::Nanos;

/// What is left of what went through; and of what should have, as long as nobody counted.
const CUT: f64 = 0.98;
const FIRST: f64 = 0.95;
/// The most that one cut takes.
const DEEPEST: f64 = 0.5;
/// The first step up, and by how much each further one is larger.
const STEP: f64 = 0.05;
const LARGER: f64 = 4.0;
/// Lower than this share of N it never goes.
const LEAST: f64 = 1.0 / 64.0;

/// What goes through, as a share of N.
#[derive(Clone, Debug)]
pub(crate) struct Ceiling {
    share: f64,
    /// Before the last step up.
    proven: f64,
    step: f64,
    /// When the latest episode began, and the latest refusal.
    cut: Nanos,
    refused: Nanos,
    /// A refusal that stands alone so far.
    warned: Option<Nanos>,
    /// When to step up next, if below N.
    next: Nanos,
}

impl Default for Ceiling {
    fn default() -> Ceiling {
        let (cut, refused, next) = (Nanos::ZERO, Nanos::ZERO, Nanos::NEVER);
        Ceiling { share: 1.0, proven: 1.0, step: STEP, cut, refused, warned: None, next }
    }
}

impl Ceiling {
    /// The share of N that goes through.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// When it is to be asked again.
    pub fn due(&self) -> Nanos {
        self.next
    }

    /// A call that went at `at` was turned away and nobody can say why. `through` is the share of N that went through
    /// in the last window. Says whether the ceiling is another one now.
    pub fn refused(&mut self, at: Nanos, through: f64, window: Duration, now: Nanos) -> bool {
        self.refused = now;
        let known = !self.next.is_never();
        // One may be bad luck; another that went after it was answered is not.
        let warned = self.warned.filter(|warned| now < warned.after(window));
        if !known && warned.is_none_or(|warned| at < warned) {
            self.warned = Some(warned.unwrap_or(now));
            return false;
        }
        let settled = now >= self.cut.after(window);
        if known && (at < self.cut || !settled) {
            return false;
        }
        // If it happened on the way up, what was before the step is known to be good.
        let tried = known && self.share > self.proven;
        let before = self.share;
        let passed = if tried { self.proven.min(through) } else { through.min(self.share) };
        let cut = if known { CUT } else { FIRST };
        self.share = (passed * cut).clamp(self.share * DEEPEST, self.share).max(LEAST);
        self.proven = self.share;
        self.step = STEP;
        self.cut = now;
        self.next = now.after(window);
        self.share != before
    }

    /// Its time has come: up by a step, unless somebody was turned away meanwhile. Says whether it is another one now.
    pub fn look(&mut self, through: f64, window: Duration, now: Nanos) -> bool {
        if now < self.next {
            return false;
        }
        let half = window / 2;
        if self.refused > self.cut && now.since(self.refused) < half {
            // Still turned away half a window after what was counted before has gone: it was not enough.
            let before = self.share;
            self.share = (through.min(self.share) * CUT).clamp(self.share * DEEPEST, self.share).max(LEAST);
            self.proven = self.share;
            self.step = STEP;
            self.cut = now;
            self.next = now.after(window);
            return self.share != before;
        }
        self.proven = self.share;
        self.share = (self.share * (1.0 + self.step)).min(1.0);
        self.step *= LARGER;
        self.next = if self.share >= 1.0 { Nanos::NEVER } else { now.after(window) };
        true
    }
}

/// Parts of a window in which units are summed up.
const PARTS: usize = 8;

/// What went through in the last window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    parts: [u64; PARTS],
    /// How long a part is, and when the latest ends.
    part: Duration,
    ends: Nanos,
}

impl Tally {
    /// So much went through in the window before now, as far as is known.
    pub fn new(window: Duration, before: u64, now: Nanos) -> Tally {
        let part = window / PARTS as u32;
        let even = before / PARTS as u64;
        Tally { parts: [even; PARTS], part, ends: now.after(part) }
    }

    /// Units went through.
    pub fn add(&mut self, units: u64, now: Nanos) {
        self.turn(now);
        self.parts[PARTS - 1] = self.parts[PARTS - 1].saturating_add(units);
    }

    /// All of the last window: the part that has only begun is left out.
    pub fn sum(&mut self, now: Nanos) -> u64 {
        self.turn(now);
        let whole: u64 = self.parts[..PARTS - 1].iter().fold(0, |sum, part| sum.saturating_add(*part));
        whole.saturating_add(whole / (PARTS as u64 - 1))
    }

    fn turn(&mut self, now: Nanos) {
        let mut turns = 0;
        while now >= self.ends && !self.part.is_zero() {
            turns += 1;
            if turns > PARTS {
                self.ends = now.after(self.part);
                break;
            }
            self.parts.rotate_left(1);
            self.parts[PARTS - 1] = 0;
            self.ends = self.ends.after(self.part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Nanos {
        Nanos::ZERO.after(Duration::from_secs(seconds))
    }

    /// One that was cut at that time, when so much went through.
    fn cut(seconds: u64, through: f64) -> Ceiling {
        let mut ceiling = Ceiling::default();
        assert!(!ceiling.refused(at(seconds), 1.0, MINUTE, at(seconds)), "one alone may be bad luck");
        assert!(ceiling.refused(at(seconds), through, MINUTE, at(seconds)));
        ceiling
    }

    #[test]
    fn one_cut_for_an_episode_to_a_little_less_than_went_through() {
        let mut ceiling = cut(101, 0.9);
        assert!((ceiling.share() - 0.855).abs() < 1e-9);
        assert!(!ceiling.refused(at(100), 0.8, MINUTE, at(102)), "it was on its way already");
        assert!(!ceiling.refused(at(110), 0.8, MINUTE, at(111)), "what went before may still count");
    }

    #[test]
    fn it_goes_up_in_steps_that_grow_and_is_whole_again_within_three_windows() {
        let mut ceiling = cut(0, 0.5);
        let mut now = at(0);
        while !ceiling.due().is_never() {
            now = ceiling.due();
            assert!(ceiling.look(0.5, MINUTE, now));
        }
        assert_eq!(ceiling.share(), 1.0);
        assert!(now <= at(180), "{now:?}");
    }

    #[test]
    fn a_step_too_far_goes_back_to_what_was_good() {
        let mut ceiling = cut(0, 0.5);
        let good = ceiling.share();
        assert!(ceiling.look(0.5, MINUTE, at(60)));
        assert!(ceiling.share() > good);
        assert!(ceiling.refused(at(70), 0.55, MINUTE, at(71)));
        assert!((ceiling.share() - good * CUT).abs() < 1e-9);
    }

    #[test]
    fn who_is_still_turned_away_after_a_window_did_not_cut_enough() {
        let mut ceiling = cut(0, 1.0);
        for second in 1..60 {
            ceiling.refused(at(second), 0.6, MINUTE, at(second));
        }
        assert!(ceiling.look(0.5, MINUTE, at(60)));
        assert!((ceiling.share() - 0.49).abs() < 1e-9, "{}", ceiling.share());
        assert_eq!(ceiling.due(), at(120));
    }

    #[test]
    fn it_never_goes_to_nothing() {
        let mut ceiling = Ceiling::default();
        for hour in 1..100 {
            ceiling.refused(at(hour * 3600), 0.0, MINUTE, at(hour * 3600));
        }
        assert!(ceiling.share() >= LEAST);
    }
}
