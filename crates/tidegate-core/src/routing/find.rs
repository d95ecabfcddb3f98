//! Finds the route of a call by its shape.

use crate::model::call::{Call, Cost, Shape};
use crate::model::pattern::{Pattern, most_specific};
use crate::model::priority::Priority;
use crate::model::refusal::{Reason, Refusal};
use crate::model::route_limit::RouteLimit;
use crate::model::time::Nanos;
use crate::model::{LimitId, LoopId, RouteId, SpecId};
use crate::routing::layout::Layout;
use crate::routing::route::{Route, RouteKey};
use crate::routing::route::{RouteTerms, Throttle};
use crate::routing::state::{Base, MAX_KEY_ROUTES};
use crate::routing::{build, names, retire, scope};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Shapes remembered at most.
const MAX_SHAPES: usize = 4096;

/// Returns a call's route, if it was found before under this config.
#[inline]
pub(crate) fn known_route(base: &Base, call: &Call) -> Option<RouteId> {
    base.routing.tag.route(call.said.route.load(Ordering::Relaxed))
}

pub(crate) fn resolve_shape(base: &mut Base, shape: &Arc<Shape>, now: Nanos) -> Result<RouteId, Refusal> {
    if let Some(found) = base.routing.tag.route(shape.found.0.load(Ordering::Relaxed)) {
        return Ok(found);
    }
    let route_id = look_up(base, shape, now)?;
    shape.found.0.store(base.routing.tag.mark(route_id), Ordering::Relaxed);
    Ok(route_id)
}

fn look_up(base: &mut Base, shape: &Arc<Shape>, now: Nanos) -> Result<RouteId, Refusal> {
    if let Some(route_id) = base.routing.shapes.get(shape) {
        return Ok(*route_id);
    }
    let unknown = || Refusal::bare(Reason::UnknownService((&*shape.service).into()));
    let service = names::service_named(base, &shape.service).ok_or_else(unknown)?;
    let held = &base.routing.services[service];
    let pick = |patterns: &[(Pattern, Vec<SpecId>)], text: Option<&str>| -> Option<Box<str>> {
        let found = most_specific(patterns.iter().map(|(pattern, _)| pattern).enumerate(), text?)?;
        Some(patterns[found].0.text().into())
    };
    let loop_type = shape.loop_type.clone().filter(|name| base.routing.loop_types.contains_key(name));
    let models = [&shape.model, &shape.other_model];
    let [mut model, mut second_model] = models.map(|model| pick(&held.models, model.as_deref()));
    let set_apart = models.into_iter().flatten().find(|name| held.other_models.contains(name)).cloned();
    if model.is_none() || model == second_model {
        model = second_model.take().or(model);
    }
    let key = RouteKey {
        service,
        endpoint: pick(&held.endpoints, shape.endpoint.as_deref()),
        other_model: set_apart,
        model,
        second_model,
        loop_type,
        key: shape.key.as_ref().filter(|_| held.per_key).map(|key| key.fingerprint(&base.routing.salt)),
    };
    let route_id = match base.routing.route_index.get(&key) {
        Some(route_id) => *route_id,
        None => make_route(base, key, now),
    };
    if base.routing.shapes.len() >= MAX_SHAPES {
        base.routing.shapes.clear();
    }
    base.routing.shapes.insert(shape.clone(), route_id);
    Ok(route_id)
}

fn make_route(base: &mut Base, key: RouteKey, now: Nanos) -> RouteId {
    if key.key.is_some() && base.routing.route_index.len() >= base.routing.key_gc_at {
        forget_idle_keys(base, now);
    }
    let route_id = Route {
        key: key.clone(),
        service: key.service,
        uses: Vec::new(),
        loop_slots: Vec::new(),
        layout: Layout::default(),
        slots: Vec::new(),
        throttle: Throttle::default(),
        penalty: 0,
        breaker: LimitId::NIL,
        mirrored: Vec::new(),
        noted: false,
        terms: RouteTerms { priority: Priority::Normal, inverse: 1 << 32, observe: false, keep: false },
        in_flight: 0,
        lanes: 0,
        granted: 0,
    };
    let (index, old) = base.routing.routes.replace_free(route_id);
    if let Some(old) = old {
        base.routing.services[old.service].counts.granted += old.granted;
    }
    base.routing.route_index.insert(key, index);
    build::list_limits(base, index, now);
    index
}

/// Drops the routes and limits of API keys that nothing uses and to which nothing would be forgiven.
/// It is done when their number has doubled since the last time, so each new key pays for a few.
fn forget_idle_keys(base: &mut Base, now: Nanos) {
    let own = |base: &Base, limit: LimitId| base.limits.specs[base.limits[limit].spec].per_key;
    let mut busy: hashbrown::HashSet<Box<str>> = hashbrown::HashSet::new();
    for (key, route_id) in &base.routing.route_index {
        let Some(name) = &key.key else { continue };
        let held = &base.routing.routes[*route_id];
        let spent = held
            .uses
            .iter()
            .filter(|(limit, _)| own(base, *limit))
            .any(|(limit, _)| !base.limits[*limit].is_idle(now) || scope::has_window(base, *limit));
        if held.in_flight > 0 || held.lanes > 0 || spent {
            busy.insert(name.clone());
        }
    }
    let idle = |name: &str| !name.is_empty() && !busy.contains(name);
    let (routes, index) = (&mut base.routing.routes, &mut base.routing.route_index);
    index.retain(|key, route_id| {
        let gone = key.key.as_deref().is_some_and(idle);
        if gone {
            routes.free(*route_id);
        }
        !gone
    });
    // Freed in an order that does not depend on the hash map's.
    base.routing.routes.sort_free();
    let unused = base.limits.key_limits.matching(|_, name| idle(name));
    // While their keys are known: they are part of the names that their pages have.
    for limit in unused {
        retire::remove_limit(base, limit);
    }
    base.limits.key_limits.forget(|_, name| idle(name));
    // Routes that calls and shapes remember may be gone.
    scope::routes_changed(base);
    base.routing.key_gc_at = (2 * base.routing.route_index.len()).max(MAX_KEY_ROUTES);
}

/// Returns all limits of a route: those that all loops share, then the loop's own.
pub(crate) fn route_of(base: &Base, route_id: RouteId, loop_: LoopId) -> Vec<RouteLimit> {
    let held = &base.routing.routes[route_id];
    let mut route = held.uses.clone();
    let mut at = base.routing.loops.all.get(loop_).map_or(LimitId::NIL, |record| record.first);
    for slot in &held.loop_slots {
        if at.is_nil() {
            break;
        }
        route.push((at, *slot));
        at = base.limits[at].sibling;
    }
    route
}

/// Refuses an invalid cost, or a cost in a dimension that the config does not know.
#[inline(never)]
pub(crate) fn check_cost(base: &Base, cost: &Cost) -> Result<(), Refusal> {
    if cost.bad().is_some() {
        return Err(Refusal::bare(Reason::InvalidCost));
    }
    match cost.custom().iter().find(|(name, _)| !base.routing.customs.contains(name)) {
        Some((name, _)) => Err(Refusal::bare(Reason::UnknownDimension(name.clone()))),
        None => Ok(()),
    }
}
