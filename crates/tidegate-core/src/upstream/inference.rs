//! Limits that are not stated are inferred from rejections, from latencies and from refunds.

use crate::calls::InFlightCall;
use crate::limits::limit::Counts;
use crate::limits::store::is_timed;
use crate::model::rate::Algorithm;
use crate::model::time::Nanos;
use crate::model::{LimitId, SpecId};
use crate::routing::state::Base;
use crate::routing::{define, names};
use crate::upstream::event::Lesson;
use crate::upstream::learning::ceiling::{Ceiling, Tally};
use crate::upstream::learning::spread;
use crate::upstream::state::{InferredCeiling, Upstream};
use crate::upstream::{announce, attribution, due};
use std::time::Duration;

/// Where no more go at once or in a window, one that overtakes another may be one too many.
const SMALL: u64 = 100;

/// A pacer lets at most this part of N go at once, whatever calls give back.
const MOST_AT_ONCE: u64 = 16;

/// Brings a limit back to what is written of it, as far as replies and refusals moved it.
pub(crate) fn forget_what_replies_taught(u: &mut Upstream, base: &mut Base, limit: LimitId, now: Nanos) {
    let index = base.limits[limit].spec;
    u.learning.other_windows.remove(&index);
    attribution::unlearn(u, base, limit, index, |_| true, now);
    if u.learning.ceilings.remove(&index).is_some() {
        base.limits.specs[index].learned.share = 1.0;
        define::relearn(base, index, now);
        let name = names::limit_name(base, limit);
        announce::tell(u, base, Lesson::Ceiling { limit: name, share: 1.0 });
    }
}

/// A call was turned away: calls may lie further apart than was thought.
pub(crate) fn widen_jitter(base: &mut Base, call: &InFlightCall, now: Nanos) {
    if base.limits.apart.is_zero() {
        return;
    }
    for (limit, _) in base.routing.routes[call.route_id].uses.clone() {
        let index = base.limits[limit].spec;
        let learned = &mut base.limits.specs[index].learned;
        if learned.remote && !std::mem::replace(&mut learned.wary, true) {
            define::relearn(base, index, now);
        }
    }
}

/// A call was turned away, and nothing that was told says why.
pub(crate) fn rejected_without_reason(u: &mut Upstream, base: &mut Base, call: &InFlightCall, now: Nanos) {
    let Some(limit) = attribution::most_likely(base, call) else { return };
    let index = base.limits[limit].spec;
    let Some(rate) = base.limits.specs[index].written.rate_of() else { return };
    let units = base.limits.specs[index].learned.told(rate.units());
    if base.limits.specs[index].learned.bucket.take().is_some() {
        // Whatever it is, it does not like what a bucket would.
        if let Some(mirror) = u.learning.mirrors.get_mut(&limit) {
            mirror.begin_anew();
            mirror.evidence.give_up();
        }
        define::relearn(base, index, now);
        let limit = names::limit_name(base, limit);
        announce::tell(u, base, Lesson::Bucket { limit, size: None });
    }
    let inferred = u.learning.ceilings.entry(index).or_insert_with(|| InferredCeiling {
        tally: Tally::new(rate.window(), units, now),
        ceiling: Ceiling::default(),
    });
    let through = inferred.tally.sum(now) as f64 / units as f64;
    if inferred.ceiling.refused(call.at, through, rate.window(), now) {
        infer_ceiling(u, base, index, limit, now);
    } else if base.limits.specs[index].learned.jitter.is_zero()
        && base.limits.specs[index].written.whole() <= SMALL
    {
        // It may be that it overtook another, which matters where few go: nobody knows yet by how much they do.
        base.limits.specs[index].learned.jitter = spread::MOST;
        define::relearn(base, index, now);
        let limit = names::limit_name(base, limit);
        announce::tell(u, base, Lesson::Jitter { limit, apart: spread::MOST });
    }
    due::see_what_is_due(u, base);
}

/// A call went through: so much the upstream allows.
#[inline]
pub(crate) fn count_passed(u: &mut Upstream, base: &mut Base, call: &InFlightCall, now: Nanos) {
    if u.learning.ceilings.is_empty() {
        return;
    }
    for &(limit, slot) in &base.routing.routes[call.route_id].uses {
        if let Some(inferred) = u.learning.ceilings.get_mut(&base.limits[limit].spec) {
            inferred.tally.add(call.units[slot as usize], now);
        }
    }
}

pub(crate) fn infer_ceiling(u: &mut Upstream, base: &mut Base, spec: SpecId, limit: LimitId, now: Nanos) {
    let Some(inferred) = u.learning.ceilings.get(&spec) else { return };
    let share = inferred.ceiling.share();
    if share >= 1.0 && inferred.ceiling.due().is_never() {
        u.learning.ceilings.remove(&spec);
    }
    base.limits.specs[spec].learned.share = share;
    define::relearn(base, spec, now);
    let limit = names::limit_name(base, limit);
    announce::tell(u, base, Lesson::Ceiling { limit, share });
}

/// A reply took so long: how far may calls lie apart?
pub(crate) fn took(u: &mut Upstream, base: &mut Base, call: &InFlightCall, now: Nanos) {
    let service = base.routing.routes[call.route_id].service;
    let spread = u.learning.spreads.entry(service).or_default();
    let Some(apart) = spread.hear(now.since(call.at)) else { return };
    let uses = base.routing.routes[call.route_id].uses.clone();
    for (limit, _) in uses {
        let index = base.limits[limit].spec;
        let spec = &base.limits.specs[index];
        let before = spec.learned.jitter;
        let differs = apart.abs_diff(before) > (before / 4).max(Duration::from_millis(2));
        if !differs
            || !crate::limits::store::mirrors(&spec.level)
            || !is_timed(&spec.definition, !base.limits.apart.is_zero())
        {
            continue;
        }
        base.limits.specs[index].learned.jitter = apart;
        define::relearn(base, index, now);
        let limit = names::limit_name(base, limit);
        announce::tell(u, base, Lesson::Jitter { limit, apart });
    }
}

/// A call gives back a part of what it reserved: a pacer must be able to hold that.
pub(crate) fn widen_burst(u: &mut Upstream, base: &mut Base, limit: LimitId, reserved: u64) {
    let index = base.limits[limit].spec;
    let spec = &mut base.limits.specs[index];
    let Counts::Rate { algorithm: Algorithm::SlidingWindow, burst: Some(burst), rate, .. } =
        spec.definition.counts
    else {
        return;
    };
    let most = rate.units() / MOST_AT_ONCE;
    let wanted = reserved.saturating_mul(2).min(most);
    if wanted > burst && crate::limits::store::mirrors(&spec.level) {
        // Half as much again, so that calls that grow do not have everything planned anew each time.
        spec.learned.burst = (wanted + wanted / 2).min(most);
        u.learning.unplanned.insert(index);
    }
}
