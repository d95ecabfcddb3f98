//! Which calls a scope covers, by the key that names it, and which routes it is on.

use crate::config::BackoffConfig;
use crate::limits::limit::Counts;
use crate::model::{LimitId, RouteId, RouteTag, SLOT, ServiceId, SpecId};
use crate::routing::names;
use crate::routing::overlay::Scope;
use crate::routing::state::Base;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Which units decide whether calls of a route concern a window: the call itself, or what a limit counts.
pub(crate) fn slot_on(base: &Base, scope: &Scope, route_id: RouteId) -> Option<u8> {
    let held = &base.routing.routes[route_id];
    let key = &held.key;
    let is_on = match scope {
        Scope::Everything => true,
        Scope::Service(service) => held.service == *service,
        Scope::Key(service, name) => held.service == *service && key.key.as_ref() == Some(name),
        Scope::Endpoint(service, pattern) => {
            held.service == *service && key.endpoint.as_ref() == Some(pattern)
        }
        Scope::Model(service, pattern) => {
            held.service == *service
                && [&key.model, &key.second_model].into_iter().flatten().any(|model| model == pattern)
        }
        Scope::OtherModel(service, model) => {
            held.service == *service && key.other_model.as_ref() == Some(model)
        }
        Scope::LoopType(name) => key.loop_type.as_ref() == Some(name),
        Scope::Limit(limit) => {
            return held.uses.iter().find(|(used, _)| used == limit).map(|(_, slot)| *slot);
        }
    };
    is_on.then_some(SLOT)
}

/// What a key stands for.
pub(crate) fn scope_named(base: &Base, key: &str) -> Option<Scope> {
    if let Some(limit) = names::limit_named(base, key) {
        let held = &base.limits[limit];
        // Neither is on the way of calls all the time.
        let throttles = matches!(base.limits.specs[held.spec].definition.counts, Counts::Throttled(_));
        return (held.owner.is_nil() && !throttles).then_some(Scope::Limit(limit));
    }
    if key == "global" {
        return Some(Scope::Everything);
    }
    if let Some(name) = key.strip_prefix("loop_type:") {
        return base.routing.loop_types.contains_key(name).then(|| Scope::LoopType(name.into()));
    }
    let (name, rest) = key.split_once('/').map_or((key, None), |(name, rest)| (name, Some(rest)));
    let index = *base.routing.service_index.get(name)?;
    let service = &base.routing.services[index];
    if service.gone {
        return None;
    }
    let Some(rest) = rest else { return Some(Scope::Service(index)) };
    let has = |patterns: &[(crate::model::pattern::Pattern, Vec<SpecId>)], text: &str| {
        patterns.iter().any(|(pattern, _)| pattern.text() == text)
    };
    if let Some(model) = rest.strip_prefix("model:") {
        let patterns = service.models.iter().map(|(pattern, _)| pattern);
        // A pattern as it stands, or a model that it is for: their calls go one way.
        let pattern = patterns.clone().find(|pattern| pattern.text() == model);
        let pattern = pattern.or_else(|| {
            let found = crate::model::pattern::most_specific(patterns.enumerate(), model)?;
            Some(&service.models[found].0)
        });
        return Some(match pattern {
            Some(pattern) => Scope::Model(index, pattern.text().into()),
            None => Scope::OtherModel(index, model.into()),
        });
    }
    if let Some(endpoint) = rest.strip_prefix("endpoint:") {
        return has(&service.endpoints, endpoint).then(|| Scope::Endpoint(index, endpoint.into()));
    }
    let own = rest.strip_prefix("key:").filter(|_| service.per_key);
    own.map(|own| Scope::Key(index, own.into()))
}

pub(crate) fn key_of(base: &Base, scope: &Scope) -> Arc<str> {
    let service = |index: &ServiceId| {
        let named = base.routing.service_index.iter().find(|(_, known)| *known == index);
        named.map_or("", |(name, _)| &**name)
    };
    match scope {
        Scope::Everything => "global".into(),
        Scope::Service(index) => service(index).into(),
        Scope::Key(index, key) => format!("{}/key:{key}", service(index)).into(),
        Scope::Endpoint(index, pattern) => format!("{}/endpoint:{pattern}", service(index)).into(),
        Scope::Model(index, model) => format!("{}/model:{model}", service(index)).into(),
        Scope::OtherModel(index, model) => format!("{}/model:{model}", service(index)).into(),
        Scope::LoopType(name) => format!("loop_type:{name}").into(),
        Scope::Limit(limit) => names::limit_name(base, *limit),
    }
}

/// The rules of the service that a window belongs to; one over several has the usual ones.
pub(crate) fn rules_of(base: &Base, scope: &Scope) -> BackoffConfig {
    let service = service_in(base, scope);
    service
        .map_or_else(BackoffConfig::default, |service| base.routing.services[service].replies.backoff.clone())
}

/// The only service whose calls a window holds, if there is one.
pub(crate) fn service_in(base: &Base, scope: &Scope) -> Option<ServiceId> {
    match scope {
        Scope::Everything | Scope::LoopType(_) => None,
        Scope::Service(service)
        | Scope::Key(service, _)
        | Scope::Endpoint(service, _)
        | Scope::Model(service, _)
        | Scope::OtherModel(service, _) => Some(*service),
        Scope::Limit(limit) => names::service_at(base, base.limits[*limit].spec),
    }
}

/// Calls and shapes no longer know their routes.
pub(crate) fn routes_changed(base: &mut Base) {
    base.routing.shapes.clear();
    base.routing.tag = RouteTag::fresh();
}

/// Whether a window belongs to a limit.
pub(crate) fn has_window(base: &Base, limit: LimitId) -> bool {
    base.routing.overlays.iter().any(|overlay| overlay.scope == Scope::Limit(limit))
}

/// The routes that a window is on.
pub(crate) fn routes_of(base: &Base, index: usize) -> BTreeSet<RouteId> {
    let window = &base.routing.overlays[index];
    let known = base.routing.route_index.values().copied();
    known.filter(|route_id| slot_on(base, &window.scope, *route_id).is_some()).collect()
}
