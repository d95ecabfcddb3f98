//! Whether an upstream counts as a bucket does, by what its replies say.
//!
//! Two signs, each of which no window can give for long:
//!
//! * A bucket of size B that refills at N/W says that it is full in (B − remaining)·W/N. So `remaining` and what
//!   flows in until the reset always make the same sum, B, however much is taken. A fixed window's reset comes nearer
//!   though nothing comes back, and a sliding window's stays away though everything is there.
//! * More is left than a window could have: what went in the last W and what remains make clearly more than N, for as
//!   long as a window lasts. Right after a fixed window's reset that is so too, but not at its end.
//!
//! A window that is full all the time looks like a bucket that is empty all the time, so an empty one is no sign.

use std::time::Duration;

use crate::model::time::Nanos;

/// Replies that must agree.
const AGREE: u32 = 8;
/// The part of a window for which they must.
const FOR: u32 = 10;
/// Beyond N by so much, what went and what is left cannot be of one window.
const BEYOND: f64 = 1.25;
/// Replies that disagree with what is in force before it is given up.
const DISAGREE: u32 = 8;

/// What a reply says of a limit whose N and W are known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    /// When its call went.
    pub at: Nanos,
    pub remaining: u64,
    pub reset: Option<Duration>,
    /// What had gone in the window before, its own call included.
    pub used: u64,
    pub units: u64,
    pub window: Duration,
}

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    /// A run of replies that all give the same size.
    run: Option<Batch>,
    /// Since when all replies told of more than a window could have.
    beyond: Option<Nanos>,
    against: u32,
    /// Nothing is believed any more.
    given_up: bool,
}

#[derive(Clone, Copy, Debug)]
struct Batch {
    since: Nanos,
    replies: u32,
    least: f64,
    most: f64,
}

impl Evidence {
    /// Hears one more reply. Says how large the bucket is, once that is certain.
    pub fn hear(&mut self, word: Word) -> Option<u64> {
        if self.given_up {
            return None;
        }
        self.by_reset(word).or_else(|| self.by_sum(word))
    }

    /// What was seen was of another N.
    pub fn start_over(&mut self) {
        *self = Evidence { given_up: self.given_up, ..Evidence::default() };
    }

    /// What looked like a bucket did not let through what one would.
    pub fn give_up(&mut self) {
        *self = Evidence { given_up: true, ..Evidence::default() };
    }

    /// Hears a reply while a bucket of `size` is in force; says whether that is still to be believed.
    pub fn supports(&mut self, size: u64, word: Word) -> bool {
        let agrees = match size_of(word) {
            Some(told) => (told - size as f64).abs() <= tolerance(word) * 3.0 + size as f64 * 0.1,
            // It says no more than how much is left: never more than there can be.
            None => word.remaining <= size.saturating_add(2),
        };
        self.against = if agrees { 0 } else { self.against + 1 };
        self.against < DISAGREE
    }

    fn by_reset(&mut self, word: Word) -> Option<u64> {
        let size = size_of(word)?;
        let possible = size <= word.units as f64 + tolerance(word);
        // One that is small cannot be a window of which as little has gone.
        let small =
            size < word.units as f64 / 2.0 && word.used + word.remaining < word.units - word.units / 4;
        let is_empty = (word.remaining as f64) < size / 4.0 && !small;
        if !possible || is_empty {
            self.run = None;
            return None;
        }
        let fresh = Batch { since: word.at, replies: 0, least: size, most: size };
        let run = self.run.unwrap_or(fresh);
        let wider = Batch { least: run.least.min(size), most: run.most.max(size), ..run };
        let run = if wider.most - wider.least > tolerance(word) { fresh } else { wider };
        let run = Batch { replies: run.replies + 1, ..run };
        self.run = Some(run);
        let long_enough = word.at.since(run.since) >= word.window / FOR;
        (run.replies >= AGREE && long_enough).then_some((run.least.round() as u64).max(1))
    }

    fn by_sum(&mut self, word: Word) -> Option<u64> {
        let sum = word.used as f64 + word.remaining as f64;
        // What went before N was lowered says nothing.
        if sum < word.units as f64 * BEYOND || word.used > word.units {
            self.beyond = None;
            return None;
        }
        let since = *self.beyond.get_or_insert(word.at);
        (word.at.since(since) >= word.window).then_some(word.units)
    }
}

/// How large a bucket is that says this.
fn size_of(word: Word) -> Option<f64> {
    let refill = word.reset?.as_secs_f64() * word.units as f64 / word.window.as_secs_f64();
    Some(word.remaining as f64 + refill)
}

/// Parts of units and of seconds are rounded.
fn tolerance(word: Word) -> f64 {
    (word.units as f64 * 0.03).max(2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// Replies to a call every 100 ms at 600/min, as an upstream with this `remaining` and `reset` tells them.
    fn play(calls: u64, tell: impl FnMut(f64) -> (u64, Option<f64>)) -> Option<(f64, u64)> {
        play_at(600, calls, tell)
    }

    /// The same where at most so many went in a window.
    fn play_at(most: u64, calls: u64, mut tell: impl FnMut(f64) -> (u64, Option<f64>)) -> Option<(f64, u64)> {
        let mut evidence = Evidence::default();
        (0..calls).find_map(|call| {
            let t = call as f64 / 10.0;
            let (remaining, reset) = tell(t);
            let used = (call + 1).min(most);
            let word = Word {
                at: Nanos::ZERO.after(Duration::from_secs_f64(t)),
                remaining,
                reset: reset.map(Duration::from_secs_f64),
                used,
                units: 600,
                window: MINUTE,
            };
            evidence.hear(word).map(|size| (t, size))
        })
    }

    #[test]
    fn a_bucket_that_says_when_it_is_full_is_known_within_seconds() {
        let found = play(600, |_| (599, Some(0.1)));
        assert_eq!(found, Some((6.0, 600)));
    }

    #[test]
    fn a_small_burst_is_told_from_its_rate() {
        let found = play(600, |_| (9, Some(0.1)));
        assert_eq!(found, Some((6.0, 10)), "N in a minute, and ten of them at once");
    }

    #[test]
    fn a_fixed_window_is_no_bucket() {
        let found = play(6_000, |t| (600 - (t % 60.0 * 10.0) as u64, Some(60.0 - t % 60.0)));
        assert_eq!(found, None);
    }

    #[test]
    fn a_sliding_window_is_no_bucket_full_or_not() {
        assert_eq!(play(6_000, |t| ((600.0 - t * 10.0).max(0.0) as u64, Some(60.0))), None);
        assert_eq!(play_at(60, 6_000, |_| (540, Some(60.0))), None, "little used");
    }

    #[test]
    fn a_bucket_that_only_says_what_is_left_takes_a_window_to_be_known() {
        let found = play(6_000, |_| (599, None));
        let (t, size) = found.expect("more than a window could have");
        assert!((60.0..90.0).contains(&t) && size == 600, "{t} {size}");
        assert_eq!(play(6_000, |t| (600 - (t % 60.0 * 10.0) as u64, None)), None, "a fixed window");
    }

    #[test]
    fn replies_that_disagree_end_the_belief() {
        let mut evidence = Evidence::default();
        let word = |remaining, reset| Word {
            at: Nanos::ZERO,
            remaining,
            reset: Some(Duration::from_secs(reset)),
            used: 100,
            units: 600,
            window: MINUTE,
        };
        assert!(evidence.supports(600, word(300, 30)));
        for _ in 1..DISAGREE {
            assert!(evidence.supports(600, word(300, 60)));
        }
        assert!(!evidence.supports(600, word(300, 60)));
    }
}
