//! What replies say is left of a limit, beside what we know we took.
//!
//! A reply tells how much was left when the upstream counted *its* call. What we took until that call went is known, so
//! what is missing besides is what others took: it is charged to our own meter, where it counts and expires like what we
//! took ourselves. A later reply that tells of more gives it back. So the meter stays the one place that decides, and
//! cannot hold anybody for longer than its window.
//!
//! Four things make that less simple than it sounds:
//!
//! * *Replies come in any order.* Every call is marked when it goes; what is told about one that went before the
//!   latest that was heard of comes too late.
//! * *Replies are late.* By the time one is read, others have told of the same missing units, and they were charged. The
//!   mark remembers how much had been corrected when the call went, so nothing is charged twice.
//! * *Others do not stop while we do not hear of them.* What they take meanwhile is charged at the rate they had; the
//!   next reply says how much it really was.
//! * *A word does not last.* Where the limit is restored before the window is over, as a fixed window's is, what
//!   others took counts only until then.

use std::collections::VecDeque;
use std::time::Duration;

use super::evidence::Evidence;
use crate::model::time::Nanos;

/// What others take is charged at most so often, and for so long after a reply.
const OFTEN: Duration = Duration::from_millis(100);
const KNOWN: Duration = Duration::from_secs(5);

/// How a limit stood when a call went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// The number of the call among those that passed here.
    pub order: u64,
    /// Units that had gone in all, this call's included.
    pub spent: u64,
    /// What counted as used, this call included.
    pub used: u64,
    /// What was reserved by calls in flight, this one included.
    pub in_flight: u64,
    /// By how much what others took had been corrected in all.
    corrected: i64,
}

/// Units that are charged though no call of ours is known to have spent them: what others took, and requests of ours
/// that were refused.
#[derive(Clone, Copy, Debug)]
struct Foreign {
    at: Nanos,
    until: Nanos,
    units: u64,
    /// A refused request of ours.
    own: bool,
}

/// One limit as replies tell of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mirror {
    order: u64,
    spent: u64,
    in_flight: u64,
    /// The latest call that was heard of.
    heard: u64,
    /// What was charged for others because a reply told of it, less what was given back; and because they had a rate.
    corrected: i64,
    expected: i64,
    foreign: VecDeque<Foreign>,
    pub evidence: Evidence,
    /// How long replies take, smoothed.
    lag: f64,
    look: Look,
    /// What others take in a second, and what of that is still to be charged.
    rate: f64,
    owed: f64,
    /// Until when it was charged, and until when that is worth doing: nobody knows for ever.
    charged_to: Nanos,
    known_to: Nanos,
    /// Until when what others take counts.
    lasts: Nanos,
}

/// The last look at what others take.
#[derive(Clone, Debug, Default)]
struct Look {
    at: Nanos,
    /// What had been corrected by then.
    corrected: i64,
    turned: bool,
    smooth: f64,
}

impl Mirror {
    /// A call goes and takes `units`; `used` counts then.
    pub fn mark(&mut self, units: u64, used: u64) -> Mark {
        self.order += 1;
        self.spent = self.spent.wrapping_add(units);
        self.in_flight = self.in_flight.saturating_add(units);
        let Mirror { order, spent, in_flight, corrected, .. } = *self;
        Mark { order, spent, used, in_flight, corrected }
    }

    /// A call that was marked is over.
    pub fn ends(&mut self, units: u64) {
        self.in_flight = self.in_flight.saturating_sub(units);
    }

    /// Whether a reply about this call is news, and if so that it was heard.
    pub fn is_news(&mut self, mark: Mark, at: Nanos, now: Nanos) -> bool {
        let took = now.since(at).as_secs_f64();
        self.lag += (took - self.lag) * if self.lag == 0.0 { 1.0 } else { 0.1 };
        let is_news = mark.order > self.heard;
        self.heard = self.heard.max(mark.order);
        is_news
    }

    /// Calls that went before now say nothing any more: what is counted is another thing.
    pub fn begin_anew(&mut self) {
        self.heard = self.order;
        self.foreign.clear();
    }

    /// The reply to the call of `mark` says that `remaining` of `whole` are left: by how much more others took than we
    /// know; or less, if it is negative.
    pub fn correction(&self, mark: Mark, whole: u64, remaining: u64) -> i128 {
        let room = i128::from(whole) - i128::from(mark.used);
        room - i128::from(remaining) - i128::from(self.corrected.wrapping_sub(mark.corrected))
    }

    /// What we let go after the call of `mark`.
    pub fn sent_after(&self, mark: Mark) -> u64 {
        self.spent.wrapping_sub(mark.spent)
    }

    /// So much is charged to the meter now, and counts until then.
    pub fn charge(&mut self, units: u64, until: Nanos, now: Nanos) {
        self.corrected = self.corrected.wrapping_add(units as i64);
        self.foreign.push_back(Foreign { at: now, until, units, own: false });
    }

