//! Header sync: what a reply states about N, about how the upstream counts, and about what is left.

use crate::config::Headers;
use crate::funding::loans;
use crate::limits::limit::Definition;
use crate::limits::meters::Meter;
use crate::model::LimitId;
use crate::model::dimension::Dimension;
use crate::model::rate::{MAX_UNITS, Rate};
use crate::model::time::Nanos;
use crate::routing::state::Base;
use crate::routing::{build, define, names};
use crate::upstream::ended::Told;
use crate::upstream::event::Lesson;
use crate::upstream::learning::evidence::Word;
use crate::upstream::learning::mirror::{Mark, Mirror};
use crate::upstream::state::{Marked, ON_ITS_WAY, Upstream};
use crate::upstream::{announce, external_usage};
use std::time::Duration;

/// A reply that says that a limit is whole again in less than this part of its window tells of a burst, not of N.
pub(crate) const BURST_PART: u32 = 4;

/// Whether what is told is how much may go at once and not how much in a window: it is whole again much too soon.
fn is_burst(told: &Told, units: u64, rate: Rate) -> bool {
    let (Some(remaining), Some(reset)) = (told.remaining, told.reset) else { return false };
    let used = units.saturating_sub(remaining);
    let too_soon = used > 0 && reset.mul_f64(units as f64 / used as f64) < rate.window() / BURST_PART;
    let flows = reset.as_secs_f64() * rate.units() as f64 / rate.window().as_secs_f64();
    let size = remaining as f64 + flows;
    too_soon && (size - units as f64).abs() <= (units as f64 / 10.0).max(2.0)
}

/// Whether the upstream knows only in the end how much of it a call takes.
pub(crate) fn comes_late(definition: &Definition) -> bool {
    let at_once = [Dimension::Requests, Dimension::InputTokens, Dimension::Bytes];
    definition.dimension().is_some_and(|dimension| !at_once.contains(&dimension))
}

/// Of a smaller limit or bucket each reply tells too little: it is paced and no more.
const LEAST: u64 = 8;

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

/// From now on calls are marked when they pass this limit.
pub(crate) fn mirror(u: &mut Upstream, base: &mut Base, limit: LimitId) {
    if u.learning.mirrors.contains_key(&limit) {
        return;
    }
    u.learning.mirrors.insert(limit, Mirror::default());
    base.limits[limit].mirrored = true;
    for route_id in base.routing.routes.ids() {
        if base.routing.routes[route_id].uses.iter().any(|(used, _)| *used == limit) {
            build::see_what_is_mirrored(base, route_id);
        }
    }
}

/// A reply states N. Says whether what it tells is about this limit at all.
pub(crate) fn learn_units(
    u: &mut Upstream,
    base: &mut Base,
    limit: LimitId,
    told: &Told,
    headers: Headers,
    at: Nanos,
    now: Nanos,
) -> bool {
    let index = base.limits[limit].spec;
    let spec = &base.limits.specs[index];
    let Some(rate) = spec.written.rate_of() else { return false };
    let Some(units) = told.limit.filter(|units| *units <= MAX_UNITS) else { return true };
    let lifts = spec.written.lifts || headers == Headers::Authoritative;
    if units < rate.units() && is_burst(told, units, rate) {
        return false;
    }
    // All keys have the same definition, though each may have another limit: then only what is left counts.
    if spec.per_key || (spec.learned.units.unwrap_or(rate.units()), spec.learned.lifts) == (units, lifts) {
        return true;
    }
    let before = spec.learned.told(rate.units());
    let learned = &mut base.limits.specs[index].learned;
    (learned.units, learned.lifts) = (Some(units), lifts);
    let in_force = learned.told(rate.units());
    if in_force != before {
        if let Some(mirror) = u.learning.mirrors.get_mut(&limit) {
            mirror.evidence.start_over();
        }
        if in_force < before && matches!(base.limits[limit].meter, Meter::Bucket(_)) {
            // What flowed in too fast since then, at most.
            let since = now.since(at).as_secs_f64() / rate.window().as_secs_f64();
            let too_much = ((before - in_force) as f64 * since.min(1.0)).ceil() as u64;
            external_usage::charge_others(u, base, limit, too_much, now);
        }
        define::relearn(base, index, now);
        let limit = names::limit_name(base, limit);
        announce::tell(u, base, Lesson::Units { limit, told: units, in_force });
    }
    true
}

