//! What others take of a limit that we share with them, charged to our own meter.

use std::time::Duration;

use super::Engine;
use super::ended::Told;
use super::hear::{BURST_PART, comes_late};
use super::lesson::Lesson;
use super::school::{Marked, ON_ITS_WAY};
use crate::algorithm::Meter;
use crate::model::LimitId;
use crate::model::time::Nanos;

/// What others take is looked at this many times in a window.
const LOOKS: u32 = 20;
/// Less than this share of N is no other.
const NOBODY: f64 = 0.005;
/// Of a smaller limit or bucket each reply tells too little: it is paced and no more.
const LEAST: u64 = 8;

impl Engine {
    /// What a reply says is left, beside what we took.
    pub(super) fn sync(&mut self, marked: Marked, at: Nanos, told: &Told, counted: bool, now: Nanos) {
        let Marked { limit, cost, mut mark, .. } = marked;
        let Some(mirror) = self.upstream.school.mirrors.get_mut(&limit) else { return };
        if !mirror.is_news(mark, at, now) {
            return;
        }
        let Some(remaining) = told.remaining else { return };
        if !counted {
            mark.used = mark.used.saturating_sub(cost);
        }
        if self.sees_algorithm(limit, mark, at, told, now) {
            return;
        }
        let spec = &self.limits.specs[self.limits[limit].spec];
        let Some(rate) = spec.written.rate_of() else { return };
        let units = spec.learned.told(rate.units());
        let window = rate.window();
        let same_n = told.limit.is_none_or(|stated| stated == units);
        if let (Meter::Fixed(fixed), Some(reset), true) = (&mut self.limits[limit].meter, told.reset, same_n)
            && fixed.ends_by(now.after(reset), now)
        {
            self.limits.note_unsaved(limit);
            self.effects.touch(limit, &self.limits);
        }
        let spec = &self.limits.specs[self.limits[limit].spec];
        let (whole, until) = match &self.limits[limit].meter {
            Meter::Bucket(_) => {
                (spec.learned.bucket.unwrap_or(spec.written.whole()).min(units), Nanos::NEVER)
            }
            // It was counted in a window that is over.
            Meter::Fixed(fixed) if at < fixed.bounds().0 => return,
            Meter::Fixed(_) => (units, Nanos::NEVER),
            _ => (units, told.reset.map_or(Nanos::NEVER, |reset| lasts(at, reset, window))),
        };
        if until <= now || whole < LEAST {
            return;
        }
        let Some(mirror) = self.upstream.school.mirrors.get_mut(&limit) else { return };
        mirror.heard_now(at, until, window, now);
        if remaining.saturating_add(cost) >= whole {
            mirror.was_whole();
        }
        let more = mirror.correction(mark, whole, remaining);
        // What comes as a call goes on is not counted yet: nothing of that may be given back.
        let uncounted = if comes_late(&spec.written) { i128::from(mark.in_flight) } else { 0 };
        if more > 0 && until != Nanos::NEVER && is_sudden(more, units, until.since(at), window) {
            return;
        }
        if more > 0 {
            let more = u64::try_from(more).unwrap_or(u64::MAX);
            let charged = self.charge_others(limit, more, now);
            if let Some(mirror) = self.upstream.school.mirrors.get_mut(&limit) {
                mirror.charge(charged, until, now);
            }
        } else if more + uncounted < 0 {
            let less = u64::try_from(-(more + uncounted)).unwrap_or(u64::MAX);
            // A refusal is no sign that there is room, nor is what remains of another N: requests of ours that were
            // refused stay counted then.
            self.refund_others(limit, less, counted && same_n, now);
        }
        self.leave_room_for_others(limit, window, now);
    }

    /// Charges what others took to a limit; says how much of it counts there.
    pub(super) fn charge_others(&mut self, limit: LimitId, units: u64, now: Nanos) -> u64 {
        let units = self.limits[limit].meter.charge_others(units, now);
        self.charge_lent(limit, units, now);
        if units > 0 {
            self.effects.touch(limit, &self.limits);
            if self.upstream.school.keeps_books {
                let limit = self.limit_name(limit);
                self.tell(Lesson::Charged { limit, units });
            }
        }
        units
    }

    /// Gives back up to `units` that were charged for others and, `with_own`, for refused requests of ours.
    fn refund_others(&mut self, limit: LimitId, units: u64, with_own: bool, now: Nanos) {
        let mut left = units;
        while left > 0
            && let Some(mirror) = self.upstream.school.mirrors.get_mut(&limit)
            && let Some((units, charged)) = mirror.take_back(left, with_own)
        {
            left -= units;
            self.give_back_to_others(limit, units, charged, now);
        }
    }

    pub(super) fn give_back_to_others(&mut self, limit: LimitId, units: u64, charged: Nanos, now: Nanos) {
        self.limits[limit].meter.refund(units, charged, now);
        self.effects.touch(limit, &self.limits);
        if self.upstream.school.keeps_books {
            let limit = self.limit_name(limit);
            self.tell(Lesson::Refunded { limit, units, charged });
        }
    }

    /// What others take before we hear of it is left alone.
    fn leave_room_for_others(&mut self, limit: LimitId, window: Duration, now: Nanos) {
        let index = self.limits[limit].spec;
        let Some(mirror) = self.upstream.school.mirrors.get_mut(&limit) else { return };
        let Some(others) = mirror.look(window, window / LOOKS, now) else { return };
        // They come as they like: what we expect of them is charged, and some times what that may differ by left alone.
        let unheard = others * mirror.lag();
        let spec = &self.limits.specs[index];
        let Some(rate) = spec.written.rate_of().filter(|_| !spec.per_key) else { return };
        // A bucket may be small, and what is left alone in it is not lost.
        let margin = if matches!(self.limits[limit].meter, Meter::Bucket(_)) { 2.0 } else { 2.5 };
        let guard = match others * window.as_secs_f64() < rate.units() as f64 * NOBODY {
            true => 0,
            false => (margin * unheard.sqrt()).ceil() as u64,
        };
        let before = spec.learned.guard;
        if guard.abs_diff(before) > before / 4 {
            self.limits.specs[index].learned.guard = guard;
            self.relearn(index, now);
            let limit = self.limit_name(limit);
            self.tell(Lesson::Others { limit, rate: others });
        }
    }
}

/// Whether so much cannot have been taken by others since we last heard and be there again so soon: then what is told
/// is how much may go at once, and not how much is left of a window.
fn is_sudden(more: i128, units: u64, restored: Duration, window: Duration) -> bool {
    more > i128::from(units / 10) && restored < window / BURST_PART
}

/// Until when what a reply tells about a call that went at `at` holds: until the limit is restored, or as long as what
/// was taken counts anyway.
fn lasts(at: Nanos, reset: Duration, window: Duration) -> Nanos {
    if reset < window.mul_f64(0.95) { at.after(reset + ON_ITS_WAY) } else { Nanos::NEVER }
}
