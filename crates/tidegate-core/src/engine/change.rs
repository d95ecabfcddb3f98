//! Configs coming into force: at the start, on reload, and one limit at a time.
//!
//! A limit is known by its name. One that stays keeps what was spent and who waits; one whose algorithm
//! changed carries the spent units over; one that is gone lets its waiters go on without it. A config that
//! cannot be is refused before anything changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::lane::Waiter;
use super::route::{LoopType, Service};
use super::{Engine, SLOT, Ticket, Verdict};
use crate::config::{Config, Limits, RateLimit};
use crate::dimension::Dimension;
use crate::limit::{Counts, Definition, Spec};
use crate::priority::Priority;
use crate::refusal::{Reason, Refusal};
use crate::time::Nanos;
use crate::tree::NIL;

/// The level of limits that every loop has for itself.
const LOOP: &str = "loop";

/// A waiting call between two configs. What its lane and its route knew of it is written down here, since
/// both places may be another's by the time it is seated again.
struct Unseated {
    index: u32,
    waiter: Waiter,
    loop_: u32,
    class: Priority,
    units: Vec<(Dimension, u64)>,
}

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
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// No limit has that name.
    #[error("there is no limit named `{0}`")]
    UnknownLimit(String),
    /// Two limits would have the same name.
    #[error("two limits are named `{0}`: one window per dimension and level")]
    SameName(String),
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
        self.epoch += 1;
        self.tag = super::fresh_tag();
        self.apply(config, now);
        self.seat_again(waiting, now);
        self.pump(now);
        Ok(())
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
        let spec = self.limits[target as usize].spec;
        let definition = {
            let old = &self.specs[spec as usize];
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
        let spec = self.limits[target as usize].spec;
        let old = &self.specs[spec as usize].definition;
        let counts = match old.counts {
            Counts::Concurrency(_) => Counts::Concurrency(bound),
            Counts::ByteBudget(_) => Counts::ByteBudget(bound),
            Counts::Rate { .. } => return Err(ChangeError::UnknownLimit(name.into())),
        };
        let definition = Definition::in_flight(counts, old.reserve());
        self.redefine(spec, definition, now);
        self.replan_all(now);
        Ok(())
    }

    /// The first config of a new engine.
    pub(super) fn configure(&mut self, config: &Config) -> Result<(), ChangeError> {
        check(config)?;
        self.apply(config, self.now);
        Ok(())
    }

    fn apply(&mut self, config: &Config, now: Nanos) {
        for spec in &mut self.specs {
            spec.gone = true;
        }
        for service in &mut self.services {
            service.gone = true;
        }
        self.global = self.define("global", &config.global, false, now);
        self.loop_specs = self.define(LOOP, &config.loops, false, now);
        for (name, service) in &config.services {
            let index = match self.service_index.get(name.as_str()) {
                Some(index) => *index,
                None => {
                    self.services.push(Service::default());
                    let index = (self.services.len() - 1) as u32;
                    self.service_index.insert(name.as_str().into(), index);
                    index
                }
            };
            let per_key = service.per_key;
            let specs = self.define(name, &service.limits, per_key, now);
            let pattern = |text: &str| crate::pattern::Pattern::new(text);
            let endpoints = service.endpoints.iter().map(|(text, limits)| {
                let level = format!("{name}/endpoint:{text}");
                (pattern(text), self.define(&level, limits, per_key, now))
            });
            let endpoints = endpoints.collect();
            let models = service.models.iter().map(|(text, limits)| {
                let level = format!("{name}/model:{text}");
                (pattern(text), self.define(&level, limits, per_key, now))
            });
            let models = models.collect();
            let held = &mut self.services[index as usize];
            (held.specs, held.endpoints, held.models) = (specs, endpoints, models);
            held.set_rules(service);
        }
        self.loop_types.clear();
        for (name, loop_type) in &config.loop_types {
            let specs = self.define(&format!("loop_type:{name}"), &loop_type.limits, false, now);
            let inverse = inverse_weight(loop_type.weight);
            let loop_type = LoopType { specs, priority: loop_type.priority, inverse };
            self.loop_types.insert(name.as_str().into(), loop_type);
        }
        self.customs = customs(config);
        self.remove_gone();
        self.shapes.clear();
        for index in 0..self.loops.len() as u32 {
            if self.loop_name(index).is_some() {
                self.make_loop_limits(index, now);
            }
        }
        // In an order of their own: the order of a hash map differs from run to run.
        let skeletons: BTreeSet<u32> = self.skeleton_index.values().copied().collect();
        for skeleton in skeletons {
            self.route_skeleton(skeleton, now);
        }
    }

    /// The definitions of one level, each either the one that had its name or a new one.
    fn define(&mut self, level: &str, limits: &Limits, per_key: bool, now: Nanos) -> Vec<u32> {
        let mirrors = mirrors(level);
        let mut specs = Vec::new();
        for definition in definitions(limits, mirrors) {
            let suffix = definition.suffix();
            let known = self.specs.iter().position(|spec| *spec.level == *level && *spec.suffix == *suffix);
            let index = match known {
                Some(index) => {
                    self.redefine(index as u32, definition, now);
                    index
                }
                None => {
                    self.specs.push(Spec::new(level, definition));
                    self.specs.len() - 1
                }
            };
            self.specs[index].gone = false;
            self.specs[index].per_key = per_key;
            if !per_key && level != LOOP {
                self.instance(index as u32, None, now);
            }
            specs.push(index as u32);
        }
        specs
    }

    /// Gives a definition to a limit that keeps its name, and to all its instances.
    fn redefine(&mut self, spec: u32, definition: Definition, now: Nanos) {
        let fresh = Spec::new(&self.specs[spec as usize].level, definition);
        let held = &mut self.specs[spec as usize];
        let old = std::mem::replace(&mut held.definition, fresh.definition);
        held.withheld = fresh.withheld;
        if held.definition.counts == old.counts {
            return;
        }
        let definition = held.definition.clone();
        for limit in self.limits.iter_mut().filter(|limit| limit.spec == spec) {
            definition.change(&mut limit.meter, now, self.unix_offset, &old);
        }
    }

    /// Frees the limits of definitions that are no longer there. Nobody waits at this moment.
    fn remove_gone(&mut self) {
        let gone: BTreeSet<u32> =
            (0..self.specs.len() as u32).filter(|spec| self.specs[*spec as usize].gone).collect();
        let loop_owned = |engine: &Engine, limit: u32| engine.limits[limit as usize].owner != NIL;
        for spec in &gone {
            let shared = std::mem::replace(&mut self.specs[*spec as usize].shared, NIL);
            if shared != NIL {
                self.remove_limit(shared);
            }
        }
        let mut keyed = Vec::new();
        self.key_instances.retain(|(spec, _), limit| {
            if gone.contains(spec) {
                keyed.push(*limit);
            }
            !gone.contains(spec)
        });
        keyed.sort_unstable();
        for limit in keyed {
            debug_assert!(!loop_owned(self, limit));
            self.remove_limit(limit);
        }
    }

    /// Takes every waiting call out of the queue, in order of arrival.
    fn unseat_all(&mut self) -> Vec<Unseated> {
        let mut all = Vec::new();
        for lane in self.lane_index.values() {
            let held = &self.lanes[*lane as usize];
            self.calls.each(held.calls, &mut |(_, index)| {
                let waiter = self.waiters[index as usize].clone();
                let units = self.relayout(held.skeleton, &waiter);
                all.push(Unseated { index, waiter, loop_: held.loop_, class: held.class, units });
                true
            });
        }
        all.sort_by_key(|unseated| unseated.waiter.seq);
        for unseated in &all {
            self.pull_waiter(unseated.index);
        }
        self.dirty.clear();
        all
    }

    /// Puts waiting calls back under the config in force, each with its ticket, its arrival and its
    /// deadline. One that can no longer go is refused.
    fn seat_again(&mut self, waiting: Vec<Unseated>, now: Nanos) {
        // Their places are free now; they get the same ones, so that tickets stay good.
        let places: BTreeSet<u32> = waiting.iter().map(|unseated| unseated.index).collect();
        self.free_waiters.retain(|index| !places.contains(index));
        for Unseated { index, mut waiter, loop_, class, units } in waiting {
            let ticket = Ticket { index, generation: waiter.generation };
            let routed = self.resolve_shape(&waiter.shape.clone(), now);
            let refused = match routed {
                Err(refusal) => Some(refusal),
                Ok(skeleton) => {
                    waiter.units = self.layout(skeleton, &units);
                    let route = self.route_of(skeleton, loop_);
                    let fits = self.fit_units(&mut waiter.units, &route, class, waiter.estimated);
                    let refused = fits.map(|(limit, cost, capacity)| Refusal {
                        reason: Reason::TooLarge { cost, capacity },
                        limit: Some(self.limit_name(limit)),
                        wait: None,
                        reset: self.reset_of(limit, now),
                    });
                    if refused.is_none() {
                        waiter.lane = self.lane_for(skeleton, loop_, class);
                        let lane = waiter.lane;
                        if !waiter.deadline.is_never() {
                            self.deadlines.insert((waiter.deadline, index));
                        }
                        self.waiters[index as usize] = waiter;
                        self.push_waiter(index);
                        if self.lanes[lane as usize].bound == NIL {
                            let first = route.first().map_or(NIL, |(limit, _)| *limit);
                            if first != NIL {
                                self.bind(lane, first);
                            }
                        }
                    }
                    refused
                }
            };
            if let Some(refusal) = refused {
                self.free_waiters.push(index);
                self.verdicts.push((ticket, Verdict::Refused(refusal)));
            }
        }
        // A call whose every limit is gone has nothing to wait for.
        self.let_free_lanes_go(now);
    }

    fn let_free_lanes_go(&mut self, now: Nanos) {
        // By arrival: the lanes of a hash map come in another order every run.
        let mut free = BTreeSet::new();
        for lane in self.lane_index.values() {
            if self.lanes[*lane as usize].bound == NIL {
                self.calls.each(self.lanes[*lane as usize].calls, &mut |call| {
                    free.insert(call);
                    true
                });
            }
        }
        for (_, waiter) in free {
            let held = &self.waiters[waiter as usize];
            let ticket = Ticket { index: waiter, generation: held.generation };
            let (units, lane) = (held.units, &self.lanes[held.lane as usize]);
            let (skeleton, loop_, class) = (lane.skeleton, lane.loop_, lane.class);
            let grant = self.grant(skeleton, loop_, class, units, now);
            self.pull_waiter(waiter);
            self.services[self.skeletons[skeleton as usize].service as usize].counts.granted += 1;
            self.verdicts.push((ticket, Verdict::Granted(grant)));
        }
    }

    /// A waiting call's units by dimension, as its old route laid them out.
    fn relayout(&self, skeleton: u32, waiter: &Waiter) -> Vec<(Dimension, u64)> {
        let held = &self.skeletons[skeleton as usize];
        (0..SLOT)
            .filter_map(|slot| Some((held.dimension(slot)?.clone(), waiter.units[slot as usize])))
            .collect()
    }

    /// Units by dimension in the layout of a route. A dimension that the old route did not count is not
    /// known any more, and counts as one request or as nothing.
    fn layout(&self, skeleton: u32, units: &[(Dimension, u64)]) -> super::Units {
        let held = &self.skeletons[skeleton as usize];
        let mut laid = super::Units::default();
        for slot in 0..SLOT {
            if let Some(dimension) = held.dimension(slot) {
                let known = units.iter().find(|(known, _)| known == dimension).map(|(_, units)| *units);
                laid[slot as usize] = known.unwrap_or(u64::from(*dimension == Dimension::Requests));
            }
        }
        laid[SLOT as usize] = 1;
        laid
    }

    /// After a limit changed in place: refuses what can no longer fit, and looks at everything again.
    fn replan_all(&mut self, now: Nanos) {
        let mut impossible = Vec::new();
        for lane in self.lane_index.values().copied().collect::<BTreeSet<_>>() {
            let (route, class) = (self.lanes[lane as usize].route.clone(), self.lanes[lane as usize].class);
            let mut calls = Vec::new();
            self.calls.each(self.lanes[lane as usize].calls, &mut |(seq, waiter)| {
                calls.push((seq, waiter));
                true
            });
            for (seq, waiter) in calls {
                let held = &self.waiters[waiter as usize];
                let mut units = held.units;
                match self.fit_units(&mut units, &route, class, held.estimated) {
                    Some((limit, cost, capacity)) => impossible.push((seq, waiter, limit, cost, capacity)),
                    None if units != held.units => self.resize(waiter, units),
                    None => {}
                }
            }
        }
        impossible.sort_unstable();
        for (_, waiter, limit, cost, capacity) in impossible {
            let ticket = Ticket { index: waiter, generation: self.waiters[waiter as usize].generation };
            let refusal = Refusal {
                reason: Reason::TooLarge { cost, capacity },
                limit: Some(self.limit_name(limit)),
                wait: None,
                reset: self.reset_of(limit, now),
            };
            self.pull_waiter(waiter);
            self.verdicts.push((ticket, Verdict::Refused(refusal)));
        }
        for limit in 0..self.limits.len() as u32 {
            self.mark(limit);
        }
        self.pump(now);
    }

    /// Gives a waiting call other units.
    fn resize(&mut self, waiter: u32, units: super::Units) {
        let held = self.waiters[waiter as usize].clone();
        // An empty lane goes, and with it what it was bound to.
        let lane = self.lanes[held.lane as usize].clone();
        self.pull_waiter(waiter);
        self.free_waiters.retain(|index| *index != waiter);
        let held = Waiter { units, lane: self.lane_for(lane.skeleton, lane.loop_, lane.class), ..held };
        let target = held.lane;
        if !held.deadline.is_never() {
            self.deadlines.insert((held.deadline, waiter));
        }
        self.waiters[waiter as usize] = held;
        self.push_waiter(waiter);
        if self.lanes[target as usize].bound == NIL {
            self.bind(target, lane.bound);
        }
    }
}

