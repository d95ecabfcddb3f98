//! Whose calls a backoff window concerns: by the key that names it, by what a call was of, by the limit that a reply
//! names.

use std::cmp::Reverse;
use std::sync::Arc;

use super::ended::Exhausted;
use super::{Engine, InFlightCall, SLOT};
use crate::config::BackoffConfig;
use crate::limit::Counts;
use crate::model::time::Nanos;
use crate::model::{LimitId, RouteId, ServiceId, SpecId};

/// Whose calls a window concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Everything,
    Service(ServiceId),
    /// An API key that has limits of its own.
    Key(ServiceId, Box<str>),
    /// A pattern of the config.
    Endpoint(ServiceId, Box<str>),
    /// A pattern of the config.
    Model(ServiceId, Box<str>),
    /// A model that no pattern names.
    OtherModel(ServiceId, Arc<str>),
    LoopType(Box<str>),
    /// Those that pay at this limit.
    Limit(LimitId),
}

/// A backoff window as routes see it.
#[derive(Clone, Debug)]
pub(crate) struct Overlay {
    pub key: Arc<str>,
    pub scope: Scope,
    /// The limit that holds calls.
    pub limit: LimitId,
    /// Calls go throttled until then.
    pub tail: Nanos,
}

impl Engine {
    /// The limit on a call's way that mirrors one of the upstream's. The narrowest level counts; of several windows
    /// the stated one, else the shortest that lasts until the reset.
    pub(super) fn limit_exhausted(&self, call: &InFlightCall, exhausted: &Exhausted) -> Option<LimitId> {
        let reset = exhausted.reset.unwrap_or_default();
        let candidates = self.routing.skeletons[call.skeleton].uses.iter().filter_map(|&(limit, _)| {
            let spec = &self.limits.specs[self.limits[limit].spec];
            let Counts::Rate { dimension, rate, .. } = &spec.definition.counts else { return None };
            let window = rate.window();
            let stated = exhausted.window.is_none_or(|stated| stated == window);
            let is_it = *dimension == exhausted.dimension && stated && super::change::mirrors(&spec.level);
            is_it.then_some((depth(&spec.level), window < reset, window, limit))
        });
        candidates.min().map(|(.., limit)| limit)
    }

    /// The narrowest thing that a call is known to be of: its model, else its key, else its service.
    pub(super) fn narrowest(&self, call: &InFlightCall, model: Option<&str>) -> Scope {
        let skeleton = &self.routing.skeletons[call.skeleton];
        let service = skeleton.service;
        let key = &skeleton.key;
        let pattern = key.model.clone().map(|pattern| Scope::Model(service, pattern));
        let other = || Some(Scope::OtherModel(service, key.other_model.clone().or(model.map(Into::into))?));
        let own_key = || Some(Scope::Key(service, key.key.clone()?));
        pattern.or_else(other).or_else(own_key).unwrap_or(Scope::Service(service))
    }

    /// Which units decide whether calls of a route concern a window: the call itself, or what a limit counts.
    pub(super) fn slot_on(&self, scope: &Scope, skeleton: RouteId) -> Option<u8> {
        let held = &self.routing.skeletons[skeleton];
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
    pub(super) fn scope_named(&self, key: &str) -> Option<Scope> {
        if let Some(limit) = self.limit_named(key) {
            let held = &self.limits[limit];
            // Neither is on the way of calls all the time.
            let throttles = matches!(self.limits.specs[held.spec].definition.counts, Counts::Throttled(_));
            return (held.owner.is_nil() && !throttles).then_some(Scope::Limit(limit));
        }
        if key == "global" {
            return Some(Scope::Everything);
        }
        if let Some(name) = key.strip_prefix("loop_type:") {
            return self.routing.loop_types.contains_key(name).then(|| Scope::LoopType(name.into()));
        }
        let (name, rest) = key.split_once('/').map_or((key, None), |(name, rest)| (name, Some(rest)));
        let index = *self.routing.service_index.get(name)?;
        let service = &self.routing.services[index];
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

    pub(super) fn key_of(&self, scope: &Scope) -> Arc<str> {
        let service = |index: &ServiceId| {
            let named = self.routing.service_index.iter().find(|(_, known)| *known == index);
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
            Scope::Limit(limit) => self.limit_name(*limit),
        }
    }

    /// The rules of the service that a window belongs to; one over several has the usual ones.
    pub(super) fn rules_of(&self, scope: &Scope) -> BackoffConfig {
        let service = self.service_in(scope);
        service.map_or_else(BackoffConfig::default, |service| self.routing.services[service].backoff.clone())
    }

    /// The only service whose calls a window holds, if there is one.
    pub(super) fn service_in(&self, scope: &Scope) -> Option<ServiceId> {
        match scope {
            Scope::Everything | Scope::LoopType(_) => None,
            Scope::Service(service)
            | Scope::Key(service, _)
            | Scope::Endpoint(service, _)
            | Scope::Model(service, _)
            | Scope::OtherModel(service, _) => Some(*service),
            Scope::Limit(limit) => self.service_at(self.limits[*limit].spec),
        }
    }
}

/// Orders levels by how narrow they are, the narrowest first: those below the service have a part more in their name.
pub(super) fn depth(level: &str) -> Reverse<u8> {
    Reverse(level.contains("/model:") as u8 * 2 + level.contains("/endpoint:") as u8)
}
