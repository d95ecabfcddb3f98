//! Changes from outside: another config, a limit, a window; and what the lender says.

use crate::admission::settle;
use crate::config::{Config, Limits, Problem, RateLimit, Reserve};
use crate::engine::Engine;
use crate::funding::book::{Book, SPAN};
use crate::funding::{book, loans, restore};
use crate::inspect::status;
use crate::inspect::status::LimitStatus;
use crate::lending::facts::{Facts, KeptBreaker, KeptWindow};
use crate::lending::pages;
use crate::lending::pages::Found;
use crate::lending::pages::LoanRequest;
use crate::lending::pages::Page;
use crate::lending::pages::Unknown;
use crate::limits::allowance::{Allowance, Loan};
use crate::limits::limit::{Counts, Definition, Spec};
use crate::limits::meters::Meter;
use crate::limits::snapshot::Impossible;
use crate::limits::store::{LOOP, mirrors};
use crate::model::dimension::Dimension;
use crate::model::fingerprint::Salt;
use crate::model::pattern::Pattern;
use crate::model::rate::{Algorithm, MAX_UNITS};
use crate::model::time::{Nanos, whole_nanos};
use crate::model::{LimitId, RouteId, RouteTag, SLOT, SpecId};
use crate::routing::overlay::Overlay;
use crate::routing::service::{Breakers, LoopType, Service};
use crate::routing::{adopt, build, define, loop_table, loops, names, retire, scope};
use crate::scheduler::{marks, rebind};
use crate::upstream::event::News;
use crate::upstream::learned::LearnedLimit;
use crate::upstream::learning::spread;
use crate::upstream::{adaptive_concurrency, announce, backoff, inference, learned, review, slowdown};
use hashbrown::HashMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

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

/// Checks everything that must be true of a config, whether it was parsed or built in code.
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

impl Engine {
    /// From now on nothing is spent that was not written down first. The driver asks for [pages](Engine::pages), and
    /// says when they are [on disk](Engine::written) or [failed](Engine::not_written). `found` is what it found there:
    /// the engine's time must go on from where it was then, and nothing may have gone through this engine before.
    ///
    /// # Errors
    /// If something that was found can never have been written.
    pub fn keep_book(&mut self, found: Found, now: Nanos) -> Result<(), Impossible> {
        let now = self.clock(now);
        let Found { limits, facts, crashed, unknown } = found;
        for (_, kept) in &limits {
            kept.revive(now, self.res.base.limits.unix_offset)?;
        }
        let facts = facts.unwrap_or_default();
        let crashed_at = if crashed { Some(now) } else { facts.crashed_at() };
        let before = facts.unknown_at();
        let (unknown, unknown_keys) = match unknown {
            Unknown::None => before,
            Unknown::Keys => (before.0, Some(now)),
            Unknown::All => (Some(now), before.1),
        };
        let unclaimed = limits.into_iter().collect();
        self.res.base.limits.unsaved = Some(BTreeSet::new());
        self.res.base.funding.book = Some(Box::new(Book {
            gone: Vec::new(),
            unclaimed,
            lost: crashed,
            crashed: crashed_at.map(|at| (at, facts.seeds.clone())),
            orphans: Vec::new(),
            unknown,
            unknown_keys,
            began_spent: Vec::new(),
            rewrite: false,
            facts_due: true,
            span: SPAN,
            durations: HashMap::new(),
        }));
        // First what was learned: limits are taken up under the definitions that they were kept under.
        self.believe(&facts, now);
        for limit in self.res.base.limits.all.live() {
            adopt::promise_for(&mut self.res.base, limit, now);
        }
        restore::forget_what_is_over(&mut self.res.base.funding, &mut self.res.base.limits, now);
        Ok(())
    }

    /// Whether there is something to write.
    #[must_use]
    pub fn has_pages(&self) -> bool {
        let unsaved = self.res.base.limits.unsaved.as_ref().is_some_and(|unsaved| !unsaved.is_empty());
        unsaved
            || self.res.base.funding.book.as_ref().is_some_and(|book| !book.gone.is_empty() || book.facts_due)
    }

    /// Returns the names of limits that began as spent since this was last asked: what was really spent is not known.
    pub fn take_begun_as_spent(&mut self) -> Vec<Arc<str>> {
        self.res
            .base
            .funding
            .book
            .as_mut()
            .map(|book| std::mem::take(&mut book.began_spent))
            .unwrap_or_default()
    }