/// Limits of an upstream are mirrored; the others are rules of our own.
fn mirrors(level: &str) -> bool {
    !(level == "global" || level == LOOP || level.starts_with("loop_type:"))
}

fn definitions(limits: &Limits, mirrors: bool) -> Vec<Definition> {
    let rates = limits.rates.iter().map(|rate| Definition::rate(rate, limits.reserve, mirrors));
    let slots = limits.concurrency.map(Counts::Concurrency);
    let bytes = limits.byte_budget.map(Counts::ByteBudget);
    let in_flight = slots.into_iter().chain(bytes);
    rates.chain(in_flight.map(|counts| Definition::in_flight(counts, limits.reserve))).collect()
}

/// 2³² divided by the weight, at least 1.
fn inverse_weight(weight: f64) -> u64 {
    ((1_u64 << 32) as f64 / weight).clamp(1.0, (1_u64 << 52) as f64) as u64
}

fn customs(config: &Config) -> Vec<Arc<str>> {
    let mut names = BTreeSet::new();
    for (_, limits) in levels(config) {
        for rate in &limits.rates {
            if let Dimension::Custom(name) = &rate.dimension {
                names.insert(name.clone());
            }
        }
    }
    names.into_iter().collect()
}

/// Every level of a config with its path.
fn levels(config: &Config) -> Vec<(String, &Limits)> {
    let mut all = vec![("global".to_owned(), &config.global), ("loops".to_owned(), &config.loops)];
    for (name, service) in &config.services {
        all.push((format!("services.{name}"), &service.limits));
        for (pattern, limits) in &service.endpoints {
            all.push((format!("services.{name}.endpoints.{pattern:?}"), limits));
        }
        for (pattern, limits) in &service.models {
            all.push((format!("services.{name}.models.{pattern:?}"), limits));
        }
    }
    for (name, loop_type) in &config.loop_types {
        all.push((format!("loop_types.{name}"), &loop_type.limits));
    }
    all
}

