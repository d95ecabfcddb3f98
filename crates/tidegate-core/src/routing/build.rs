//! Lists the limits of a route: those of its levels, overlays, and throttles.

use crate::config::Reserve;
use crate::limits::limit::{Counts, Definition};
use crate::limits::meters::Meter;
use crate::model::dimension::Dimension;
use crate::model::pattern::Pattern;
use crate::model::route_limit::RouteLimit;
use crate::model::time::Nanos;
use crate::model::{LimitId, RouteId, SLOT, SpecId};
use crate::routing::route::RouteTerms;
use crate::routing::state::Base;
use crate::routing::{define, scope};
use std::collections::BTreeSet;

/// Lists the limits of these routes anew. The lanes on them are bound anew when effects are applied.
pub(crate) fn reroute(base: &mut Base, routes: &BTreeSet<RouteId>, now: Nanos) {
    for &route_id in routes {
        list_limits(base, route_id, now);
    }
    base.effects.reroute.extend(routes);
}

/// Lists the limits that calls of a route must pass, under the config in force.
pub(crate) fn list_limits(base: &mut Base, index: RouteId, now: Nanos) {
    let key = base.routing.routes[index].key.clone();
    let service = &base.routing.services[key.service];
    let of = |patterns: &[(Pattern, Vec<SpecId>)], text: &Option<Box<str>>| -> Vec<SpecId> {
        let found = patterns.iter().find(|(pattern, _)| Some(pattern.text()) == text.as_deref());
        found.map(|(_, specs)| specs.clone()).unwrap_or_default()
    };
    let mut specs = base.routing.global.clone();
    specs.extend(&service.specs);
    specs.extend(of(&service.endpoints, &key.endpoint));
    specs.extend(of(&service.models, &key.model));
    specs.extend(of(&service.models, &key.second_model));
    let loop_type = key.loop_type.as_ref().and_then(|name| base.routing.loop_types.get(name)).cloned();
    specs.extend(loop_type.iter().flat_map(|loop_type| &loop_type.specs));
    let (observe, keep, penalty) =
        (service.observe, service.keep, service.replies.backoff.byte_penalty_multiplier.max(1));
    let endpoints = &service.breakers.endpoints;
    let own = endpoints.iter().find(|(pattern, _)| Some(pattern) == key.endpoint.as_ref());
    specs.extend(own.map(|(_, spec)| *spec).or(service.breakers.others));

    let counted = specs.iter().chain(&base.routing.loop_specs);
    let used: Vec<Dimension> =
        counted.filter_map(|spec| base.limits.specs[*spec].definition.dimension()).collect();
    base.routing.routes[index].layout.lay_out(&used);
    let mut uses = Vec::with_capacity(specs.len());
    let mut throttles = Vec::new();
    for spec in specs {
        let limit = define::instance(base, spec, key.key.as_deref(), now);
        let throttled = matches!(base.limits.specs[spec].definition.counts, Counts::Throttled(_));
        let kind = if throttled { &mut throttles } else { &mut uses };
        kind.push((limit, slot_of(base, index, spec)));
    }
    let loop_slots = base.routing.loop_specs.iter().map(|spec| slot_of(base, index, *spec)).collect();
    let meter = |limit: LimitId| &base.limits[limit].meter;
    let slots = uses.iter().filter(|(limit, _)| matches!(meter(*limit), Meter::InFlight(_)));
    let slots = slots.copied().collect();
    let breaker = uses.iter().find(|(limit, _)| matches!(meter(*limit), Meter::Circuit(_)));
    let breaker = breaker.map_or(LimitId::NIL, |(limit, _)| *limit);
    // Windows on a limit look for it among these.
    base.routing.routes[index].uses = uses;
    let (windows, throttled) = windows_on(base, index, now);
    if throttles.is_empty() {
        throttles.extend(throttle_by_rate(base, index, throttled, now));
    }
    let budget = |spec: SpecId| matches!(base.limits.specs[spec].definition.counts, Counts::ByteBudget(_));
    let uses = &base.routing.routes[index].uses;
    let dearer = !throttles.is_empty()
        || uses.iter().any(|(limit, _)| budget(base.limits[*limit].spec))
        || base.routing.loop_specs.iter().any(|spec| budget(*spec));
    let route_id = &mut base.routing.routes[index];
    route_id.throttle.active = throttled;
    route_id.penalty = if throttled && dearer { penalty } else { 0 };
    if throttled {
        route_id.uses.extend(&throttles);
    }
    route_id.uses.extend(windows);
    route_id.slots = slots;
    route_id.throttle.limits = throttles;
    route_id.breaker = breaker;
    see_what_is_mirrored(base, index);
    let route_id = &mut base.routing.routes[index];
    route_id.loop_slots = loop_slots;
    route_id.terms = RouteTerms {
        priority: loop_type.as_ref().and_then(|t| t.priority).unwrap_or_default(),
        inverse: loop_type.map_or(1 << 32, |t| t.inverse),
        observe,
        keep,
    };
}