    /// How long it takes from when a limit asks until its page is on disk, at most as a rule.
    pub fn pages_take(&mut self, span: Duration) {
        if let Some(book) = &mut self.res.base.funding.book {
            book.span = (2 * span).clamp(SPAN, Duration::from_secs(2));
        }
    }

    /// Up to `most` pages that are to be written. Each is taken once: it is answered by one of the two below, and until then
    /// there is no other of the same limit.
    pub fn pages(&mut self, most: usize, now: Nanos) -> Vec<Page> {
        let now = self.clock(now);
        let stale: Vec<LimitId> = self.res.base.limits.stale_slots().collect();
        let Some(book) = &mut self.res.base.funding.book else { return Vec::new() };
        let gone = std::mem::take(&mut book.gone);
        let crate::limits::store::Limits { all, unsaved, .. } = &mut self.res.base.limits;
        let unsaved = unsaved.get_or_insert_default();
        if !unsaved.is_empty() {
            unsaved.extend(stale);
        }
        let is_due = |limit: &LimitId| {
            let lent = all[*limit].lent.as_ref();
            lent.is_some_and(|lent| !lent.is_on_its_way())
        };
        let due: Vec<LimitId> = unsaved.iter().copied().filter(is_due).take(most).collect();
        for limit in &due {
            unsaved.remove(limit);
        }
        let rewrite = std::mem::take(&mut book.rewrite);
        let erased = gone.into_iter().map(|name| Page { name, kept: None, limit: LimitId::NIL, lends: 0 });
        let mut pages: Vec<Page> = erased.collect();
        if rewrite {
            pages.extend(pages::idle_pages(&self.res.base.funding, &self.res.base.limits));
        }
        pages.extend(
            due.into_iter()
                .filter_map(|limit| pages::page(&mut self.scheduler, &mut self.res.base, limit, false, now)),
        );
        pages
    }

    /// Nothing can be written, and calls go on all the same: what limits ask for is theirs without a promise.
    pub fn go_without(&mut self, now: Nanos) {
        let now = self.clock(now);
        let Some(unsaved) = &mut self.res.base.limits.unsaved else { return };
        for limit in std::mem::take(unsaved) {
            let wanted = book::promise_size(&self.res.base.funding, &self.res.base.limits, limit)
                .max(pages::demand(&mut self.scheduler, &mut self.res.base, limit, now));
            if let Some(lent) = &mut self.res.base.limits[limit].lent {
                let units = wanted.saturating_sub(lent.left());
                lent.lend(Loan { units, from: Nanos::ZERO, until: Nanos::NEVER }, now);
                self.res.base.limits.touch(limit, &mut self.res.base.effects);
            }
        }
        self.apply(now);
    }

    /// What is on disk is no longer true of any limit, or is not there any more.
    pub fn all_pages_due(&mut self) {
        if let Some(book) = &mut self.res.base.funding.book {
            self.res
                .base
                .limits
                .unsaved
                .get_or_insert_default()
                .extend(self.res.base.funding.funded_limits.iter().copied());
            (book.rewrite, book.facts_due) = (true, true);
        }
    }

    /// Every limit as it is, with nothing promised: for a clean stop. Nothing goes from now on.
    pub fn last_pages(&mut self, now: Nanos) -> Vec<Page> {
        let now = self.clock(now);
        restore::forget_retired(&mut self.res.base.funding, &mut self.res.base.limits, now);
        let Some(book) = &mut self.res.base.funding.book else { return Vec::new() };
        self.res.base.limits.unsaved.get_or_insert_default().clear();
        let gone = book.gone.iter().map(|name| Page {
            name: name.clone(),
            kept: None,
            limit: LimitId::NIL,
            lends: 0,
        });
        let mut pages: Vec<Page> = gone.collect();
        pages.extend(pages::idle_pages(&self.res.base.funding, &self.res.base.limits));
        let lent: Vec<LimitId> = self.res.base.funding.funded_limits.iter().copied().collect();
        pages.extend(
            lent.into_iter()
                .filter_map(|limit| pages::page(&mut self.scheduler, &mut self.res.base, limit, true, now)),
        );
        pages
    }

