//! A slower pace for a time: while an upstream is overloaded, and after a time without calls.
//!
//! `learn/` knows the share of the usual pace that is right; here it is put upon the limits of the service, or of the model
//! if it has limits of its own. What was learned about N stays as it is: only the pace of short windows changes, what a
//! bucket lets go at once, and what may be in flight. None of them goes below one call.
//!
//! What others do about failing upstreams is left to them. A *window* keeps everybody away for the time that the upstream
//! states; the *breaker* keeps everybody away when hardly anything works; the *retry budget* bounds what is tried again. All
//! three are silent while a third of all calls fail and nobody says for how long: that is what this is for. While a
//! breaker is open nothing ends, so nothing is cut twice for one cause.

use super::lesson::{Lesson, Slowed};
use super::scope::Scope;
use super::{Engine, InFlightCall};
use crate::config::RampConfig;
use crate::learn::ramp::Ramp;
use crate::model::time::Nanos;
use crate::model::{ServiceId, SpecId};

/// Whose pace it is: a service's, or one of its models', by its pattern.
pub(super) type Paced = (ServiceId, Option<Box<str>>);

impl Engine {
    /// A call was answered, or failed.
    #[inline]
    pub(super) fn ended_well(&mut self, call: &InFlightCall, well: bool, now: Nanos) {
        // Nobody keeps count of an upstream that never fails.
        if well && self.upstream.school.overloads.is_empty() {
            return;
        }
        self.count_failures(call, well, now);
    }

    #[cold]
    fn count_failures(&mut self, call: &InFlightCall, well: bool, now: Nanos) {
        let whose = self.paced(call);
        if well && !self.upstream.school.overloads.contains_key(&whose) {
            return;
        }
        let (school, skeletons) = (&mut self.upstream.school, &self.routing.skeletons);
        let on_their_way = || {
            let (service, model) = &whose;
            let same = skeletons.iter().filter(|held| held.service == *service);
            let same = same.filter(|held| model.is_none() || held.key.model.as_deref() == model.as_deref());
            same.fold(0_u32, |sum, held| sum.saturating_add(held.in_flight))
        };
        let overload = school.overloads.entry(whose.clone()).or_default();
        if overload.ended(call.at, !well, on_their_way, now) {
            self.eased(&whose, Slowed::Overload, now);
        }
        self.see_what_is_due();
    }

    /// Whose pace a call goes by.
    fn paced(&self, call: &InFlightCall) -> Paced {
        let held = &self.routing.skeletons[call.skeleton];
        let models = &self.routing.services[held.service].models;
        let own = held.key.model.as_deref().filter(|model| {
            models.iter().any(|(pattern, specs)| pattern.text() == *model && !specs.is_empty())
        });
        (held.service, own.map(Into::into))
    }

    fn pace_of(&self, whose: &Paced) -> f64 {
        self.upstream.school.overloads.get(whose).map_or(1.0, |overload| overload.pace())
    }

    /// Gives a service the ramp of its config.
    pub(super) fn set_ramp(&mut self, service: ServiceId, rules: Option<&RampConfig>, now: Nanos) {
        match rules.filter(|rules| rules.from < 1.0) {
            Some(rules)
                if self.upstream.school.ramps.get(&service).is_some_and(|ramp| ramp.rules() == rules) => {}
            Some(rules) => drop(self.upstream.school.ramps.insert(service, Ramp::new(rules.clone()))),
            None => drop(self.upstream.school.ramps.remove(&service)),
        }
        self.routing.services[service].ramps = self.upstream.school.ramps.contains_key(&service);
        self.ease(service, now);
        self.see_what_is_due();
    }

    /// A call to a service goes that starts slowly.
    pub(super) fn sets_out(&mut self, service: ServiceId, now: Nanos) {
        if let Some(ramp) = self.upstream.school.ramps.get_mut(&service)
            && ramp.goes(now)
        {
            self.see_what_is_due();
        }
    }

    /// Looks at every pace that is due.
    pub(super) fn review_paces(&mut self, now: Nanos) {
        let due: Vec<ServiceId> = self.upstream.school.ramps.keys().copied().collect();
        for service in due {
            let Some(ramp) = self.upstream.school.ramps.get_mut(&service) else { continue };
            if !ramp.look(now) {
                continue;
            }
            let pace = ramp.pace();
            self.ease(service, now);
            let scope = self.key_of(&Scope::Service(service));
            self.tell(Lesson::Pace { scope, pace, by: Slowed::Idle });
        }
        let due: Vec<Paced> = self.upstream.school.overloads.keys().cloned().collect();
        for whose in due {
            let Some(overload) = self.upstream.school.overloads.get_mut(&whose) else { continue };
            if overload.look(now) {
                self.eased(&whose, Slowed::Overload, now);
            }
            if self.upstream.school.overloads.get_mut(&whose).is_some_and(|overload| overload.is_idle(now)) {
                self.upstream.school.overloads.remove(&whose);
            }
        }
    }

    fn eased(&mut self, whose: &Paced, by: Slowed, now: Nanos) {
        self.ease(whose.0, now);
        let scope = match &whose.1 {
            Some(model) => Scope::Model(whose.0, model.clone()),
            None => Scope::Service(whose.0),
        };
        let (scope, pace) = (self.key_of(&scope), self.pace_of(whose));
        self.tell(Lesson::Pace { scope, pace, by });
    }

    /// Brings the limits of a service to the pace that is right.
    fn ease(&mut self, service: ServiceId, now: Nanos) {
        let held = &self.routing.services[service];
        let own = held.specs.iter().chain(held.endpoints.iter().flat_map(|(_, specs)| specs));
        let mut paced: Vec<(SpecId, Paced)> = own.map(|spec| (*spec, (service, None))).collect();
        for (pattern, specs) in &held.models {
            paced.extend(specs.iter().map(|spec| (*spec, (service, Some(pattern.text().into())))));
        }
        let ramp = self.upstream.school.ramps.get(&service).map_or(1.0, Ramp::pace);
        let whole = self.pace_of(&(service, None));
        for (spec, whose) in paced {
            let own = if whose.1.is_some() { self.pace_of(&whose) } else { 1.0 };
            let pace = ramp * whole * own;
            if self.limits.specs[spec].learned.pace != pace {
                self.limits.specs[spec].learned.pace = pace;
                self.relearn(spec, now);
            }
        }
    }
}