fn slot_of(base: &Base, route_id: RouteId, spec: SpecId) -> u8 {
    let dimension = base.limits.specs[spec].definition.dimension();
    dimension.map_or(SLOT, |dimension| base.routing.routes[route_id].layout.slot(&dimension))
}

/// Which limits of a route replies have told of.
pub(crate) fn see_what_is_mirrored(base: &mut Base, route_id: RouteId) {
    let held = &mut base.routing.routes[route_id];
    let ramps = base.routing.services[held.service].ramps;
    let mirrored = |(limit, _): &RouteLimit| base.limits[*limit].mirrored;
    held.mirrored = held.uses.iter().copied().filter(mirrored).collect();
    held.noted = ramps || !held.breaker.is_nil() || !held.mirrored.is_empty();
}

/// The limit on the throttled calls of a route for which none is set: made when they first go throttled, and kept,
/// since calls that took from it give back to it later.
fn throttle_by_rate(base: &mut Base, route_id: RouteId, throttled: bool, now: Nanos) -> Option<RouteLimit> {
    let held = &base.routing.routes[route_id];
    let key = held.key.key.clone();
    let on_calls = held.uses.iter().filter_map(|&(limit, _)| {
        let spec = base.limits[limit].spec;
        let of = &base.limits.specs[spec];
        let Counts::Rate { dimension: Dimension::Requests, rate, .. } = &of.definition.counts else {
            return None;
        };
        let rank = (crate::routing::overlay::depth(&of.level), rate.window());
        crate::limits::store::mirrors(&of.level).then_some((rank, spec))
    });
    let (_, spec) = on_calls.min()?;
    let of = &base.limits.specs[spec];
    let (level, per_key) = (of.level.clone(), of.per_key);
    let throttle = match base.limits.throttle_of(&level) {
        Some(known) => known,
        None => {
            let bound = base.routing.throttle_bounds.get(&spec).copied().filter(|_| throttled)?;
            let definition = Definition::in_flight(Counts::Throttled(bound), Reserve::default());
            define::define_one(base, &level, definition, per_key, now)
        }
    };
    Some((define::instance(base, throttle, key.as_deref(), now), SLOT))
}

/// What the windows add to a route: the limits, and whether its calls go throttled.
fn windows_on(base: &Base, route_id: RouteId, now: Nanos) -> (Vec<RouteLimit>, bool) {
    let on_it = base
        .routing
        .overlays
        .iter()
        .filter_map(|window| Some((window, scope::slot_on(base, &window.scope, route_id)?)));
    let mut throttled = false;
    let uses = on_it.map(|(window, slot)| {
        throttled |= window.tail > now;
        (window.limit, slot)
    });
    let uses = uses.collect();
    (uses, throttled)
}
