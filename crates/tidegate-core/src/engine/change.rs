//! Configs coming into force: at the start, on reload, and one limit at a time.
//!
//! A limit is known by its name. One that stays keeps what was spent and who waits; one whose algorithm
//! changed carries the spent units over; one that is gone lets its waiters go on without it, and has what was spent
//! of it again if it comes back before that no longer counts (see `retired`). A config that cannot be is refused
//! before anything changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::route::{Breakers, LoopType, Service};
use super::{Engine, SLOT};
use crate::algorithm::Meter;
use crate::breaker::BreakerPolicy;
use crate::config::{BreakerScope, Config, Limits, Problem, RateLimit, Reserve, ServiceConfig};
use crate::limit::{Counts, Definition, Spec};
use crate::model::dimension::Dimension;
use crate::model::pattern::Pattern;
use crate::model::rate::{Algorithm, MAX_UNITS};
use crate::model::time::Nanos;
use crate::model::{LimitId, RouteId, RouteTag, SpecId};

/// The level of limits that every loop has for itself.
const LOOP: &str = "loop";

/// Why a config or a change cannot come into force. Nothing has changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// More kinds of units than one route can hold.
    #[error("`{service}` has limits on {count} dimensions, its parents' included: at most 7 on one route")]
    TooManyDimensions {
        /// Which service.
        service: String,
        /// How many.
        count: usize,
    },
    /// A number that cannot be.
    #[error("`{field}` is {value}: {expected}")]
    BadValue {
        /// Which field, by its path in the config.
        field: String,
        /// What it was.
        value: u64,
        /// What it may be.
        expected: &'static str,
    },
    /// No limit has that name.
    #[error("there is no limit named `{0}`")]
    UnknownLimit(String),
    /// The limit counts what is in flight, which comes back when calls end.
    #[error("`{0}` counts what is in flight: slots come back when their calls end, and cannot be reset")]
    NothingToReset(String),
    /// The config says what cannot be.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<Problem>),
}

impl Engine {
    /// Puts another config into force. Consumption and waiters stay.
    ///
    /// # Errors
    /// If the config cannot be; then the old one stays in force as a whole.
    pub fn reconfigure(&mut self, config: &Config, now: Nanos) -> Result<(), ChangeError> {
        let now = self.clock(now);
        self.advance(now);
        check(config)?;
        let waiting = self.unseat_all();
        self.limits.epoch += 1;
        self.routing.tag = RouteTag::fresh();
        self.apply(config, now);
        self.count_calls_in_flight(now);
        self.seat_again(waiting, now);
        self.bring_back_windows(now);
        self.pump(now);
        Ok(())
    }

    /// Counts the calls that are in flight at limits on calls in flight that a new config brought: the upstream has them
    /// already, be it that their service was removed and put back. They give their slots back when they end.
    ///
    /// A call in flight is known by its route. If the config had no pattern for its endpoint or model when it went, or if
    /// all API keys shared their limits, then limits of that endpoint, model or key do not count it.
    fn count_calls_in_flight(&mut self, now: Nanos) {
        let is_new = |limit: &LimitId| {
            let held = &self.limits[*limit];
            held.since == self.limits.epoch
                && matches!(self.limits.specs[held.spec].definition.counts, Counts::Concurrency(_))
        };
        let new: BTreeSet<LimitId> = self.limits.all.ids().filter(is_new).collect();
        if new.is_empty() {
            return;
        }
        let routes: Vec<_> =
            self.in_flight.iter().map(|call| self.route_of(call.skeleton, call.loop_)).collect();
        for (limit, _) in routes.into_iter().flatten().filter(|(limit, _)| new.contains(limit)) {
            if let Meter::InFlight(slots) = &mut self.limits[limit].meter {
                slots.take(1);
                self.charge_lent(limit, 1, now);
            }
        }
        for limit in new {
            self.limits[limit].since = 0;
        }
    }

    /// Changes one limit, all its instances included, to another number of units, window or burst. Whoever
    /// waits is planned anew at once.
    ///
    /// # Errors
    /// If there is no such limit, or if it does not count a rate of that dimension.
    pub fn set_rate(&mut self, name: &str, limit: &RateLimit, now: Nanos) -> Result<(), ChangeError> {
        let now = self.clock(now);
        self.advance(now);
        let target = self.limit_named(name).ok_or_else(|| ChangeError::UnknownLimit(name.into()))?;
        let spec = self.limits[target].spec;
        let definition = {
            let old = &self.limits.specs[spec];
            let Counts::Rate { dimension, .. } = &old.definition.counts else {
                return Err(ChangeError::UnknownLimit(name.into()));
            };
            if *dimension != limit.dimension {
                return Err(ChangeError::UnknownLimit(name.into()));
            }
            let mirrors = mirrors(&old.level);
            Definition::rate(limit, old.definition.reserve(), mirrors)
        };
        check_rate(name, limit)?;
        self.redefine(spec, definition, now);
        self.replan_all(now);
        Ok(())
    }

