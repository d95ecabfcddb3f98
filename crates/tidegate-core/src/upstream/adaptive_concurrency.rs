//! A bound on calls in flight that follows how the upstream copes.

use crate::calls::InFlightCall;
use crate::config::AdaptiveConfig;
use crate::model::SpecId;
use crate::model::time::Nanos;
use crate::routing::state::Base;
use crate::routing::{define, names};
use crate::upstream::announce;
use crate::upstream::event::Lesson;
use crate::upstream::learning::adaptive::Adaptive;
use crate::upstream::state::Upstream;

/// Has the bound on what is in flight adapt, or no longer.
pub(crate) fn set_adaptive(
    u: &mut Upstream,
    base: &mut Base,
    spec: SpecId,
    rules: Option<&AdaptiveConfig>,
    now: Nanos,
) {
    let most = base.limits.specs[spec].written.whole();
    match (rules, u.learning.adaptive.get_mut(&spec)) {
        (Some(rules), Some(held)) if held.rules() == rules => held.change_most(most),
        (Some(rules), _) => {
            u.learning.adaptive.insert(spec, Adaptive::new(rules.clone(), most));
        }
        (None, Some(_)) => drop(u.learning.adaptive.remove(&spec)),
        (None, None) => return,
    }
    fit_slots(u, base, spec, now);
}

/// A call ended of which it is known whether the upstream coped with it.
#[inline]
pub(crate) fn report_load(u: &mut Upstream, base: &mut Base, call: &InFlightCall, failed: bool, now: Nanos) {
    if !u.learning.adaptive.is_empty() {
        adapt(u, base, call, failed, now);
    }
}

#[cold]
fn adapt(u: &mut Upstream, base: &mut Base, call: &InFlightCall, failed: bool, now: Nanos) {
    let uses = base.routing.routes[call.route_id].slots.clone();
    for (limit, _) in uses {
        let held = &mut base.limits[limit];
        let (spec, in_flight) = (held.spec, held.meter.used(now));
        let most = base.limits.specs[spec].written.whole();
        let Some(adaptive) = u.learning.adaptive.get_mut(&spec) else { continue };
        adaptive.change_most(most);
        if adaptive.ended(call.at, failed, in_flight, now) {
            let bound = adaptive.bound();
            fit_slots(u, base, spec, now);
            let limit = names::limit_name(base, limit);
            announce::tell(u, base, Lesson::InFlight { limit, bound });
        }
    }
}

/// What was learned before about a bound that adapts.
pub(crate) fn resume_adaptive(
    u: &mut Upstream,
    base: &mut Base,
    spec: SpecId,
    bound: u64,
    now: Nanos,
) -> bool {
    let Some(adaptive) = u.learning.adaptive.get_mut(&spec) else { return false };
    adaptive.resume(bound, now);
    fit_slots(u, base, spec, now);
    true
}

/// Brings a bound to what was learned. Every call takes one slot, so no cost has to fit anew.
fn fit_slots(u: &mut Upstream, base: &mut Base, spec: SpecId, now: Nanos) {
    let bound = u.learning.adaptive.get(&spec).map(Adaptive::bound);
    let held = &mut base.limits.specs[spec];
    held.learned.slots = bound;
    let limit = held.shared;
    if limit.is_nil() {
        // Each key has its own.
        define::put_in_force(base, spec, now);
        return;
    }
    // There may be very many limits, and this is done often: they are not gone through for one.
    let old = std::mem::replace(&mut held.definition, held.written.with(&held.learned));
    held.withheld = held.definition.withheld(held.definition.whole());
    held.definition.change(&mut base.limits.all[limit].meter, now, base.limits.unix_offset, &old);
    base.limits.see_if_plain(limit);
    base.limits.touch(limit, &mut base.effects);
}