    /// These pages are on disk.
    pub fn written(&mut self, pages: &[Page], now: Nanos) {
        let now = self.clock(now);
        for page in pages {
            if pages::is_of(&self.res.base, page)
                && let Some(lent) = &mut self.res.base.limits[page.limit].lent
            {
                lent.is_written(page.lends, now);
                self.res.base.limits.touch(page.limit, &mut self.res.base.effects);
            }
        }
        self.apply(now);
    }

    /// These pages may or may not be on disk; the limits ask again at `retry`.
    pub fn not_written(&mut self, pages: &[Page], retry: Nanos, now: Nanos) {
        self.clock(now);
        for page in pages {
            if page.kept.is_none() {
                self.res.base.funding.book.iter_mut().for_each(|book| book.gone.push(page.name.clone()));
            } else if pages::is_of(&self.res.base, page)
                && let Some(lent) = &mut self.res.base.limits[page.limit].lent
            {
                lent.fail(retry);
                self.res.base.limits.note_unsaved(page.limit);
                let again = retry.max(self.res.base.now);
                marks::arm_sooner(&mut self.scheduler, &mut self.res.base, page.limit, again);
            }
        }
    }

    /// Forgives everything that was spent and is owed at a limit: it begins unspent, and as it is written. What replies and
    /// refusals taught of its N and of how it counts is forgotten. Calls in flight neither refund to it nor charge it when
    /// they end. Returns the limit as it was.
    ///
    /// Backoff windows stay: [`Engine::clear_backoff`] ends those.
    ///
    /// # Errors
    /// Returns an error if there is no such limit, or if it counts what is in flight: slots come back when calls end.
    pub fn reset_limit(&mut self, name: &str, now: Nanos) -> Result<LimitStatus, ChangeError> {
        let now = self.clock(now);
        self.advance(now);
        let limit =
            names::limit_named(&self.res.base, name).ok_or_else(|| ChangeError::UnknownLimit(name.into()))?;
        if self.res.base.limits[limit].meter.is_in_flight() {
            return Err(ChangeError::NothingToReset(name.into()));
        }
        let before = status::limit_status(&mut self.scheduler, &mut self.res.base, limit, now);
        // Grants of earlier epochs took from what is forgiven.
        self.res.base.limits.epoch += 1;
        let held = &mut self.res.base.limits.all[limit];
        held.since = self.res.base.limits.epoch;
        held.meter.reset(now);
        self.res.base.limits.dropped_debt.remove(&limit);
        inference::forget_what_replies_taught(&mut self.res.upstream, &mut self.res.base, limit, now);
        if let Some(mirror) = self.res.upstream.learning.mirrors.get_mut(&limit) {
            mirror.begin_anew();
        }
        announce::announce(
            &mut self.res.upstream,
            News::LimitReset { limit: before.name.clone(), used: before.used },
        );
        self.res.base.limits.touch(limit, &mut self.res.base.effects);
        self.res.base.limits.note_unsaved(limit);
        self.plan_what_was_learned(now);
        self.apply(now);
        Ok(before)
    }

