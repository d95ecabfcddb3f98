//! Which of our limits a reply states something about.
//!
//! Most replies do not say which window they mean. GitHub states 5,000 requests an hour on every reply, beside any
//! shorter limit that it enforces without a word. A reply moves a limit only if it can be about that limit:
//!
//! * It counts the same unit, at a level that mirrors the upstream.
//! * Its window is the limit's own, if it states one. If it does not, its reset is not further away than the limit
//!   takes to be whole again.
//! * Its N was never seen with a reset that is far beyond that. An hourly limit has its last minute too: its replies
//!   then look like those of a limit per minute. So an N that belongs to a longer window is remembered as such, and
//!   what was believed of it before is forgotten.

use crate::calls::InFlightCall;
use crate::limits::limit::{Counts, Definition};
use crate::model::dimension::Dimension;
use crate::model::rate::Algorithm;
use crate::model::route_limit::RouteLimit;
use crate::model::time::Nanos;
use crate::model::{LimitId, SpecId};
use crate::routing::overlay::Scope;
use crate::routing::overlay::depth;
use crate::routing::state::Base;
use crate::routing::{define, names};
use crate::upstream::announce;
use crate::upstream::ended::{Exhausted, Told};
use crate::upstream::event::Lesson;
use crate::upstream::state::Upstream;
use std::time::Duration;

/// Resets are rounded to seconds and arrive late: by so much one may exceed the window.
const ROUNDED: Duration = Duration::from_secs(2);

/// A reset beyond the window's end by more than this cannot be explained by clocks that differ.
const SKEWED: Duration = Duration::from_secs(5);

/// How many N of other windows are remembered for each definition.
const REMEMBERED: usize = 4;

/// Whether what a reply says is left can be left of this limit, if the reply does not state N.
fn fits_in(told: &Told, written: &Definition) -> bool {
    let most = written.rate_of().map_or(0, |rate| rate.units()).max(written.whole());
    told.limit.is_some() || written.lifts || told.remaining.is_none_or(|remaining| remaining <= most)
}

/// How long a limit takes to be whole again: its window, or the time in which a larger bucket fills.
fn whole_after(written: &Definition) -> Duration {
    match &written.counts {
        Counts::Rate { rate, algorithm: Algorithm::TokenBucket, burst: Some(burst), .. } => {
            rate.window().mul_f64((*burst as f64 / rate.units() as f64).max(1.0))
        }
        Counts::Rate { rate, .. } => rate.window(),
        _ => Duration::ZERO,
    }
}

/// Returns the limit of a call's route that a reply states something about, and its unit's place. The narrowest
/// level counts; of several windows the stated one, else the one with that N, else the shortest that lasts until
/// the reset.
pub(crate) fn limit_meant(u: &Upstream, base: &Base, call: &InFlightCall, told: &Told) -> Option<RouteLimit> {
    let reset = told.reset.unwrap_or_default();
    let candidates = candidates(base, call, told).filter_map(|(limit, slot)| {
        let index = base.limits[limit].spec;
        let spec = &base.limits.specs[index];
        let rate = spec.written.rate_of()?;
        let possible = fits_in(told, &spec.written)
            && (told.window.is_some()
                || (reset <= whole_after(&spec.written) + ROUNDED && !is_ruled_out(u, index, told)));
        let other = told.limit.is_some_and(|units| units != rate.units());
        let window = rate.window();
        possible.then_some((
            crate::routing::overlay::depth(&spec.level),
            other,
            window < reset,
            window,
            limit,
            slot,
        ))
    });
    candidates.min().map(|(.., limit, slot)| (limit, slot))
}

/// Notes for which limits a stated N is out of the question, because its reset is too far away. What was learned
/// from earlier replies with that N is forgotten.
pub(crate) fn rule_out(u: &mut Upstream, base: &mut Base, call: &InFlightCall, told: &Told, now: Nanos) {
    let (Some(units), Some(reset), None) = (told.limit, told.reset, told.window) else { return };
    let too_far: Vec<(LimitId, SpecId)> = candidates(base, call, told)
        .map(|(limit, _)| (limit, base.limits[limit].spec))
        .filter(|(_, spec)| {
            let written = &base.limits.specs[*spec].written;
            reset > whole_after(written) * 2 + SKEWED && !is_ruled_out(u, *spec, told)
        })
        .collect();
    for (limit, index) in too_far {
        let ruled_out = u.learning.other_windows.entry(index).or_default();
        if ruled_out.len() == REMEMBERED {
            ruled_out.remove(0);
        }
        ruled_out.push(units);
        unlearn(u, base, limit, index, |stated| stated == units, now);
    }
}

