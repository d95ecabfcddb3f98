//! A limit that is shut until a time, and then opens at a pace.
//!
//! This is a backoff window as a call meets it: until its end no call goes, then one every [`PACE`] for a second, and
//! after that it holds no call. A window that opened after refusals in a row asks for a slower pace. It counts calls
//! and not what they cost.
//!
//! The first to go after it says so: what the pacers that it takes from saved up meanwhile is a burst that nobody
//! asked for, and the upstream has just said that it is short.

use std::time::Duration;

use crate::limits::meters::UNBOUNDED;
use crate::model::time::Nanos;

/// How far apart calls go in the first second after the end.
const PACE: Duration = Duration::from_millis(5);
/// How long the pace is kept.
const RELEASE: Duration = Duration::from_secs(1);

/// Shut until a time.
#[derive(Clone, Debug)]
pub struct Hold {
    until: Nanos,
    /// When the next one may go, by the pace.
    next: Nanos,
    /// What that was before the latest one went.
    before: Nanos,
    /// How far apart calls go after the end.
    pace: Duration,
    /// Nobody has gone since it was shut.
    fresh: bool,
}

impl Default for Hold {
    fn default() -> Hold {
        Hold { until: Nanos::ZERO, next: Nanos::ZERO, before: Nanos::ZERO, pace: PACE, fresh: false }
    }
}

impl Hold {
    /// Keeps every call back until `until`, and then lets calls go at least `pace` apart. A later end stays.
    pub fn shut(&mut self, until: Nanos, pace: Duration) {
        self.until = self.until.max(until);
        self.pace = pace.clamp(PACE, RELEASE);
        self.next = self.next.max(self.until);
        self.fresh = true;
    }

    /// Whether nobody has gone since it was shut.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Those that wait may go from now on.
    pub fn open(&mut self, now: Nanos) {
        if self.until > now {
            self.until = now;
            self.next = now;
        }
    }

    /// From when on one may go.
    #[must_use]
    pub fn opens(&self) -> Nanos {
        self.next.min(self.paced_until()).max(self.until)
    }

    /// No bound on a cost.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        UNBOUNDED
    }

    /// Whether one may go now.
    #[inline]
    #[must_use]
    pub fn fits(&self, _cost: u64, _withheld: u64, now: Nanos) -> bool {
        now >= self.opens()
    }

    /// From when on one may go.
    #[must_use]
    pub fn earliest(&self, _cost: u64, _withheld: u64) -> Nanos {
        self.opens()
    }

    /// Anything or nothing.
    #[must_use]
    pub fn room(&self, _withheld: u64, now: Nanos) -> u64 {
        if self.fits(1, 0, now) { UNBOUNDED } else { 0 }
    }

    /// Whoever goes now moves those that would go within the pace.
    #[must_use]
    pub fn spare(&self, now: Nanos, _cost: u64, _withheld: u64, at: Nanos) -> u64 {
        if now >= self.paced_until() || at >= now.after(self.pace) { UNBOUNDED } else { 0 }
    }

    /// One goes. `stamp` is when it was due.
    pub fn take(&mut self, stamp: Nanos, now: Nanos) {
        self.fresh = false;
        if now < self.paced_until() {
            self.before = self.next;
            self.next = stamp.max(self.until).after(self.pace);
        }
    }

    /// The latest one did not go after all.
    pub fn undo(&mut self, now: Nanos) {
        if now < self.paced_until() {
            self.next = self.before;
        }
    }

    /// Nothing is counted.
    #[must_use]
    pub fn used(&self, _now: Nanos) -> u64 {
        0
    }

    /// When it holds nobody any more.
    #[must_use]
    pub fn full_at(&self) -> Nanos {
        self.paced_until()
    }

    fn paced_until(&self) -> Nanos {
        // One that was never shut has no pace.
        if self.until == Nanos::ZERO { Nanos::ZERO } else { self.until.after(RELEASE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Nanos {
        Nanos::ZERO.after(Duration::from_millis(ms))
    }

    #[test]
    fn one_that_was_never_shut_holds_nobody() {
        let mut hold = Hold::default();
        for _ in 0..3 {
            assert!(hold.fits(1, 0, Nanos::ZERO));
            hold.take(Nanos::ZERO, Nanos::ZERO);
        }
    }

    #[test]
    fn after_the_end_one_goes_every_five_milliseconds_for_a_second() {
        let mut hold = Hold::default();
        hold.shut(at(100), Duration::ZERO);
        hold.shut(at(50), Duration::ZERO);
        assert!(!hold.fits(1, 0, at(99)));
        for due in (100..1_100).step_by(5) {
            assert_eq!(hold.earliest(1, 0), at(due));
            // A late timer does not slow the pace.
            hold.take(at(due), at(due + 1));
        }
        assert!(hold.fits(1, 0, at(1_100)));
        hold.take(at(1_100), at(1_100));
        assert!(hold.fits(1, 0, at(1_100)), "the pace is over");
    }

    #[test]
    fn a_slower_pace_lets_fewer_go() {
        let mut hold = Hold::default();
        hold.shut(at(100), Duration::from_millis(400));
        for due in [100, 500, 900] {
            assert_eq!(hold.earliest(1, 0), at(due));
            hold.take(at(due), at(due));
        }
        assert_eq!(hold.earliest(1, 0), at(1_100), "the pace is over");
    }

    #[test]
    fn what_is_put_back_was_never_taken() {
        let mut hold = Hold::default();
        hold.shut(at(100), Duration::ZERO);
        hold.take(at(100), at(100));
        hold.undo(at(100));
        assert_eq!(hold.earliest(1, 0), at(100));
    }

    #[test]
    fn opened_early_it_begins_its_pace_then() {
        let mut hold = Hold::default();
        hold.shut(at(60_000), Duration::ZERO);
        hold.open(at(500));
        assert_eq!(hold.earliest(1, 0), at(500));
        hold.take(at(500), at(500));
        assert_eq!(hold.earliest(1, 0), at(505));
        hold.open(at(502));
        assert_eq!(hold.earliest(1, 0), at(505), "it is open already");
    }
}
