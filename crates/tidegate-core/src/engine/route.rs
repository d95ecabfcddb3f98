//! Routes: which limits a call must pass.
//!
//! A route is found once per distinct shape of call (service, endpoint, model, loop type, key) and kept as a
//! *skeleton*: the limits that all loops share. A loop's own limits are added when the call comes. Shapes
//! carry whatever text callers send, so the map from shapes is bounded; skeletons are made from the patterns
//! of the config, so there are only so many.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::layout::{Layout, Use};
use super::{Engine, SLOT};
use crate::algorithm::Meter;
use crate::config::{BackoffConfig, Headers, Mode, Queued, SettleRule};
use crate::limit::{Counts, Limit};
use crate::model::call::{Call, Cost, Shape};
use crate::model::dimension::Dimension;
use crate::model::pattern::{Pattern, most_specific};
use crate::model::priority::Priority;
use crate::model::refusal::{Reason, Refusal};
use crate::model::time::Nanos;
use crate::model::{LimitId, LoopId, RouteId, ServiceId, SpecId};

/// Shapes remembered at most.
const MAX_SHAPES: usize = 4096;
/// Skeletons remembered before those of idle API keys are dropped.
pub(super) const MAX_KEY_SKELETONS: usize = 4096;

/// What became of a service's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceCounts {
    /// Went.
    pub granted: u64,
    /// Would not wait, and did not fit.
    pub refused: u64,
    /// Waited in vain.
    pub timed_out: u64,
    /// Pushed out of a full queue.
    pub shed: u64,
    /// Went although they did not fit, because the service is only observed.
    pub would_wait: u64,
}

/// A service of the config.
#[derive(Debug, Default)]
pub(crate) struct Service {
    pub specs: Vec<SpecId>,
    pub endpoints: Vec<(Pattern, Vec<SpecId>)>,
    pub models: Vec<(Pattern, Vec<SpecId>)>,
    pub per_key: bool,
    pub observe: bool,
    pub keep: bool,
    pub aging: u64,
    /// In millionths.
    pub aging_share: i128,
    pub timeout: Option<std::time::Duration>,
    pub max_waiting: usize,
    /// What has a breaker: endpoints by pattern, and all others.
    pub breakers: Breakers,
    /// Whether calls that wait are refused when a breaker opens.
    pub fail_queued: bool,
    pub backoff: BackoffConfig,
    /// Whether a call that was turned away counts at the upstream all the same.
    pub failures_count: bool,
    /// What replies may do to limits.
    pub headers: Headers,
    /// Models that no pattern names and that have routes of their own.
    pub other_models: Vec<Arc<str>>,
    pub counts: ServiceCounts,
    /// Whether it starts slowly after a time without calls.
    pub ramps: bool,
    /// No longer in the config.
    pub gone: bool,
}

/// The breakers of a service.
#[derive(Debug, Default)]
pub(crate) struct Breakers {
    pub endpoints: Vec<(Box<str>, SpecId)>,
    pub others: Option<SpecId>,
}

impl Service {
    pub fn set_rules(&mut self, config: &crate::config::ServiceConfig) {
        self.per_key = config.per_key;
        self.observe = config.mode == Mode::Observe;
        self.keep = config.settle == SettleRule::Keep;
        self.aging = crate::model::time::whole_nanos(config.queue.aging).max(1_000_000);
        self.aging_share = (config.queue.aging_share * 1e6) as i128;
        self.timeout = config.queue.timeout;
        self.max_waiting = config.queue.max_waiting;
        self.fail_queued = config.breaker.as_ref().is_some_and(|breaker| breaker.queued == Queued::Fail);
        self.backoff = config.backoff.clone();
        self.failures_count = config.failures_count;
        self.headers = config.headers;
        self.gone = false;
    }
}

/// A loop type of the config.
#[derive(Clone, Debug)]
pub(crate) struct LoopType {
    pub specs: Vec<SpecId>,
    pub priority: Option<Priority>,
    pub inverse: u64,
}

/// What tells one skeleton from another: patterns, not what callers wrote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SkeletonKey {
    service: ServiceId,
    pub endpoint: Option<Box<str>>,
    pub model: Option<Box<str>>,
    /// The pattern of another model that calls name. At most one, so that there are only so many routes.
    pub second_model: Option<Box<str>>,
    /// A model that no pattern names, if a window sets it apart.
    pub other_model: Option<Arc<str>>,
    pub loop_type: Option<Box<str>>,
    pub key: Option<Box<str>>,
}