/// Everything that must be true of a config, whoever made it.
fn check(config: &Config) -> Result<(), ChangeError> {
    for (path, limits) in levels(config) {
        check_level(&path, limits)?;
    }
    let dims = |limits: &Limits| {
        let bytes = limits.byte_budget.map(|_| Dimension::Bytes);
        limits.rates.iter().map(|rate| rate.dimension.clone()).chain(bytes).collect::<BTreeSet<_>>()
    };
    let mut shared = dims(&config.global);
    shared.extend(dims(&config.loops));
    for loop_type in config.loop_types.values() {
        shared.extend(dims(&loop_type.limits));
    }
    for (name, service) in &config.services {
        let mut all = shared.clone();
        let inner = service.endpoints.values().chain(service.models.values());
        for limits in std::iter::once(&service.limits).chain(inner) {
            all.extend(dims(limits));
        }
        if all.len() > SLOT as usize {
            return Err(ChangeError::TooManyDimensions { service: name.clone(), count: all.len() });
        }
        let queue = &service.queue;
        if !(0.0..=1.0).contains(&queue.aging_share) {
            let field = format!("services.{name}.queue.aging_share");
            return Err(bad(field, queue.aging_share, "use a share from 0 to 1"));
        }
    }
    for (name, loop_type) in &config.loop_types {
        if !(loop_type.weight.is_finite() && loop_type.weight > 0.0) {
            let field = format!("loop_types.{name}.weight");
            return Err(bad(field, loop_type.weight, "use a finite number above 0"));
        }
    }
    Ok(())
}

