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

use crate::calls::InFlightCall;
use crate::config::RampConfig;
use crate::model::time::Nanos;
use crate::model::{ServiceId, SpecId};
use crate::routing::overlay::Scope;
use crate::routing::state::Base;
use crate::routing::{define, scope};
use crate::upstream::event::{Lesson, Slowed};
use crate::upstream::learning::ramp::Ramp;
use crate::upstream::state::{Paced, Upstream};
use crate::upstream::{announce, due};

/// A call was answered, or failed.
#[inline]
pub(crate) fn count_end(u: &mut Upstream, base: &mut Base, call: &InFlightCall, well: bool, now: Nanos) {
    // An upstream that never fails is not counted.
    if well && u.learning.overloads.is_empty() {
        return;
    }
    count_failures(u, base, call, well, now);
}

#[cold]
fn count_failures(u: &mut Upstream, base: &mut Base, call: &InFlightCall, well: bool, now: Nanos) {
    let whose = paced(base, call);
    if well && !u.learning.overloads.contains_key(&whose) {
        return;
    }
    let (learning, routes) = (&mut u.learning, &base.routing.routes);
    let on_their_way = || {
        let (service, model) = &whose;
        let same = routes.iter().filter(|held| held.service == *service);
        let same = same.filter(|held| model.is_none() || held.key.model.as_deref() == model.as_deref());
        same.fold(0_u32, |sum, held| sum.saturating_add(held.in_flight))
    };
    let overload = learning.overloads.entry(whose.clone()).or_default();
    if overload.ended(call.at, !well, on_their_way, now) {
        announce_pace(u, base, &whose, Slowed::Overload, now);
    }
    due::see_what_is_due(u, base);
}

/// Whose pace a call goes by.
fn paced(base: &Base, call: &InFlightCall) -> Paced {
    let held = &base.routing.routes[call.route_id];
    let models = &base.routing.services[held.service].models;
    let own =
        held.key.model.as_deref().filter(|model| {
            models.iter().any(|(pattern, specs)| pattern.text() == *model && !specs.is_empty())
        });
    (held.service, own.map(Into::into))
}

fn pace_of(u: &Upstream, whose: &Paced) -> f64 {
    u.learning.overloads.get(whose).map_or(1.0, |overload| overload.pace())
}

/// Gives a service the ramp of its config.
pub(crate) fn set_ramp(
    u: &mut Upstream,
    base: &mut Base,
    service: ServiceId,
    rules: Option<&RampConfig>,
    now: Nanos,
) {
    match rules.filter(|rules| rules.from < 1.0) {
        Some(rules) if u.learning.ramps.get(&service).is_some_and(|ramp| ramp.rules() == rules) => {}
        Some(rules) => drop(u.learning.ramps.insert(service, Ramp::new(rules.clone()))),
        None => drop(u.learning.ramps.remove(&service)),
    }
    base.routing.services[service].ramps = u.learning.ramps.contains_key(&service);
    set_pace(u, base, service, now);
    due::see_what_is_due(u, base);
}

/// A call to a service goes that starts slowly.
pub(crate) fn note_departure(u: &mut Upstream, base: &mut Base, service: ServiceId, now: Nanos) {
    if let Some(ramp) = u.learning.ramps.get_mut(&service)
        && ramp.goes(now)
    {
        due::see_what_is_due(u, base);
    }
}

/// Looks at every pace that is due.
pub(crate) fn review_paces(u: &mut Upstream, base: &mut Base, now: Nanos) {
    let due: Vec<ServiceId> = u.learning.ramps.keys().copied().collect();
    for service in due {
        let Some(ramp) = u.learning.ramps.get_mut(&service) else { continue };
        if !ramp.look(now) {
            continue;
        }
        let pace = ramp.pace();
        set_pace(u, base, service, now);
        let scope = scope::key_of(base, &Scope::Service(service));
        announce::tell(u, base, Lesson::Pace { scope, pace, by: Slowed::Idle });
    }
    let due: Vec<Paced> = u.learning.overloads.keys().cloned().collect();
    for whose in due {
        let Some(overload) = u.learning.overloads.get_mut(&whose) else { continue };
        if overload.look(now) {
            announce_pace(u, base, &whose, Slowed::Overload, now);
        }
        if u.learning.overloads.get_mut(&whose).is_some_and(|overload| overload.is_idle(now)) {
            u.learning.overloads.remove(&whose);
        }
    }
}

fn announce_pace(u: &mut Upstream, base: &mut Base, whose: &Paced, by: Slowed, now: Nanos) {
    set_pace(u, base, whose.0, now);
    let scope = match &whose.1 {
        Some(model) => Scope::Model(whose.0, model.clone()),
        None => Scope::Service(whose.0),
    };
    let (scope, pace) = (scope::key_of(base, &scope), pace_of(u, whose));
    announce::tell(u, base, Lesson::Pace { scope, pace, by });
}

/// Brings the limits of a service to the pace that is right.
fn set_pace(u: &mut Upstream, base: &mut Base, service: ServiceId, now: Nanos) {
    let held = &base.routing.services[service];
    let own = held.specs.iter().chain(held.endpoints.iter().flat_map(|(_, specs)| specs));
    let mut paced: Vec<(SpecId, Paced)> = own.map(|spec| (*spec, (service, None))).collect();
    for (pattern, specs) in &held.models {
        paced.extend(specs.iter().map(|spec| (*spec, (service, Some(pattern.text().into())))));
    }
    let ramp = u.learning.ramps.get(&service).map_or(1.0, Ramp::pace);
    let whole = pace_of(u, &(service, None));
    for (spec, whose) in paced {
        let own = if whose.1.is_some() { pace_of(u, &whose) } else { 1.0 };
        let pace = ramp * whole * own;
        if base.limits.specs[spec].learned.pace != pace {
            base.limits.specs[spec].learned.pace = pace;
            define::relearn(base, spec, now);
        }
    }
}
