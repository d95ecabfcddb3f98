//! What may be in flight, where that is learned.
//!
//! Two kinds. A `concurrency` that adapts follows how the upstream does (`learn/adaptive.rs`). And where no
//! `throttled_concurrency` is set, calls that go throttled after a 429 are at most as many as the limit on calls lets go in
//! the time that a reply takes (Little's law): more of them at once would only be a herd. That time is the one that
//! nine of ten replies keep to, so that a slow one does not hold up the pace.

use super::layout::Use;
use super::lesson::Lesson;
use super::{Engine, InFlightCall, SLOT};
use crate::config::{AdaptiveConfig, Reserve};
use crate::learn::adaptive::Adaptive;
use crate::limit::{Counts, Definition, Spec};
use crate::model::dimension::Dimension;
use crate::model::time::Nanos;
use crate::model::{RouteId, ServiceId, SpecId};

impl Engine {
    /// Has the bound on what is in flight adapt, or no longer.
    pub(super) fn set_adaptive(&mut self, spec: SpecId, rules: Option<&AdaptiveConfig>, now: Nanos) {
        let most = self.limits.specs[spec].written.whole();
        match (rules, self.upstream.school.adaptive.get_mut(&spec)) {
            (Some(rules), Some(held)) if held.rules() == rules => held.change_most(most),
            (Some(rules), _) => {
                self.upstream.school.adaptive.insert(spec, Adaptive::new(rules.clone(), most));
            }
            (None, Some(_)) => drop(self.upstream.school.adaptive.remove(&spec)),
            (None, None) => return,
        }
        self.fit_slots(spec, now);
    }

    /// A call ended of which it is known whether the upstream coped with it.
    #[inline]
    pub(super) fn coped(&mut self, call: &InFlightCall, failed: bool, now: Nanos) {
        if !self.upstream.school.adaptive.is_empty() {
            self.adapt(call, failed, now);
        }
    }

    #[cold]
    fn adapt(&mut self, call: &InFlightCall, failed: bool, now: Nanos) {
        let uses = self.routing.skeletons[call.skeleton].slots.clone();
        for (limit, _) in uses {
            let held = &mut self.limits[limit];
            let (spec, in_flight) = (held.spec, held.meter.used(now));
            let most = self.limits.specs[spec].written.whole();
            let Some(adaptive) = self.upstream.school.adaptive.get_mut(&spec) else { continue };
            adaptive.change_most(most);
            if adaptive.ended(call.at, failed, in_flight, now) {
                let bound = adaptive.bound();
                self.fit_slots(spec, now);
                let limit = self.limit_name(limit);
                self.tell(Lesson::InFlight { limit, bound });
            }
        }
    }

    /// What was learned before about a bound that adapts.
    pub(super) fn resume_adaptive(&mut self, spec: SpecId, bound: u64, now: Nanos) -> bool {
        let Some(adaptive) = self.upstream.school.adaptive.get_mut(&spec) else { return false };
        adaptive.resume(bound, now);
        self.fit_slots(spec, now);
        true
    }

    /// Brings a bound to what was learned. Every call takes one slot, so nobody's cost has to fit anew.
    fn fit_slots(&mut self, spec: SpecId, now: Nanos) {
        let bound = self.upstream.school.adaptive.get(&spec).map(Adaptive::bound);
        let held = &mut self.limits.specs[spec];
        held.learned.slots = bound;
        let limit = held.shared;
        if limit.is_nil() {
            // Each key has its own.
            self.put_in_force(spec, now);
            return;
        }
        // There may be very many limits, and this is done often: they are not gone through for one.
        let old = std::mem::replace(&mut held.definition, held.written.with(&held.learned));
        held.withheld = held.definition.withheld(held.definition.whole());
        held.definition.change(&mut self.limits.all[limit].meter, now, self.limits.unix_offset, &old);
        self.see_if_plain(limit);
        self.effects.touch(limit, &self.limits);
    }

