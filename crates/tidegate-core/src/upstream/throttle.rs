//! How many calls go throttled at once after a 429, where no `throttled_concurrency` is configured.
//!
//! The bound is as many calls as the limit on requests lets go in the time that a reply takes (Little's law). More calls at once
//! would only be a herd. That time is the one that nine of ten replies keep to, so that a slow reply does not hold up the
//! pace.

use crate::config::Reserve;
use crate::limits::limit::{Counts, Definition, Spec};
use crate::model::dimension::Dimension;
use crate::model::time::Nanos;
use crate::model::{ServiceId, SpecId};
use crate::routing::state::Base;
use crate::routing::{define, names};
use crate::upstream::announce;
use crate::upstream::event::Lesson;
use crate::upstream::state::Upstream;

/// Judges how many calls of these services go throttled at once, for as long as any of them do. They are about to
/// begin to. A limit that is there is brought up to date now, so that a look at a route later changes nothing.
pub(crate) fn set_throttle_bounds(
    u: &mut Upstream,
    base: &mut Base,
    routes_of: impl Fn(ServiceId) -> bool,
    now: Nanos,
) {
    for index in base.limits.specs.ids() {
        let spec = &base.limits.specs[index];
        let Counts::Rate { dimension: Dimension::Requests, rate, .. } = &spec.definition.counts else {
            continue;
        };
        let service = names::service_at(base, index).filter(|service| routes_of(*service));
        let spread = service.and_then(|service| u.learning.spreads.get(&service));
        let Some(took) = spread.and_then(|spread| spread.most_keep_to()) else { continue };
        let flows = rate.units() as f64 / rate.window().as_secs_f64() * took.as_secs_f64();
        let bound = (flows.ceil() as u64).max(1);
        let before = base.routing.throttle_bounds.insert(index, bound);
        if before != Some(bound) && service.is_some_and(|service| throttles_by(base, index, service)) {
            throttle_at_most(u, base, index, bound, now);
        }
    }
}

/// Whether the calls of a service that go throttled are bounded by this rate: no bound is configured, and it is the
/// shortest of its level.
fn throttles_by(base: &Base, rate: SpecId, service: ServiceId) -> bool {
    let spec = &base.limits.specs[rate];
    let service = &base.routing.services[service];
    let patterns = service.endpoints.iter().chain(&service.models);
    let levels = std::iter::once(&service.specs).chain(patterns.map(|(_, specs)| specs));
    let configured = levels.flatten().map(|index| &base.limits.specs[*index]);
    let mut throttles = configured.filter(|other| matches!(other.definition.counts, Counts::Throttled(_)));
    let window = |spec: &Spec| spec.definition.rate_of().map(|rate| rate.window());
    let is_shorter = |other: &Spec| {
        let counts_calls = other.definition.dimension() == Some(Dimension::Requests);
        !other.gone && other.level == spec.level && counts_calls && window(other) < window(spec)
    };
    !spec.gone
        && crate::limits::store::mirrors(&spec.level)
        && !throttles.any(|other| spec.level.starts_with(&*other.level))
        && !base.limits.specs.iter().any(is_shorter)
}

/// Changes the limit on throttled calls that was made for a rate, if there is one, and tells the new bound.
fn throttle_at_most(u: &mut Upstream, base: &mut Base, rate: SpecId, bound: u64, now: Nanos) {
    let level = base.limits.specs[rate].level.clone();
    let definition = Definition::in_flight(Counts::Throttled(bound), Reserve::default());
    let limit = format!("{level}/{}", definition.suffix()).into();
    if let Some(made) = base.limits.throttle_of(&level) {
        define::redefine(base, made, definition, now);
    }
    announce::tell(u, base, Lesson::InFlight { limit, bound });
}