    /// A refused request of ours stays in the meter, where it has counted since `at`. A reply that states more
    /// `remaining` than we know of gives it back.
    pub fn keep(&mut self, units: u64, at: Nanos) {
        self.foreign.push_back(Foreign { at, until: Nanos::NEVER, units, own: true });
    }

    /// Takes back up to `units` of what was charged, the latest first: a part of it, and when that was charged. Refused
    /// requests of ours are taken back only `with_own`.
    pub fn take_back(&mut self, units: u64, with_own: bool) -> Option<(u64, Nanos)> {
        let place = self.foreign.iter().rposition(|foreign| with_own || !foreign.own)?;
        let last = self.foreign.get_mut(place)?;
        let part = units.min(last.units);
        last.units -= part;
        let (at, own) = (last.at, last.own);
        if last.units == 0 {
            self.foreign.remove(place);
        }
        self.corrected = self.corrected.wrapping_sub(part as i64);
        if own {
            // It says nothing about what others take: the rate is derived from the sum of both.
            self.expected = self.expected.wrapping_add(part as i64);
        }
        (part > 0).then_some((part, at))
    }

    /// Forgets what has expired by itself after `window`, and takes back what was only said to last until now.
    pub fn expired(&mut self, window: Duration, now: Nanos) -> Option<(u64, Nanos)> {
        while self.foreign.front().is_some_and(|first| now >= first.at.after(window)) {
            self.foreign.pop_front();
        }
        let over = self.foreign.iter().position(|foreign| now >= foreign.until)?;
        let Foreign { units, at, .. } = self.foreign.remove(over)?;
        self.look.turned = true;
        Some((units, at))
    }

    /// When something charged is over before its window is.
    pub fn due(&self, window: Duration) -> Nanos {
        let early = self.foreign.iter().filter(|foreign| foreign.until < foreign.at.after(window));
        early.map(|foreign| foreign.until).min().unwrap_or(Nanos::NEVER)
    }

    /// What others take, in units a second.
    pub fn others(&self) -> f64 {
        self.rate
    }

    /// What others take in a second, if it is time to look at that again.
    pub fn look(&mut self, window: Duration, every: Duration, now: Nanos) -> Option<f64> {
        if now < self.look.at.after(every) {
            return None;
        }
        let span = now.since(self.look.at).as_secs_f64();
        let charged = self.corrected.wrapping_add(self.expected);
        let taken = charged.wrapping_sub(self.look.corrected) as f64 / span;
        let weight = (span / window.as_secs_f64() * 4.0).min(0.5);
        // What came back because a window was over says nothing.
        if !std::mem::take(&mut self.look.turned) && self.look.at > Nanos::ZERO {
            self.look.smooth += (taken - self.look.smooth) * weight;
        }
        self.rate = self.look.smooth.max(0.0);
        (self.look.at, self.look.corrected) = (now, charged);
        Some(self.rate)
    }

    /// A reply told how much is left, which holds until `lasts`: what others take from now on is known for a while.
    pub fn heard_now(&mut self, at: Nanos, lasts: Nanos, window: Duration, now: Nanos) {
        // If nothing was known meanwhile, it begins with what is told.
        if self.rate == 0.0 || self.charged_to >= self.known_to.min(self.lasts) || self.charged_to < at {
            self.owed = self.rate * now.since(at).as_secs_f64();
            self.charged_to = now;
        }
        self.lasts = lasts;
        let lag = Duration::from_secs_f64(self.lag.clamp(0.0, 60.0));
        self.known_to = now.after(KNOWN.min(window / 4 + lag * 2));
    }

    /// Nothing was missing before a call: nobody takes more than flows in, and what they take cannot be seen.
    pub fn was_whole(&mut self) {
        self.look.smooth *= 0.8;
        self.rate *= 0.8;
    }

    /// What others have taken since this was last asked, by their rate.
    pub fn unheard(&mut self, now: Nanos) -> Option<u64> {
        let since = now.since(self.charged_to).as_secs_f64();
        self.charged_to = self.charged_to.max(now);
        if now > self.known_to || now >= self.lasts {
            self.owed = 0.0;
            return None;
        }
        self.owed += self.rate * since;
        let units = self.owed.floor();
        self.owed -= units;
        (units > 0.0).then_some(units as u64)
    }

    /// So much of that is charged to the meter.
    pub fn expect(&mut self, units: u64, now: Nanos) {
        self.expected = self.expected.wrapping_add(units as i64);
        self.foreign.push_back(Foreign { at: now, until: self.lasts, units, own: false });
    }

    /// When that is to be asked next.
    pub fn next_unheard(&self) -> Nanos {
        if self.rate <= 0.0 || self.charged_to >= self.known_to.min(self.lasts) {
            return Nanos::NEVER;
        }
        let step = Duration::from_secs_f64(((1.0 - self.owed) / self.rate).clamp(0.0, 3600.0));
        self.charged_to.after(step.max(OFTEN))
    }

    /// How long replies take, in seconds.
    pub fn lag(&self) -> f64 {
        self.lag
    }
}