    /// Puts another config into force. Consumption and waiters stay.
    ///
    /// # Errors
    /// If the config cannot be; then the old one stays in force as a whole.
    pub fn reconfigure(&mut self, config: &Config, now: Nanos) -> Result<(), ChangeError> {
        let now = self.clock(now);
        self.advance(now);
        check(config)?;
        let waiting = rebind::displace_all(&mut self.scheduler, &mut self.res.base);
        self.res.base.limits.epoch += 1;
        self.res.base.routing.tag = RouteTag::fresh();
        self.put_config(config, now);
        settle::count_calls_in_flight(&mut self.res, now);
        rebind::place_again(&mut self.scheduler, &mut self.res, waiting, now);
        backoff::bring_back_windows(&mut self.res.upstream, &mut self.res.base, now);
        self.apply(now);
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
        let target =
            names::limit_named(&self.res.base, name).ok_or_else(|| ChangeError::UnknownLimit(name.into()))?;
        let spec = self.res.base.limits[target].spec;
        let definition = {
            let old = &self.res.base.limits.specs[spec];
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
        define::redefine(&mut self.res.base, spec, definition, now);
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
        let target =
            names::limit_named(&self.res.base, name).ok_or_else(|| ChangeError::UnknownLimit(name.into()))?;
        positive(name, bound)?;
        let spec = self.res.base.limits[target].spec;
        let old = &self.res.base.limits.specs[spec].definition;
        let counts = match old.counts {
            Counts::Concurrency(_) => Counts::Concurrency(bound),
            Counts::Throttled(_) => Counts::Throttled(bound),
            Counts::ByteBudget(_) => Counts::ByteBudget(bound),
            Counts::Rate { .. } | Counts::Window | Counts::Breaker(_) => {
                return Err(ChangeError::UnknownLimit(name.into()));
            }
        };
        let definition = Definition::in_flight(counts, old.reserve());
        define::redefine(&mut self.res.base, spec, definition, now);
        self.replan_all(now);
        Ok(())
    }

    /// The first config of a new engine.
    pub(super) fn configure(&mut self, config: &Config) -> Result<(), ChangeError> {
        check(config)?;
        let window = Definition::in_flight(Counts::Window, Reserve::default());
        self.res.upstream.window_spec = self.res.base.limits.specs.insert(Spec::new("", window));
        self.put_config(config, self.res.base.now);
        Ok(())
    }

    pub(super) fn put_config(&mut self, config: &Config, now: Nanos) {
        for spec in self.res.base.limits.specs.iter_mut() {
            spec.gone = !matches!(spec.definition.counts, Counts::Window);
        }
        for service in self.res.base.routing.services.iter_mut() {
            service.gone = true;
        }
        self.res.base.routing.global =
            review::define(&mut self.res.upstream, &mut self.res.base, "global", &config.global, false, now);
        self.res.base.routing.loop_specs =
            review::define(&mut self.res.upstream, &mut self.res.base, LOOP, &config.loops, false, now);
        for (name, service) in &config.services {
            let index = match self.res.base.routing.service_index.get(name.as_str()) {
                Some(index) => *index,
                None => {
                    let index = self.res.base.routing.services.insert(Service::default());
                    self.res.base.routing.service_index.insert(name.as_str().into(), index);
                    index
                }
            };
            let per_key = service.per_key;
            let specs = review::define(
                &mut self.res.upstream,
                &mut self.res.base,
                name,
                &service.limits,
                per_key,
                now,
            );
            let endpoints = service.endpoints.iter().map(|(text, limits)| {
                let level = format!("{name}/endpoint:{text}");
                (
                    Pattern::of_endpoints(text),
                    review::define(&mut self.res.upstream, &mut self.res.base, &level, limits, per_key, now),
                )
            });
            let endpoints = endpoints.collect();
            let models = service.models.iter().map(|(text, limits)| {
                let level = format!("{name}/model:{text}");
                (
                    Pattern::new(text),
                    review::define(&mut self.res.upstream, &mut self.res.base, &level, limits, per_key, now),
                )
            });
            let models = models.collect();
            let breakers = define::define_breakers(&mut self.res.base, name, service, now);
            let held = &mut self.res.base.routing.services[index];
            (held.specs, held.endpoints, held.models) = (specs, endpoints, models);
            held.breakers = breakers;
            held.set_rules(service);
            slowdown::set_ramp(&mut self.res.upstream, &mut self.res.base, index, service.ramp.as_ref(), now);
        }
        // Routes to a service that is gone are kept for calls in flight; its limits are not.
        for service in self.res.base.routing.services.iter_mut().filter(|service| service.gone) {
            (service.specs, service.endpoints, service.models) = (Vec::new(), Vec::new(), Vec::new());
            service.breakers = Breakers::default();
        }
        self.res.base.routing.loop_types.clear();
        for (name, loop_type) in &config.loop_types {
            let specs = review::define(
                &mut self.res.upstream,
                &mut self.res.base,
                &format!("loop_type:{name}"),
                &loop_type.limits,
                false,
                now,
            );
            let inverse = inverse_weight(loop_type.weight);
            let loop_type = LoopType { specs, priority: loop_type.priority, inverse };
            self.res.base.routing.loop_types.insert(name.as_str().into(), loop_type);
        }
        self.res.base.routing.customs = customs(config);
        retire::remove_gone(&mut self.res.base, now);
        self.purge_retired();
        restore::forget_retired(&mut self.res.base.funding, &mut self.res.base.limits, now);
        backoff::keep_windows(&mut self.res.upstream, &mut self.res.base, now);
        self.purge_retired();
        self.res.base.routing.shapes.clear();
        for index in self.res.base.routing.loops.all.ids() {
            if loop_table::loop_name(&self.res.base, index).is_some() {
                loops::make_loop_limits(&mut self.res.base, index, now);
                self.purge_retired();
            }
        }
        // In an order of their own: the order of a hash map differs from run to run.
        let routes: BTreeSet<RouteId> = self.res.base.routing.route_index.values().copied().collect();
        for route_id in routes {
            build::list_limits(&mut self.res.base, route_id, now);
        }
    }

    /// Whether a new call waits for a breaker that is open, if the next probe lies within its timeout. By default
    /// it is refused at once.
    pub fn wait_for_breakers(&mut self, wait: bool) {
        self.res.upstream.patient = wait;
    }

    /// What is to be kept beside the limits, if that has changed since this was last asked.
    pub fn facts(&mut self, now: Nanos) -> Option<Facts> {
        let now = self.clock(now);
        let book = self.res.base.funding.book.as_mut()?;
        std::mem::take(&mut book.facts_due).then(|| self.all_facts(now))
    }

    /// The same, changed or not: for a clean stop.
    pub fn all_facts(&mut self, now: Nanos) -> Facts {
        let now = self.clock(now);
        let retired = self.res.base.limits.retired.windows().iter().map(|(key, ends)| (key, *ends));
        let windows = backoff::window_ends(&self.res.upstream, &self.res.base).chain(retired);
        let windows = windows.filter(|(_, [until, tail, _])| *until > now || *tail > now);
        let windows = windows.map(|(key, [until, tail, by_hand])| KeptWindow {
            key: key.clone(),
            until_ns: until.0,
            tail_ns: tail.0,
            by_hand_ns: by_hand.0,
        });
        let seeds = pages::seeds(&self.res.base);
        let mut facts = Facts { windows: windows.collect(), seeds, ..Facts::default() };
        for spec in self.res.base.limits.specs.iter().filter(|spec| !spec.gone && !spec.shared.is_nil()) {
            let Meter::Circuit(circuit) = &self.res.base.limits[spec.shared].meter else { continue };
            let (failures, openings, open) = circuit.breaker().known();
            if open.is_some() {
                let (name, open_until_ns) =
                    (names::limit_name(&self.res.base, spec.shared), open.map(|until| until.0));
                facts.breakers.push(KeptBreaker { name, failures, openings, open_until_ns });
            }
        }
        // What is learned is a definition's; those of loops and keys learn nothing that is kept, and may be a million.
        let shared = self
            .res
            .base
            .limits
            .specs
            .iter()
            .filter(|spec| !spec.gone && !spec.shared.is_nil())
            .map(|spec| spec.shared);
        facts.learned = shared
            .filter_map(|limit| learned::learned_of(&self.res.upstream, &self.res.base, limit))
            .collect();
        if let Some(book) = &self.res.base.funding.book {
            facts.crashed_ns = book.crashed.as_ref().map(|(at, _)| at.0);
            facts.unknown_ns = book.unknown.map(|at| at.0);
            facts.unknown_keys_ns = book.unknown_keys.map(|at| at.0);
            for (service, durations) in &book.durations {
                let name = self.res.base.routing.service_index.iter().find(|(_, index)| *index == service);
                if let Some(((name, _), took)) = name.zip(durations.nearly_all()) {
                    facts.in_flight_ns.insert(name.as_ref().into(), whole_nanos(took));
                }
            }
        }
        facts
    }

    /// These are on disk.
    pub fn facts_written(&mut self, facts: &Facts) {
        pages::seeds_written(&mut self.res.base, &facts.seeds);
    }

    /// These may or may not be on disk.
    pub fn facts_not_written(&mut self) {
        book::facts_changed(&mut self.res.base.funding);
    }

    /// What was known before a restart.
    pub(super) fn believe(&mut self, facts: &Facts, now: Nanos) {
        for learned in &facts.learned {
            self.remember(learned, now);
        }
        for KeptWindow { key, until_ns, tail_ns, by_hand_ns } in &facts.windows {
            let ends = [until_ns, tail_ns, by_hand_ns].map(|ns| Nanos(*ns));
            match scope::scope_named(&self.res.base, key) {
                Some(_) => backoff::reopen(&mut self.res.upstream, &mut self.res.base, key, ends, now),
                // The config may have it again.
                None => self.res.base.limits.retire_window(key.clone(), ends),
            }
        }
        for (service, took) in &facts.in_flight_ns {
            if let Some(service) = names::service_named(&self.res.base, service)
                && let Some(book) = &mut self.res.base.funding.book
            {
                book.durations.entry(service).or_default().add(Duration::from_nanos(*took));
            }
        }
        for kept in &facts.breakers {
            let named = |limit: &&LimitId| *names::limit_name(&self.res.base, **limit) == *kept.name;
            let shared: Vec<LimitId> = self
                .res
                .base
                .limits
                .specs
                .iter()
                .map(|spec| spec.shared)
                .filter(|limit| !limit.is_nil())
                .collect();
            if let Some(limit) = shared.iter().find(named)
                && let Meter::Circuit(circuit) = &mut self.res.base.limits[*limit].meter
            {
                circuit.breaker_mut().believe((kept.failures, kept.openings, kept.open_until_ns.map(Nanos)));
            }
        }
    }

    /// Calls go over a network, and it is told when they [leave](Engine::left): until replies show by how much they overtake
    /// each other, they may do so by as much as they ever do. To be said before the first call.
    pub fn expect_a_network(&mut self, now: Nanos) {
        let now = self.clock(now);
        self.res.base.limits.apart = spread::MOST;
        for index in self.res.base.limits.specs.ids() {
            if self.res.base.limits.expect_apart(index) {
                define::put_in_force(&mut self.res.base, index, now);
            }
        }
    }

    /// What was learned about a limit before, by another engine or before a restart. It is in force at once, and what
    /// replies say goes before it.
    pub fn remember(&mut self, learned: &LearnedLimit, now: Nanos) -> bool {
        let now = self.clock(now);
        let Some(limit) = names::limit_named(&self.res.base, &learned.limit) else { return false };
        let index = self.res.base.limits[limit].spec;
        let spec = &mut self.res.base.limits.specs[index];
        if spec.written.rate_of().is_none() {
            return adaptive_concurrency::resume_adaptive(
                &mut self.res.upstream,
                &mut self.res.base,
                index,
                learned.in_force,
                now,
            );
        }
        if spec.per_key {
            return false;
        }
        let held = &mut spec.learned;
        (held.units, held.lifts) = (learned.told.filter(|told| *told > 0), spec.written.lifts);
        (held.bucket, held.burst) = (learned.bucket, learned.burst);
        if !learned.jitter.is_zero() {
            held.jitter = learned.jitter;
        }
        if define::put_in_force(&mut self.res.base, index, now) {
            self.replan_all(now);
        }
        let service = names::service_at(&self.res.base, index);
        if let (Some(took), Some(service)) = (learned.latency, service) {
            self.res.upstream.learning.spreads.entry(service).or_default().remember(took);
        }
        true
    }

    /// From now on the limit of that name spends only what it is lent, about `size` units at a time. Says
    /// whether there is such a limit.
    pub fn spend_from_loans(&mut self, name: &str, size: u64, now: Nanos) -> bool {
        let now = self.clock(now);
        let Some(limit) = names::limit_named(&self.res.base, name) else { return false };
        self.res.base.limits[limit].lent = Some(Box::new(Allowance::new(size, now)));
        self.res.base.funding.funded_limits.insert(limit);
        self.res.base.limits.see_if_plain(limit);
        loans::want_loan(&mut self.res.base.funding, &mut self.res.base.limits, limit, 1, now);
        true
    }

    /// What limits ask of their lender, since this was last asked.
    pub fn loan_requests(&mut self) -> Vec<LoanRequest> {
        let requests = std::mem::take(&mut self.res.base.funding.loan_requests).into_iter();
        requests
            .map(|(limit, units, spent)| LoanRequest {
                limit: names::limit_name(&self.res.base, limit),
                units,
                spent,
            })
            .collect()
    }

    /// The lender gives units to a limit.
    pub fn lend(&mut self, name: &str, loan: Loan, now: Nanos) {
        let now = self.clock(now);
        let Some(limit) = names::limit_named(&self.res.base, name) else { return };
        if let Some(lent) = &mut self.res.base.limits[limit].lent {
            lent.lend(loan, now);
            self.res.base.limits.touch(limit, &mut self.res.base.effects);
            self.apply(now);
        }
    }

    /// The lender could not lend; it is asked again at `retry`.
    pub fn loan_failed(&mut self, name: &str, retry: Nanos, now: Nanos) {
        self.clock(now);
        let Some(limit) = names::limit_named(&self.res.base, name) else { return };
        if let Some(lent) = &mut self.res.base.limits[limit].lent {
            lent.fail(retry);
            let again = retry.max(self.res.base.now);
            marks::arm_sooner(&mut self.scheduler, &mut self.res.base, limit, again);
        }
    }

    /// Sets the salt of the fingerprints that API keys are named by. To be done before the first call.
    pub fn set_salt(&mut self, salt: Salt) {
        self.res.base.routing.salt = salt;
    }

    /// The wall clock shows `unix` at `now`. Calendar windows end when it shows their end; a step of it never gives a
    /// stretch of the calendar a second allowance.
    pub fn set_wall_clock(&mut self, now: Nanos, unix: Duration) {
        let now = self.clock(now);
        self.res.base.limits.unix_offset =
            i128::try_from(unix.as_nanos()).unwrap_or(i128::MAX) - i128::from(now.0);
        let calendars: BTreeSet<SpecId> = self
            .res
            .base
            .limits
            .specs
            .ids()
            .filter(|spec| self.res.base.limits.specs[*spec].has_calendar())
            .collect();
        if calendars.is_empty() {
            return;
        }
        for limit in self.res.base.limits.all.ids() {
            let held = &mut self.res.base.limits.all[limit];
            if calendars.contains(&held.spec)
                && let Meter::Fixed(window) = &mut held.meter
                && window.follow(self.res.base.limits.unix_offset, now)
                && !self.res.base.limits.all.is_free(limit)
            {
                self.res.base.limits.touch(limit, &mut self.res.base.effects);
                self.res.base.limits.note_unsaved(limit);
            }
        }
        self.apply(now);
    }

    /// Opens the window of a key for that long from now, or extends it; it never shortens one. The key is a limit's
    /// name or the level before it: `openai`, `openai/model:gpt-4o`, `openai/requests/1m`, `global`.
    ///
    /// # Errors
    /// If there is nothing of that name.
    pub fn set_backoff(&mut self, key: &str, span: Duration, now: Nanos) -> Result<(), ChangeError> {
        let now = self.clock(now);
        self.advance(now);
        let scope =
            scope::scope_named(&self.res.base, key).ok_or_else(|| ChangeError::UnknownLimit(key.into()))?;
        let index = backoff::window_of(&mut self.res.upstream, &mut self.res.base, scope.clone(), now);
        let window = &mut self.res.upstream.windows[index];
        window.by_hand = window.by_hand.max(now.after(span));
        backoff::back_off(&mut self.res.upstream, &mut self.res.base, scope, span, now);
        self.apply(now);
        Ok(())
    }

    /// Ends the window of a key and the tail after it, and those of all that is below it: `openai` ends that of
    /// `openai/requests/1m` too. Those that wait go at a pace. Says whether there was one.
    pub fn clear_backoff(&mut self, key: &str, now: Nanos) -> bool {
        let now = self.clock(now);
        self.advance(now);
        let scope = scope::scope_named(&self.res.base, key);
        let is_below = |overlay: &Overlay| {
            let below =
                overlay.key.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            below || Some(&overlay.scope) == scope.as_ref()
        };
        let mut was = false;
        for index in (0..self.res.upstream.windows.len())
            .filter(|index| is_below(&self.res.base.routing.overlays[*index]))
            .collect::<Vec<_>>()
        {
            let (window, overlay) =
                (&mut self.res.upstream.windows[index], &mut self.res.base.routing.overlays[index]);
            was |= overlay.tail > now;
            let cleared = (window.until > now).then(|| overlay.key.clone());
            window.until = window.until.min(now);
            overlay.tail = overlay.tail.min(now);
            window.by_hand = window.by_hand.min(now);
            window.refusals = 0;
            let limit = overlay.limit;
            if let Meter::Hold(hold) = &mut self.res.base.limits[limit].meter {
                hold.open(now);
            }
            self.res.base.limits.touch(limit, &mut self.res.base.effects);
            if let Some(key) = cleared {
                announce::announce(&mut self.res.upstream, News::WindowCleared { key });
            }
        }
        book::facts_changed(&mut self.res.base.funding);
        backoff::end_tails(&mut self.res.upstream, &mut self.res.base, now);
        self.apply(now);
        was
    }
}