/// The part of a route that all loops share.
#[derive(Clone, Debug)]
pub(crate) struct Skeleton {
    pub key: SkeletonKey,
    pub service: ServiceId,
    pub uses: Vec<Use>,
    /// Which units each limit of a loop counts, in the order of the config.
    pub loop_slots: Vec<u8>,
    pub layout: Layout,
    /// The limits that count what is in flight, those on throttled calls apart.
    pub slots: Vec<Use>,
    /// The limits on throttled calls; part of `uses` while calls go throttled.
    pub throttles: Vec<Use>,
    /// Whether calls go throttled.
    pub throttled: bool,
    /// How many times bytes count in flight, if calls go throttled and that makes a difference; else zero.
    pub penalty: u16,
    /// The limit that is a breaker, if there is one.
    pub breaker: LimitId,
    /// The limits of which replies have told.
    pub mirrored: Vec<Use>,
    /// Whether something is to be remembered of each call: a breaker or such a limit is on its way.
    pub noted: bool,
    pub priority: Priority,
    /// 2³² divided by the weight.
    pub inverse: u64,
    pub observe: bool,
    pub keep: bool,
    pub in_flight: u32,
    pub lanes: u32,
    /// How many calls went this way. They are of its service's count even when it is used for another.
    pub granted: u64,
}

impl Engine {
    /// The skeleton of a call's route, if it was found before under this config.
    #[inline]
    pub(super) fn known_route(&self, call: &Call) -> Option<RouteId> {
        self.routing.tag.route(call.said.route.load(Ordering::Relaxed))
    }

    /// The skeleton of a call's route.
    #[inline(never)]
    pub(super) fn find_route(&mut self, call: &Call, now: Nanos) -> Result<RouteId, Refusal> {
        let skeleton = self.resolve_shape(&call.said.shape, now)?;
        call.said.route.store(self.routing.tag.mark(skeleton), Ordering::Relaxed);
        // Limits of idle keys may have been retired on the way.
        if !self.effects.retired.is_empty() {
            self.purge_retired();
        }
        Ok(skeleton)
    }

    pub(super) fn resolve_shape(&mut self, shape: &Arc<Shape>, now: Nanos) -> Result<RouteId, Refusal> {
        if let Some(found) = self.routing.tag.route(shape.found.0.load(Ordering::Relaxed)) {
            return Ok(found);
        }
        let skeleton = self.look_up(shape, now)?;
        shape.found.0.store(self.routing.tag.mark(skeleton), Ordering::Relaxed);
        Ok(skeleton)
    }

    fn look_up(&mut self, shape: &Arc<Shape>, now: Nanos) -> Result<RouteId, Refusal> {
        if let Some(skeleton) = self.routing.shapes.get(shape) {
            return Ok(*skeleton);
        }
        let unknown = || Refusal::bare(Reason::UnknownService((&*shape.service).into()));
        let service = self.service_named(&shape.service).ok_or_else(unknown)?;
        let held = &self.routing.services[service];
        let pick = |patterns: &[(Pattern, Vec<SpecId>)], text: Option<&str>| -> Option<Box<str>> {
            let found = most_specific(patterns.iter().map(|(pattern, _)| pattern).enumerate(), text?)?;
            Some(patterns[found].0.text().into())
        };
        let loop_type = shape.loop_type.clone().filter(|name| self.routing.loop_types.contains_key(name));
        let models = [&shape.model, &shape.other_model];
        let [mut model, mut second_model] = models.map(|model| pick(&held.models, model.as_deref()));
        let set_apart = models.into_iter().flatten().find(|name| held.other_models.contains(name)).cloned();
        if model.is_none() || model == second_model {
            model = second_model.take().or(model);
        }
        let key = SkeletonKey {
            service,
            endpoint: pick(&held.endpoints, shape.endpoint.as_deref()),
            other_model: set_apart,
            model,
            second_model,
            loop_type,
            key: shape.key.as_ref().filter(|_| held.per_key).map(|key| key.fingerprint(&self.routing.salt)),
        };
        let skeleton = match self.routing.skeleton_index.get(&key) {
            Some(skeleton) => *skeleton,
            None => self.make_skeleton(key, now),
        };
        if self.routing.shapes.len() >= MAX_SHAPES {
            self.routing.shapes.clear();
        }
        self.routing.shapes.insert(shape.clone(), skeleton);
        Ok(skeleton)
    }

    /// A service of the config by its name. A call that names none goes to the only one there is.
    pub(super) fn service_named(&self, name: &str) -> Option<ServiceId> {
        let lives = |service: &ServiceId| !self.routing.services[*service].gone;
        match self.routing.service_index.get(name) {
            None if name.is_empty() => {
                let mut living = self.routing.service_index.values().copied().filter(lives);
                living.next().filter(|_| living.next().is_none())
            }
            known => known.copied().filter(lives),
        }
    }

