//! Reads what a reply states, and reviews what was learned when that is due.

use crate::calls::InFlightCall;
use crate::config::{Headers, Limits};
use crate::limits::limit::{Counts, Definition};
use crate::limits::store::mirrors;
use crate::model::time::Nanos;
use crate::model::{CallId, LimitId, SpecId};
use crate::routing::state::Base;
use crate::routing::{define, names};
use crate::upstream::ended::Told;
use crate::upstream::event::Lesson;
use crate::upstream::state::Upstream;
use crate::upstream::{
    adaptive_concurrency, announce, attribution, call_marks, due, external_usage, header_sync, inference,
    slowdown,
};

fn definitions(limits: &Limits, mirrors: bool) -> Vec<Definition> {
    let rates = limits.rates.iter().map(|rate| Definition::rate(rate, limits.reserve, mirrors));
    let slots = limits.concurrency.map(Counts::Concurrency);
    let throttled = limits.throttled_concurrency.map(Counts::Throttled);
    let bytes = limits.byte_budget.map(Counts::ByteBudget);
    let in_flight = slots.into_iter().chain(throttled).chain(bytes);
    rates.chain(in_flight.map(|counts| Definition::in_flight(counts, limits.reserve))).collect()
}

/// The definitions of one level, each either the one that had its name or a new one.
pub(crate) fn define(
    u: &mut Upstream,
    base: &mut Base,
    level: &str,
    limits: &Limits,
    per_key: bool,
    now: Nanos,
) -> Vec<SpecId> {
    let definitions = definitions(limits, mirrors(level)).into_iter();
    let specs: Vec<SpecId> =
        definitions.map(|definition| define::define_one(base, level, definition, per_key, now)).collect();
    let slots = |spec: &&SpecId| matches!(base.limits.specs[**spec].written.counts, Counts::Concurrency(_));
    if let Some(&spec) = specs.iter().find(slots) {
        adaptive_concurrency::set_adaptive(u, base, spec, limits.adaptive.as_ref(), now);
    }
    specs
}

/// The reply to a call tells of limits; `counted` says that the upstream counted the call. Says whether one of
/// them had no room for it.
pub(crate) fn read_stated_limits(
    u: &mut Upstream,
    base: &mut Base,
    index: CallId,
    call: &InFlightCall,
    told: &[Told],
    counted: bool,
    now: Nanos,
) -> bool {
    if u.learning.due <= now {
        review(u, base, now);
    }
    let service = base.routing.routes[call.route_id].service;
    let headers = base.routing.services[service].replies.headers;
    let marks = match told.is_empty() {
        true => Vec::new(),
        false => call_marks::take_marks(u, index),
    };
    let mut explained = false;
    for told in told {
        attribution::rule_out(u, base, call, told, now);
        let Some((limit, slot)) = attribution::limit_meant(u, base, call, told) else { continue };
        let cost = call.units[slot as usize];
        explained |= told.remaining.is_some_and(|remaining| remaining < cost.max(1));
        if headers == Headers::Ignore
            || !header_sync::learn_units(u, base, limit, told, headers, call.at, now)
        {
            continue;
        }
        let since = base.limits[limit].since;
        let marked = marks.iter().find(|marked| marked.limit == limit && marked.since == since);
        match marked {
            Some(marked) => header_sync::sync(u, base, *marked, call.at, told, counted, now),
            None => header_sync::mirror(u, base, limit),
        }
    }
    if !told.is_empty() {
        due::see_what_is_due(u, base);
    }
    explained
}

/// Puts into force what was learned and was left for later.
#[inline]
pub(crate) fn put_learned_in_force(u: &mut Upstream, base: &mut Base, now: Nanos) {
    while let Some(spec) = u.learning.unplanned.pop_first() {
        define::relearn(base, spec, now);
        let limit = base.limits.specs[spec].shared;
        if !limit.is_nil() {
            let burst = base.limits.specs[spec].learned.burst;
            let limit = names::limit_name(base, limit);
            announce::tell(u, base, Lesson::Burst { limit, burst });
        }
    }
}

/// Looks at what was learned and is due.
pub(crate) fn review(u: &mut Upstream, base: &mut Base, now: Nanos) {
    let mirrored: Vec<LimitId> = u.learning.mirrors.keys().copied().collect();
    for limit in mirrored {
        let spec = &base.limits.specs[base.limits[limit].spec];
        let Some(window) = spec.written.rate_of().map(|rate| rate.window()) else { continue };
        while let Some((units, charged)) =
            u.learning.mirrors.get_mut(&limit).and_then(|mirror| mirror.expired(window, now))
        {
            external_usage::give_back_to_others(u, base, limit, units, charged, now);
        }
        let unheard = u.learning.mirrors.get_mut(&limit).and_then(|mirror| mirror.unheard(now));
        if let Some(units) = unheard {
            let charged = external_usage::charge_others(u, base, limit, units, now);
            if let Some(mirror) = u.learning.mirrors.get_mut(&limit) {
                mirror.expect(charged, now);
            }
        }
    }
    let inferred: Vec<SpecId> = u.learning.ceilings.keys().copied().collect();
    for spec in inferred {
        let Some(rate) = base.limits.specs[spec].written.rate_of() else { continue };
        let units = base.limits.specs[spec].learned.told(rate.units());
        let Some(inferred) = u.learning.ceilings.get_mut(&spec) else { continue };
        let through = inferred.tally.sum(now) as f64 / units as f64;
        let limit = base.limits.specs[spec].shared;
        if inferred.ceiling.look(through, rate.window(), now) && !limit.is_nil() {
            inference::infer_ceiling(u, base, spec, limit, now);
        }
    }
    slowdown::review_paces(u, base, now);
    due::see_what_is_due(u, base);
}