/// Forgets how a limit counts, and its N if `is_wrong` says so of what replies stated.
pub(crate) fn unlearn(
    u: &mut Upstream,
    base: &mut Base,
    limit: LimitId,
    index: SpecId,
    is_wrong: impl Fn(u64) -> bool,
    now: Nanos,
) {
    let spec = &mut base.limits.specs[index];
    let Some(written) = spec.written.rate_of() else { return };
    let bucket = spec.learned.bucket.take();
    let stated = spec.learned.units.take_if(|stated| is_wrong(*stated));
    if bucket.is_none() && stated.is_none() {
        return;
    }
    if let Some(mirror) = u.learning.mirrors.get_mut(&limit) {
        mirror.begin_anew();
        mirror.evidence = Default::default();
    }
    define::relearn(base, index, now);
    let name = names::limit_name(base, limit);
    if stated.is_some() {
        let in_force = base.limits.specs[index].learned.told(written.units());
        announce::tell(u, base, Lesson::Units { limit: name.clone(), told: written.units(), in_force });
    }
    if bucket.is_some() {
        announce::tell(u, base, Lesson::Bucket { limit: name, size: None });
    }
}

/// Whether a stated N belongs to another window than this definition's.
fn is_ruled_out(u: &Upstream, spec: SpecId, told: &Told) -> bool {
    let ruled_out = u.learning.other_windows.get(&spec);
    told.limit.is_some_and(|units| ruled_out.is_some_and(|ruled_out| ruled_out.contains(&units)))
}

/// The limits of a call's route that count what the reply states, in its window if it states one.
fn candidates(base: &Base, call: &InFlightCall, told: &Told) -> impl Iterator<Item = RouteLimit> {
    base.routing.routes[call.route_id].uses.iter().copied().filter(|(limit, _)| {
        let held = &base.limits[*limit];
        let spec = &base.limits.specs[held.spec];
        let Counts::Rate { dimension, rate, .. } = &spec.written.counts else { return false };
        *dimension == told.dimension
            && told.window.is_none_or(|stated| stated == rate.window())
            && crate::limits::store::mirrors(&spec.level)
            && held.since <= call.epoch
    })
}

/// The limit that most likely turned a call away: on calls rather than on what they cost, the narrowest, the
/// shortest.
pub(crate) fn most_likely(base: &Base, call: &InFlightCall) -> Option<LimitId> {
    let candidates = base.routing.routes[call.route_id].uses.iter().filter_map(|&(limit, slot)| {
        let spec = &base.limits.specs[base.limits[limit].spec];
        let Counts::Rate { dimension, rate, .. } = &spec.written.counts else { return None };
        let counts =
            call.units[slot as usize] > 0 && crate::limits::store::mirrors(&spec.level) && !spec.per_key;
        let rank =
            (*dimension != Dimension::Requests, crate::routing::overlay::depth(&spec.level), rate.window());
        counts.then_some((rank, limit))
    });
    candidates.min().map(|(_, limit)| limit)
}

/// The limit on a call's way that mirrors one of the upstream's. The narrowest level counts; of several windows
/// the stated one, else the shortest that lasts until the reset.
pub(crate) fn limit_exhausted(base: &Base, call: &InFlightCall, exhausted: &Exhausted) -> Option<LimitId> {
    let reset = exhausted.reset.unwrap_or_default();
    let candidates = base.routing.routes[call.route_id].uses.iter().filter_map(|&(limit, _)| {
        let spec = &base.limits.specs[base.limits[limit].spec];
        let Counts::Rate { dimension, rate, .. } = &spec.definition.counts else { return None };
        let window = rate.window();
        let stated = exhausted.window.is_none_or(|stated| stated == window);
        let is_it = *dimension == exhausted.dimension && stated && crate::limits::store::mirrors(&spec.level);
        is_it.then_some((depth(&spec.level), window < reset, window, limit))
    });
    candidates.min().map(|(.., limit)| limit)
}

/// The narrowest thing that a call is known to be of: its model, else its key, else its service.
pub(crate) fn narrowest(base: &Base, call: &InFlightCall, model: Option<&str>) -> Scope {
    let route_id = &base.routing.routes[call.route_id];
    let service = route_id.service;
    let key = &route_id.key;
    let pattern = key.model.clone().map(|pattern| Scope::Model(service, pattern));
    let other = || Some(Scope::OtherModel(service, key.other_model.clone().or(model.map(Into::into))?));
    let own_key = || Some(Scope::Key(service, key.key.clone()?));
    pattern.or_else(other).or_else(own_key).unwrap_or(Scope::Service(service))
}