    /// Changes a bound on what is in flight.
    ///
    /// # Errors
    /// If there is no such limit, if it counts a rate, or if the bound is zero.
    pub fn set_in_flight(&mut self, name: &str, bound: u64, now: Nanos) -> Result<(), ChangeError> {
        let now = self.clock(now);
        self.advance(now);
        let target = self.limit_named(name).ok_or_else(|| ChangeError::UnknownLimit(name.into()))?;
        positive(name, bound)?;
        let spec = self.limits[target].spec;
        let old = &self.limits.specs[spec].definition;
        let counts = match old.counts {
            Counts::Concurrency(_) => Counts::Concurrency(bound),
            Counts::Throttled(_) => Counts::Throttled(bound),
            Counts::ByteBudget(_) => Counts::ByteBudget(bound),
            Counts::Rate { .. } | Counts::Window | Counts::Breaker(_) => {
                return Err(ChangeError::UnknownLimit(name.into()));
            }
        };
        let definition = Definition::in_flight(counts, old.reserve());
        self.redefine(spec, definition, now);
        self.replan_all(now);
        Ok(())
    }

    /// The first config of a new engine.
    pub(super) fn configure(&mut self, config: &Config) -> Result<(), ChangeError> {
        check(config)?;
        let window = Definition::in_flight(Counts::Window, Reserve::default());
        self.upstream.window_spec = self.limits.specs.insert(Spec::new("", window));
        self.apply(config, self.now);
        Ok(())
    }

    fn apply(&mut self, config: &Config, now: Nanos) {
        for spec in self.limits.specs.iter_mut() {
            spec.gone = !matches!(spec.definition.counts, Counts::Window);
        }
        for service in self.routing.services.iter_mut() {
            service.gone = true;
        }
        self.routing.global = self.define("global", &config.global, false, now);
        self.routing.loop_specs = self.define(LOOP, &config.loops, false, now);
        for (name, service) in &config.services {
            let index = match self.routing.service_index.get(name.as_str()) {
                Some(index) => *index,
                None => {
                    let index = self.routing.services.insert(Service::default());
                    self.routing.service_index.insert(name.as_str().into(), index);
                    index
                }
            };
            let per_key = service.per_key;
            let specs = self.define(name, &service.limits, per_key, now);
            let endpoints = service.endpoints.iter().map(|(text, limits)| {
                let level = format!("{name}/endpoint:{text}");
                (Pattern::of_endpoints(text), self.define(&level, limits, per_key, now))
            });
            let endpoints = endpoints.collect();
            let models = service.models.iter().map(|(text, limits)| {
                let level = format!("{name}/model:{text}");
                (Pattern::new(text), self.define(&level, limits, per_key, now))
            });
            let models = models.collect();
            let breakers = self.define_breakers(name, service, now);
            let held = &mut self.routing.services[index];
            (held.specs, held.endpoints, held.models) = (specs, endpoints, models);
            held.breakers = breakers;
            held.set_rules(service);
            self.set_ramp(index, service.ramp.as_ref(), now);
        }
        // Routes to a service that is gone are kept for calls in flight; its limits are not.
        for service in self.routing.services.iter_mut().filter(|service| service.gone) {
            (service.specs, service.endpoints, service.models) = (Vec::new(), Vec::new(), Vec::new());
            service.breakers = Breakers::default();
        }
        self.routing.loop_types.clear();
        for (name, loop_type) in &config.loop_types {
            let specs = self.define(&format!("loop_type:{name}"), &loop_type.limits, false, now);
            let inverse = inverse_weight(loop_type.weight);
            let loop_type = LoopType { specs, priority: loop_type.priority, inverse };
            self.routing.loop_types.insert(name.as_str().into(), loop_type);
        }
        self.routing.customs = customs(config);
        self.remove_gone(now);
        self.purge_retired();
        self.forget_retired(now);
        self.keep_windows(now);
        self.purge_retired();
        self.routing.shapes.clear();
        for index in self.routing.loops.all.ids() {
            if self.loop_name(index).is_some() {
                self.make_loop_limits(index, now);
                self.purge_retired();
            }
        }
        // In an order of their own: the order of a hash map differs from run to run.
        let skeletons: BTreeSet<RouteId> = self.routing.skeleton_index.values().copied().collect();
        for skeleton in skeletons {
            self.route_skeleton(skeleton, now);
        }
    }

