//! Calls report to the breaker that they went through; an open breaker refuses calls.

use crate::calls::{Arrival, Grant, InFlightCall};
use crate::funding::book;
use crate::limits::breaker::{Effect, Outcome};
use crate::limits::limit::Limit;
use crate::limits::meters::Meter;
use crate::model::Id;
use crate::model::refusal::{Reason, Refusal};
use crate::model::time::Nanos;
use crate::model::{CallId, LimitId};
use crate::routing::names;
use crate::routing::state::Base;
use crate::upstream::announce;
use crate::upstream::ended::Fate;
use crate::upstream::state::{Passed, Upstream};

/// A call goes: it will report to the breaker as it is now.
pub(crate) fn note_pass(u: &mut Upstream, base: &mut Base, index: CallId, breaker: LimitId) {
    let Limit { ref meter, since, .. } = base.limits[breaker];
    let Meter::Circuit(circuit) = meter else { return };
    let pass = Passed { breaker, since, pass: circuit.breaker().pass() };
    if u.passes.len() <= index.index() {
        u.passes.resize_with(index.index() + 1, || None);
    }
    u.passes[index.index()] = Some(pass);
}

/// What became of a call, for its breaker.
pub(crate) fn report(
    u: &mut Upstream,
    base: &mut Base,
    grant: &Grant,
    call: &InFlightCall,
    fate: &Fate,
    now: Nanos,
) {
    let passed = u.passes.get_mut(grant.index().index()).and_then(Option::take);
    let Some(Passed { breaker, since, pass }) = passed else { return };
    // Another limit may have its place by now; its calls may go through another breaker.
    let held = &mut base.limits[breaker];
    let Meter::Circuit(circuit) = &mut held.meter else { return };
    if held.since != since {
        return;
    }
    let service = base.routing.routes[call.route_id].service;
    let outcome = match fate {
        // An upstream that closes a connection in good form did not fail.
        Fate::Unknown | Fate::Unprocessed => Outcome::Ignored,
        Fate::Answered => Outcome::Success,
        Fate::Failed { .. } | Fate::Unreached => Outcome::Failure,
        Fate::TurnedAway { .. } | Fate::OutOfQuota => circuit.breaker().policy().outcome_of_refusal(),
    };
    let took = now.since(call.at);
    let effect = circuit.breaker_mut().report(pass, outcome, took, now);
    if matches!(effect, Effect::Opened { .. } | Effect::Closed) {
        book::facts_changed(&mut base.funding);
    }
    announce::announce_breaker(u, base, breaker, effect);
    match effect {
        Effect::None => {}
        Effect::Opened { .. } if base.routing.services[service].replies.fail_queued => {
            base.effects.refuse.push(breaker);
        }
        Effect::Opened { .. } | Effect::ProbeFreed | Effect::Closed => {
            base.limits.touch(breaker, &mut base.effects);
        }
    }
}

/// Why a new call is refused rather than left to wait for a breaker, if it is.
pub(crate) fn refuse_by_breaker(
    base: &mut Base,
    arrival: &Arrival,
    patient: bool,
    deadline: Nanos,
    now: Nanos,
) -> Option<Refusal> {
    let route_id = &base.routing.routes[arrival.route_id];
    let (breaker, service) = (route_id.breaker, route_id.service);
    let Meter::Circuit(circuit) = &base.limits.all.get(breaker)?.meter else { return None };
    if circuit.fits(1, 0, now) {
        return None;
    }
    let opens = circuit.earliest(1, 0);
    if patient && (opens.is_never() || opens <= deadline) {
        return None;
    }
    base.routing.services[service].counts.refused += 1;
    Some(circuit_open(base, breaker, now))
}

pub(crate) fn circuit_open(base: &Base, breaker: LimitId, now: Nanos) -> Refusal {
    let opens = base.limits[breaker].meter.earliest(1, 0);
    let known = !opens.is_never();
    Refusal {
        reason: Reason::CircuitOpen,
        limit: Some(names::limit_name(base, breaker)),
        wait: known.then(|| opens.since(now)),
        reset: known.then_some(opens.max(now)),
    }
}