    fn make_skeleton(&mut self, key: SkeletonKey, now: Nanos) -> RouteId {
        if key.key.is_some() && self.routing.skeleton_index.len() >= self.routing.key_gc_at {
            self.forget_idle_keys(now);
        }
        let skeleton = Skeleton {
            key: key.clone(),
            service: key.service,
            uses: Vec::new(),
            loop_slots: Vec::new(),
            layout: Layout::default(),
            slots: Vec::new(),
            throttles: Vec::new(),
            throttled: false,
            penalty: 0,
            breaker: LimitId::NIL,
            mirrored: Vec::new(),
            noted: false,
            priority: Priority::Normal,
            inverse: 1 << 32,
            observe: false,
            keep: false,
            in_flight: 0,
            lanes: 0,
            granted: 0,
        };
        let (index, old) = self.routing.skeletons.replace_free(skeleton);
        if let Some(old) = old {
            self.routing.services[old.service].counts.granted += old.granted;
        }
        self.routing.skeleton_index.insert(key, index);
        self.route_skeleton(index, now);
        index
    }

    /// Drops the routes and limits of API keys that nothing uses and to which nothing would be forgiven.
    /// It is done when their number has doubled since the last time, so each new key pays for a few.
    fn forget_idle_keys(&mut self, now: Nanos) {
        let own = |engine: &Engine, limit: LimitId| engine.limits.specs[engine.limits[limit].spec].per_key;
        let mut busy: hashbrown::HashSet<Box<str>> = hashbrown::HashSet::new();
        for (key, skeleton) in &self.routing.skeleton_index {
            let Some(name) = &key.key else { continue };
            let held = &self.routing.skeletons[*skeleton];
            let spent = held
                .uses
                .iter()
                .filter(|(limit, _)| own(self, *limit))
                .any(|(limit, _)| !self.limits[*limit].is_idle(now) || self.has_window(*limit));
            if held.in_flight > 0 || held.lanes > 0 || spent {
                busy.insert(name.clone());
            }
        }
        let idle = |name: &str| !name.is_empty() && !busy.contains(name);
        let (skeletons, index) = (&mut self.routing.skeletons, &mut self.routing.skeleton_index);
        index.retain(|key, skeleton| {
            let gone = key.key.as_deref().is_some_and(idle);
            if gone {
                skeletons.free(*skeleton);
            }
            !gone
        });
        // Freed in an order that does not depend on the hash map's.
        self.routing.skeletons.sort_free();
        let unused = self.limits.key_limits.matching(|_, name| idle(name));
        // While their keys are known: they are part of the names that their pages have.
        for limit in unused {
            self.remove_limit(limit);
        }
        self.limits.key_limits.forget(|_, name| idle(name));
        // Routes that calls and shapes remember may be gone.
        self.routes_changed();
        self.routing.key_gc_at = (2 * self.routing.skeleton_index.len()).max(MAX_KEY_SKELETONS);
    }