/// Whether a reply shows that the upstream counts in another way than we do; then what it says is in force.
fn sees_algorithm(
    u: &mut Upstream,
    base: &mut Base,
    limit: LimitId,
    mark: Mark,
    at: Nanos,
    told: &Told,
    now: Nanos,
) -> bool {
    let index = base.limits[limit].spec;
    let spec = &base.limits.specs[index];
    let (Some(rate), Some(remaining)) = (spec.written.rate_of(), told.remaining) else { return false };
    if !spec.written.is_guess() || spec.per_key {
        return false;
    }
    let units = spec.learned.told(rate.units());
    // A reply about another N says nothing about how this limit counts.
    if told.limit != Some(units) {
        return false;
    }
    let word = Word { at, remaining, reset: told.reset, used: mark.used, units, window: rate.window() };
    let known = spec.learned.bucket;
    let Some(mirror) = u.learning.mirrors.get_mut(&limit) else { return false };
    // What is written is a ceiling of N in any stretch of W: only replies that state this same N show that the upstream
    // counts otherwise. A preset's N is a guess, and so is how it counts.
    let establishes = units == rate.units() || spec.learned.lifts;
    let size = match known {
        None if !establishes => return false,
        None => match mirror.evidence.hear(word) {
            Some(size) => Some(size),
            None => return false,
        },
        Some(size) if mirror.evidence.supports(size, word) => return false,
        Some(_) => None,
    };
    let uncounted = if comes_late(&spec.written) { mark.in_flight } else { 0 };
    let sent = mirror.sent_after(mark).saturating_add(uncounted);
    mirror.begin_anew();
    mirror.evidence = Default::default();
    base.limits.specs[index].learned.bucket = size;
    define::put_in_force(base, index, now);
    if let Some(size) = size {
        let since = now.since(at).saturating_sub(ON_ITS_WAY).as_secs_f64();
        let refilled = (since * units as f64 / rate.window().as_secs_f64()) as u64;
        let left = remaining.saturating_add(refilled).min(size).saturating_sub(sent);
        let meter = &mut base.limits[limit].meter;
        let (used, missing) = (meter.used(now), meter.capacity().saturating_sub(left));
        if used > missing {
            meter.refund(used - missing, now, now);
        } else {
            meter.charge(missing - used, now);
            loans::charge_funded(&mut base.funding, &mut base.limits, limit, missing - used, now);
        }
    }
    base.effects.refit = true;
    let limit = names::limit_name(base, limit);
    announce::tell(u, base, Lesson::Bucket { limit, size });
    true
}

/// What a reply says is left, beside what we took.
pub(crate) fn sync(
    u: &mut Upstream,
    base: &mut Base,
    marked: Marked,
    at: Nanos,
    told: &Told,
    counted: bool,
    now: Nanos,
) {
    let Marked { limit, cost, mut mark, .. } = marked;
    let Some(mirror) = u.learning.mirrors.get_mut(&limit) else { return };
    if !mirror.is_news(mark, at, now) {
        return;
    }
    let Some(remaining) = told.remaining else { return };
    if !counted {
        mark.used = mark.used.saturating_sub(cost);
    }
    if sees_algorithm(u, base, limit, mark, at, told, now) {
        return;
    }
    let spec = &base.limits.specs[base.limits[limit].spec];
    let Some(rate) = spec.written.rate_of() else { return };
    let units = spec.learned.told(rate.units());
    let window = rate.window();
    let same_n = told.limit.is_none_or(|stated| stated == units);
    if let (Meter::Fixed(fixed), Some(reset), true) = (&mut base.limits[limit].meter, told.reset, same_n)
        && fixed.ends_by(now.after(reset), now)
    {
        base.limits.note_unsaved(limit);
        base.limits.touch(limit, &mut base.effects);
    }
    let spec = &base.limits.specs[base.limits[limit].spec];
    let (whole, until) = match &base.limits[limit].meter {
        Meter::Bucket(_) => (spec.learned.bucket.unwrap_or(spec.written.whole()).min(units), Nanos::NEVER),
        // It was counted in a window that is over.
        Meter::Fixed(fixed) if at < fixed.bounds().0 => return,
        Meter::Fixed(_) => (units, Nanos::NEVER),
        _ => (units, told.reset.map_or(Nanos::NEVER, |reset| lasts(at, reset, window))),
    };
    if until <= now || whole < LEAST {
        return;
    }
    let Some(mirror) = u.learning.mirrors.get_mut(&limit) else { return };
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
        let charged = external_usage::charge_others(u, base, limit, more, now);
        if let Some(mirror) = u.learning.mirrors.get_mut(&limit) {
            mirror.charge(charged, until, now);
        }
    } else if more + uncounted < 0 {
        let less = u64::try_from(-(more + uncounted)).unwrap_or(u64::MAX);
        // A refusal is no sign that there is room, nor is what remains of another N: requests of ours that were
        // refused stay counted then.
        external_usage::refund_others(u, base, limit, less, counted && same_n, now);
    }
    external_usage::leave_room_for_others(u, base, limit, window, now);
}