fn check_level(path: &str, limits: &Limits) -> Result<(), ChangeError> {
    let mut names = BTreeMap::new();
    for rate in &limits.rates {
        check_rate(&format!("{path}.{}", rate.dimension), rate)?;
        let name = Definition::rate(rate, limits.reserve, false).suffix();
        if names.insert(name.clone(), ()).is_some() {
            return Err(ChangeError::SameName(format!("{path}/{name}")));
        }
        check_reserve(path, rate.reserve.unwrap_or(limits.reserve))?;
    }
    check_reserve(path, limits.reserve)?;
    let bounds = [
        ("concurrency", limits.concurrency),
        ("throttled_concurrency", limits.throttled_concurrency),
        ("byte_budget", limits.byte_budget),
    ];
    for (field, bound) in bounds {
        positive(&format!("{path}.{field}"), bound.unwrap_or(1))?;
    }
    Ok(())
}

fn check_rate(field: &str, limit: &RateLimit) -> Result<(), ChangeError> {
    use crate::rate::{Algorithm, MAX_UNITS};
    let Some(burst) = limit.burst else { return Ok(()) };
    positive(&format!("{field}.burst"), burst)?;
    let window = limit.algorithm != Some(Algorithm::TokenBucket);
    if burst > MAX_UNITS || (window && burst > limit.rate.units()) {
        let field = format!("{field}.burst");
        return Err(bad(field, burst, "a window's burst is at most its limit, and any burst at most 2^63"));
    }
    Ok(())
}

fn check_reserve(path: &str, reserve: crate::config::Reserve) -> Result<(), ChangeError> {
    let sum: f64 = reserve.share.iter().sum();
    let each = reserve.share.iter().all(|share| (0.0..1.0).contains(share));
    if each && sum < 1.0 {
        return Ok(());
    }
    Err(bad(format!("{path}.reserve"), format!("{:?}", reserve.share), "shares from 0 to below 1 in sum"))
}

fn positive(field: &str, value: u64) -> Result<(), ChangeError> {
    if value > 0 { Ok(()) } else { Err(bad(field.to_owned(), 0, "use at least 1")) }
}

fn bad(field: String, value: impl ToString, expected: &'static str) -> ChangeError {
    ChangeError::BadValue { field, value: value.to_string(), expected }
}