    /// Lists the limits that a skeleton's calls must pass, under the config in force.
    pub(super) fn route_skeleton(&mut self, index: RouteId, now: Nanos) {
        let key = self.routing.skeletons[index].key.clone();
        let service = &self.routing.services[key.service];
        let of = |patterns: &[(Pattern, Vec<SpecId>)], text: &Option<Box<str>>| -> Vec<SpecId> {
            let found = patterns.iter().find(|(pattern, _)| Some(pattern.text()) == text.as_deref());
            found.map(|(_, specs)| specs.clone()).unwrap_or_default()
        };
        let mut specs = self.routing.global.clone();
        specs.extend(&service.specs);
        specs.extend(of(&service.endpoints, &key.endpoint));
        specs.extend(of(&service.models, &key.model));
        specs.extend(of(&service.models, &key.second_model));
        let loop_type = key.loop_type.as_ref().and_then(|name| self.routing.loop_types.get(name)).cloned();
        specs.extend(loop_type.iter().flat_map(|loop_type| &loop_type.specs));
        let (observe, keep, penalty) =
            (service.observe, service.keep, service.backoff.byte_penalty_multiplier.max(1));
        let endpoints = &service.breakers.endpoints;
        let own = endpoints.iter().find(|(pattern, _)| Some(pattern) == key.endpoint.as_ref());
        specs.extend(own.map(|(_, spec)| *spec).or(service.breakers.others));

        let counted = specs.iter().chain(&self.routing.loop_specs);
        let used: Vec<Dimension> =
            counted.filter_map(|spec| self.limits.specs[*spec].definition.dimension()).collect();
        self.routing.skeletons[index].layout.lay_out(&used);
        let mut uses = Vec::with_capacity(specs.len());
        let mut throttles = Vec::new();
        for spec in specs {
            let limit = self.instance(spec, key.key.as_deref(), now);
            let throttled = matches!(self.limits.specs[spec].definition.counts, Counts::Throttled(_));
            let kind = if throttled { &mut throttles } else { &mut uses };
            kind.push((limit, self.slot_of(index, spec)));
        }
        let loop_slots = self.routing.loop_specs.iter().map(|spec| self.slot_of(index, *spec)).collect();
        let meter = |limit: LimitId| &self.limits[limit].meter;
        let slots = uses.iter().filter(|(limit, _)| matches!(meter(*limit), Meter::InFlight(_)));
        let slots = slots.copied().collect();
        let breaker = uses.iter().find(|(limit, _)| matches!(meter(*limit), Meter::Circuit(_)));
        let breaker = breaker.map_or(LimitId::NIL, |(limit, _)| *limit);
        // Windows on a limit look for it among these.
        self.routing.skeletons[index].uses = uses;
        let (windows, throttled) = self.windows_on(index, now);
        if throttles.is_empty() {
            throttles.extend(self.throttle_by_rate(index, throttled, now));
        }
        let budget =
            |spec: SpecId| matches!(self.limits.specs[spec].definition.counts, Counts::ByteBudget(_));
        let uses = &self.routing.skeletons[index].uses;
        let dearer = !throttles.is_empty()
            || uses.iter().any(|(limit, _)| budget(self.limits[*limit].spec))
            || self.routing.loop_specs.iter().any(|spec| budget(*spec));
        let skeleton = &mut self.routing.skeletons[index];
        skeleton.throttled = throttled;
        skeleton.penalty = if throttled && dearer { penalty } else { 0 };
        if throttled {
            skeleton.uses.extend(&throttles);
        }
        skeleton.uses.extend(windows);
        skeleton.slots = slots;
        skeleton.throttles = throttles;
        skeleton.breaker = breaker;
        self.see_what_is_mirrored(index);
        let skeleton = &mut self.routing.skeletons[index];
        skeleton.loop_slots = loop_slots;
        skeleton.observe = observe;
        skeleton.keep = keep;
        skeleton.priority = loop_type.as_ref().and_then(|t| t.priority).unwrap_or_default();
        skeleton.inverse = loop_type.map_or(1 << 32, |t| t.inverse);
    }

    fn slot_of(&self, skeleton: RouteId, spec: SpecId) -> u8 {
        let dimension = self.limits.specs[spec].definition.dimension();
        dimension.map_or(SLOT, |dimension| self.routing.skeletons[skeleton].layout.slot(&dimension))
    }

    /// The limit that a definition stands for: the one that all share, or the one of this API key.
    pub(super) fn instance(&mut self, spec: SpecId, key: Option<&str>, now: Nanos) -> LimitId {
        let held = &self.limits.specs[spec];
        let key = match key {
            Some(key) if held.per_key => key,
            _ if !held.shared.is_nil() => return held.shared,
            // Calls without a key share an instance.
            _ => "",
        };
        if let Some(limit) = self.limits.key_limits.get(spec, key) {
            return limit;
        }
        let meter = self.limits.specs[spec].definition.meter(now, self.limits.unix_offset);
        let limit = self.add_limit(Limit::new(spec, &self.limits.specs[spec], meter, self.limits.epoch));
        if key.is_empty() && !self.limits.specs[spec].per_key {
            self.limits.specs[spec].shared = limit;
        } else {
            self.limits.key_limits.insert(spec, key, limit);
        }
        self.promise_for(limit, now);
        limit
    }

    /// All limits of a route: the skeleton's, then the loop's.
    pub(super) fn route_of(&self, skeleton: RouteId, loop_: LoopId) -> Vec<Use> {
        let held = &self.routing.skeletons[skeleton];
        let mut route = held.uses.clone();
        let mut at = self.routing.loops.all.get(loop_).map_or(LimitId::NIL, |record| record.first);
        for slot in &held.loop_slots {
            if at.is_nil() {
                break;
            }
            route.push((at, *slot));
            at = self.limits[at].sibling;
        }
        route
    }

    /// Refuses what is no cost, or a cost in a dimension that nobody has heard of.
    #[inline(never)]
    pub(super) fn check_cost(&self, cost: &Cost) -> Result<(), Refusal> {
        if cost.bad().is_some() {
            return Err(Refusal::bare(Reason::InvalidCost));
        }
        match cost.custom().iter().find(|(name, _)| !self.routing.customs.contains(name)) {
            Some((name, _)) => Err(Refusal::bare(Reason::UnknownDimension(name.clone()))),
            None => Ok(()),
        }
    }
}
