//! Usage by others on the same key: it is charged to our limits, and room is left for it.

use crate::funding::loans;
use crate::limits::meters::Meter;
use crate::model::LimitId;
use crate::model::time::Nanos;
use crate::routing::state::Base;
use crate::routing::{define, names};
use crate::upstream::announce;
use crate::upstream::event::Lesson;
use crate::upstream::state::Upstream;
use std::time::Duration;

/// What others take is looked at this many times in a window.
const LOOKS: u32 = 20;

/// Less than this share of N is no other.
const NOBODY: f64 = 0.005;

/// Charges what others took to a limit; says how much of it counts there.
pub(crate) fn charge_others(
    u: &mut Upstream,
    base: &mut Base,
    limit: LimitId,
    units: u64,
    now: Nanos,
) -> u64 {
    let units = base.limits[limit].meter.charge_others(units, now);
    loans::charge_funded(&mut base.funding, &mut base.limits, limit, units, now);
    if units > 0 {
        base.limits.touch(limit, &mut base.effects);
        if u.learning.keeps_books {
            let limit = names::limit_name(base, limit);
            announce::tell(u, base, Lesson::Charged { limit, units });
        }
    }
    units
}

/// Gives back up to `units` that were charged for others and, `with_own`, for refused requests of ours.
pub(crate) fn refund_others(
    u: &mut Upstream,
    base: &mut Base,
    limit: LimitId,
    units: u64,
    with_own: bool,
    now: Nanos,
) {
    let mut left = units;
    while left > 0
        && let Some(mirror) = u.learning.mirrors.get_mut(&limit)
        && let Some((units, charged)) = mirror.take_back(left, with_own)
    {
        left -= units;
        give_back_to_others(u, base, limit, units, charged, now);
    }
}

pub(crate) fn give_back_to_others(
    u: &mut Upstream,
    base: &mut Base,
    limit: LimitId,
    units: u64,
    charged: Nanos,
    now: Nanos,
) {
    base.limits[limit].meter.refund(units, charged, now);
    base.limits.touch(limit, &mut base.effects);
    if u.learning.keeps_books {
        let limit = names::limit_name(base, limit);
        announce::tell(u, base, Lesson::Refunded { limit, units, charged });
    }
}

/// What others take before we hear of it is left alone.
pub(crate) fn leave_room_for_others(
    u: &mut Upstream,
    base: &mut Base,
    limit: LimitId,
    window: Duration,
    now: Nanos,
) {
    let index = base.limits[limit].spec;
    let Some(mirror) = u.learning.mirrors.get_mut(&limit) else { return };
    let Some(others) = mirror.look(window, window / LOOKS, now) else { return };
    // They come as they like: what we expect of them is charged, and some times what that may differ by left alone.
    let unheard = others * mirror.lag();
    let spec = &base.limits.specs[index];
    let Some(rate) = spec.written.rate_of().filter(|_| !spec.per_key) else { return };
    // A bucket may be small, and what is left alone in it is not lost.
    let margin = if matches!(base.limits[limit].meter, Meter::Bucket(_)) { 2.0 } else { 2.5 };
    let guard = match others * window.as_secs_f64() < rate.units() as f64 * NOBODY {
        true => 0,
        false => (margin * unheard.sqrt()).ceil() as u64,
    };
    let before = spec.learned.guard;
    if guard.abs_diff(before) > before / 4 {
        base.limits.specs[index].learned.guard = guard;
        define::relearn(base, index, now);
        let limit = names::limit_name(base, limit);
        announce::tell(u, base, Lesson::Others { limit, rate: others });
    }
}