    /// Judges how many calls of these services go throttled at once, for as long as any of them do. They are about to
    /// begin to. A limit that is there is brought up to date now, so that a look at a route later changes nothing.
    pub(super) fn judge_herds(&mut self, concerned: impl Fn(ServiceId) -> bool, now: Nanos) {
        for index in self.limits.specs.ids() {
            let spec = &self.limits.specs[index];
            let Counts::Rate { dimension: Dimension::Requests, rate, .. } = &spec.definition.counts else {
                continue;
            };
            let service = self.service_at(index).filter(|service| concerned(*service));
            let spread = service.and_then(|service| self.upstream.school.spreads.get(&service));
            let Some(took) = spread.and_then(|spread| spread.most_keep_to()) else { continue };
            let flows = rate.units() as f64 / rate.window().as_secs_f64() * took.as_secs_f64();
            let bound = (flows.ceil() as u64).max(1);
            let before = self.routing.herds.insert(index, bound);
            if before != Some(bound) && service.is_some_and(|service| self.throttles_by(index, service)) {
                self.throttle_at_most(index, bound, now);
            }
        }
    }

    /// Whether the calls of a service that go throttled are bounded by this rate: no bound is configured, and it is the
    /// shortest of its level.
    fn throttles_by(&self, rate: SpecId, service: ServiceId) -> bool {
        let spec = &self.limits.specs[rate];
        let service = &self.routing.services[service];
        let patterns = service.endpoints.iter().chain(&service.models);
        let levels = std::iter::once(&service.specs).chain(patterns.map(|(_, specs)| specs));
        let configured = levels.flatten().map(|index| &self.limits.specs[*index]);
        let mut throttles =
            configured.filter(|other| matches!(other.definition.counts, Counts::Throttled(_)));
        let window = |spec: &Spec| spec.definition.rate_of().map(|rate| rate.window());
        let is_shorter = |other: &Spec| {
            let counts_calls = other.definition.dimension() == Some(Dimension::Requests);
            !other.gone && other.level == spec.level && counts_calls && window(other) < window(spec)
        };
        !spec.gone
            && super::change::mirrors(&spec.level)
            && !throttles.any(|other| spec.level.starts_with(&*other.level))
            && !self.limits.specs.iter().any(is_shorter)
    }

    /// Changes the limit on throttled calls that was made for a rate, if there is one, and tells the new bound.
    fn throttle_at_most(&mut self, rate: SpecId, bound: u64, now: Nanos) {
        let level = self.limits.specs[rate].level.clone();
        let definition = Definition::in_flight(Counts::Throttled(bound), Reserve::default());
        let limit = format!("{level}/{}", definition.suffix()).into();
        if let Some(made) = self.throttle_of(&level) {
            self.redefine(made, definition, now);
        }
        self.tell(Lesson::InFlight { limit, bound });
    }

    /// The limit on throttled calls of a level.
    fn throttle_of(&self, level: &str) -> Option<SpecId> {
        let is_it = |spec: &Spec| {
            !spec.gone && *spec.level == *level && matches!(spec.definition.counts, Counts::Throttled(_))
        };
        self.limits.specs.ids().find(|index| is_it(&self.limits.specs[*index]))
    }

    /// The limit on the throttled calls of a route for which none is set: made when they first go throttled, and kept,
    /// since calls that took from it give back to it later.
    pub(super) fn throttle_by_rate(&mut self, skeleton: RouteId, throttled: bool, now: Nanos) -> Option<Use> {
        let held = &self.routing.skeletons[skeleton];
        let key = held.key.key.clone();
        let on_calls = held.uses.iter().filter_map(|&(limit, _)| {
            let spec = self.limits[limit].spec;
            let of = &self.limits.specs[spec];
            let Counts::Rate { dimension: Dimension::Requests, rate, .. } = &of.definition.counts else {
                return None;
            };
            let rank = (super::scope::depth(&of.level), rate.window());
            super::change::mirrors(&of.level).then_some((rank, spec))
        });
        let (_, spec) = on_calls.min()?;
        let of = &self.limits.specs[spec];
        let (level, per_key) = (of.level.clone(), of.per_key);
        let throttle = match self.throttle_of(&level) {
            Some(known) => known,
            None => {
                let bound = self.routing.herds.get(&spec).copied().filter(|_| throttled)?;
                let definition = Definition::in_flight(Counts::Throttled(bound), Reserve::default());
                self.define_one(&level, definition, per_key, now)
            }
        };
        Some((self.instance(throttle, key.as_deref(), now), SLOT))
    }
}