    /// The definitions of one level, each either the one that had its name or a new one.
    fn define(&mut self, level: &str, limits: &Limits, per_key: bool, now: Nanos) -> Vec<SpecId> {
        let definitions = definitions(limits, mirrors(level)).into_iter();
        let specs: Vec<SpecId> =
            definitions.map(|definition| self.define_one(level, definition, per_key, now)).collect();
        let slots =
            |spec: &&SpecId| matches!(self.limits.specs[**spec].written.counts, Counts::Concurrency(_));
        if let Some(&spec) = specs.iter().find(slots) {
            self.set_adaptive(spec, limits.adaptive.as_ref(), now);
        }
        specs
    }

    pub(super) fn define_one(
        &mut self,
        level: &str,
        definition: Definition,
        per_key: bool,
        now: Nanos,
    ) -> SpecId {
        let new = Spec::new(level, definition);
        let known = self.limits.spec_names.get(&new.name).copied();
        let index = match known {
            Some(index) => {
                self.redefine(index, new.written, now);
                index
            }
            None => {
                let name = new.name.clone();
                let index = self.limits.specs.insert(new);
                self.limits.spec_names.insert(name, index);
                if self.expect_apart(index) {
                    self.put_in_force(index, now);
                }
                index
            }
        };
        self.limits.specs[index].gone = false;
        if std::mem::replace(&mut self.limits.specs[index].per_key, per_key) != per_key {
            self.start_anew(index, now);
        }
        if !per_key && level != LOOP {
            self.instance(index, None, now);
        }
        index
    }

    /// Each key gets its own instances of a limit, or they share one again: calls in flight took from the others, and
    /// will not give back to these. What is in flight is counted anew, by [`Engine::count_calls_in_flight`].
    fn start_anew(&mut self, spec: SpecId, now: Nanos) {
        let definition = &self.limits.specs[spec].definition;
        for limit in self.limits.all.iter_mut().filter(|limit| limit.spec == spec) {
            limit.since = self.limits.epoch;
            if limit.meter.is_in_flight() {
                limit.meter = definition.meter(now, self.limits.unix_offset);
            }
        }
    }

    /// The breakers of a service: one that all share, or one for each endpoint and one for the rest.
    fn define_breakers(&mut self, name: &str, service: &ServiceConfig, now: Nanos) -> Breakers {
        let Some(config) = &service.breaker else { return Breakers::default() };
        // The config was checked: a policy that makes no sense does not come here.
        let policy = BreakerPolicy::from_config(config).unwrap_or_default();
        let mut define = |level: &str| {
            let definition = Definition::in_flight(Counts::Breaker(policy.clone()), Reserve::default());
            self.define_one(level, definition, false, now)
        };
        let endpoints = match config.per {
            BreakerScope::Service => Vec::new(),
            BreakerScope::Endpoint => {
                let each = service.endpoints.keys();
                each.map(|text| (text.as_str().into(), define(&format!("{name}/endpoint:{text}")))).collect()
            }
        };
        Breakers { endpoints, others: Some(define(name)) }
    }

    /// Gives a definition to a limit that keeps its name, and to all its instances.
    pub(super) fn redefine(&mut self, spec: SpecId, definition: Definition, now: Nanos) {
        self.limits.specs[spec].written = definition;
        self.put_in_force(spec, now);
    }

    /// Brings a limit and all its instances to what is written, by what was learned. Says whether that is news.
    pub(super) fn put_in_force(&mut self, spec: SpecId, now: Nanos) -> bool {
        let held = &self.limits.specs[spec];
        let fresh = Spec::new(&held.level, held.written.with(&held.learned));
        let held = &mut self.limits.specs[spec];
        let old = std::mem::replace(&mut held.definition, fresh.definition);
        held.withheld = fresh.withheld;
        let of_spec = |limit: &LimitId| self.limits[*limit].spec == spec;
        let instances: Vec<LimitId> = self.limits.all.ids().filter(of_spec).collect();
        for limit in &instances {
            self.see_if_plain(*limit);
        }
        let held = &self.limits.specs[spec];
        if held.definition.counts == old.counts {
            return false;
        }
        let definition = held.definition.clone();
        for limit in instances {
            definition.change(&mut self.limits.all[limit].meter, now, self.limits.unix_offset, &old);
            self.effects.touch(limit, &self.limits);
            self.limits.note_unsaved(limit);
        }
        true
    }

    /// Frees the limits of definitions that are no longer there. Nobody waits at this moment.
    fn remove_gone(&mut self, now: Nanos) {
        let gone: BTreeSet<SpecId> =
            self.limits.specs.ids().filter(|spec| self.limits.specs[*spec].gone).collect();
        let loop_owned = |engine: &Engine, limit: LimitId| !engine.limits[limit].owner.is_nil();
        for spec in &gone {
            let shared = std::mem::replace(&mut self.limits.specs[*spec].shared, LimitId::NIL);
            if !shared.is_nil() {
                self.retire(shared, now);
            }
        }
        let keyed = self.limits.key_limits.matching(|spec, _| gone.contains(&spec));
        // While their keys are known: they are part of their names.
        for limit in keyed {
            debug_assert!(!loop_owned(self, limit));
            self.retire(limit, now);
        }
        self.limits.key_limits.forget(|spec, _| gone.contains(&spec));
    }
}

/// Limits of an upstream are mirrored; the others are rules of our own.
pub(super) fn mirrors(level: &str) -> bool {
    !(level == "global" || level == LOOP || level.starts_with("loop_type:"))
}

fn definitions(limits: &Limits, mirrors: bool) -> Vec<Definition> {
    let rates = limits.rates.iter().map(|rate| Definition::rate(rate, limits.reserve, mirrors));
    let slots = limits.concurrency.map(Counts::Concurrency);
    let throttled = limits.throttled_concurrency.map(Counts::Throttled);
    let bytes = limits.byte_budget.map(Counts::ByteBudget);
    let in_flight = slots.into_iter().chain(throttled).chain(bytes);
    rates.chain(in_flight.map(|counts| Definition::in_flight(counts, limits.reserve))).collect()
}

/// 2³² divided by the weight, at least 1.
fn inverse_weight(weight: f64) -> u64 {
    ((1_u64 << 32) as f64 / weight).clamp(1.0, (1_u64 << 52) as f64) as u64
}

fn customs(config: &Config) -> Vec<Arc<str>> {
    let mut names = BTreeSet::new();
    for limits in levels(config) {
        for rate in &limits.rates {
            if let Dimension::Custom(name) = &rate.dimension {
                names.insert(name.clone());
            }
        }
    }
    names.into_iter().collect()
}

/// Every level of a config.
fn levels(config: &Config) -> Vec<&Limits> {
    let mut all = vec![&config.global, &config.loops];
    for service in config.services.values() {
        all.push(&service.limits);
        all.extend(service.endpoints.values().chain(service.models.values()));
    }
    all.extend(config.loop_types.values().map(|loop_type| &loop_type.limits));
    all
}

/// Everything that must be true of a config, whoever made it.
fn check(config: &Config) -> Result<(), ChangeError> {
    config.validate().map_err(ChangeError::Invalid)?;
    let dims = |limits: &Limits| {
        let bytes = limits.byte_budget.map(|_| Dimension::Bytes);
        limits.rates.iter().map(|rate| rate.dimension.clone()).chain(bytes).collect::<BTreeSet<_>>()
    };
    let mut shared = dims(&config.global);
    shared.extend(dims(&config.loops));
    shared.extend(config.loop_types.values().flat_map(|loop_type| dims(&loop_type.limits)));
    for (name, service) in &config.services {
        let inner = service.endpoints.values().chain(service.models.values());
        let own = std::iter::once(&service.limits).chain(inner).flat_map(dims);
        let count = own.chain(shared.iter().cloned()).collect::<BTreeSet<_>>().len();
        if count > SLOT as usize {
            return Err(ChangeError::TooManyDimensions { service: name.clone(), count });
        }
    }
    Ok(())
}

fn check_rate(field: &str, limit: &RateLimit) -> Result<(), ChangeError> {
    let Some(burst) = limit.burst else { return Ok(()) };
    positive(&format!("{field}.burst"), burst)?;
    let window = limit.algorithm != Some(Algorithm::TokenBucket);
    if burst > MAX_UNITS || (window && burst > limit.rate.units()) {
        let field = format!("{field}.burst");
        return Err(bad(field, burst, "a window's burst is at most its limit, and any burst at most 2^63"));
    }
    Ok(())
}

fn positive(field: &str, value: u64) -> Result<(), ChangeError> {
    if value > 0 { Ok(()) } else { Err(bad(field.to_owned(), 0, "use at least 1")) }
}

fn bad(field: String, value: u64, expected: &'static str) -> ChangeError {
    ChangeError::BadValue { field, value, expected }
}
