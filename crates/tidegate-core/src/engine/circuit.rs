//! Circuit breakers on the way of calls.
//!
//! A breaker is a limit of slots on its service's or endpoint's routes: calls that wait for it keep their rank, and
//! when a probe is due the first of them is it. A call that goes notes the state of the breaker it went in, so
//! that what becomes of it counts only there.
//!
//! A new call that finds the breaker open is refused at once, with the time of the next probe; where callers are
//! patient (a sidecar, a batch) it waits, if that time lies within its own. A call that is tried again is not new:
//! it is always patient.

use std::sync::Arc;
use std::time::Duration;

use super::ended::Fate;
use super::pass::Arrival;
use super::{Engine, Grant, InFlightCall};
use crate::algorithm::Meter;
use crate::breaker::{Effect, Outcome, Pass, Status};
use crate::limit::Limit;
use crate::model::refusal::{Reason, Refusal};
use crate::model::time::Nanos;
use crate::model::{CallId, Id, LimitId, RouteId};

/// A breaker as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakerStatus {
    /// Its name: `openai/breaker`.
    pub name: Arc<str>,
    /// What it does with calls.
    pub state: BreakerState,
    /// How many calls wait for it.
    pub waiting: usize,
}

/// What a breaker does with calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// They go.
    Closed,
    /// They do not; the next probe goes after that long.
    Open {
        /// How long.
        probe_in: Duration,
    },
    /// Some probe whether the upstream is well again.
    HalfOpen {
        /// So many more may.
        probes: u32,
    },
}

/// How a call went through a breaker: which one, of which making, and in which of its states.
#[derive(Debug)]
pub(crate) struct Passed {
    breaker: LimitId,
    since: u32,
    pass: Pass,
}

impl Engine {
    /// Whether a new call waits for a breaker that is open, if the next probe lies within its timeout. By default
    /// it is refused at once.
    pub fn wait_for_breakers(&mut self, wait: bool) {
        self.upstream.patient = wait;
    }

    /// Every breaker, by name.
    pub fn breakers(&mut self, now: Nanos) -> Vec<BreakerStatus> {
        let now = self.clock(now);
        let mut all = Vec::new();
        for limit in self.limits.all.live() {
            let Meter::Circuit(circuit) = &self.limits[limit].meter else { continue };
            let state = match circuit.breaker().status(now) {
                Status::Closed => BreakerState::Closed,
                Status::Open { until } => BreakerState::Open { probe_in: until.since(now) },
                Status::HalfOpen { probes } => BreakerState::HalfOpen { probes },
            };
            all.push(BreakerStatus { name: self.limit_name(limit), state, waiting: self.waiting_at(limit) });
        }
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// A call goes: it will report to the breaker as it is now.
    pub(super) fn note_pass(&mut self, index: CallId, breaker: LimitId) {
        let Limit { ref meter, since, .. } = self.limits[breaker];
        let Meter::Circuit(circuit) = meter else { return };
        let pass = Passed { breaker, since, pass: circuit.breaker().pass() };
        if self.upstream.passes.len() <= index.index() {
            self.upstream.passes.resize_with(index.index() + 1, || None);
        }
        self.upstream.passes[index.index()] = Some(pass);
    }

    /// What became of a call, for its breaker.
    pub(super) fn report(&mut self, grant: &Grant, call: &InFlightCall, fate: &Fate, now: Nanos) {
        let passed = self.upstream.passes.get_mut(grant.index().index()).and_then(Option::take);
        let Some(Passed { breaker, since, pass }) = passed else { return };
        // Another limit may have its place by now; its calls may go through another breaker.
        let held = &mut self.limits[breaker];
        let Meter::Circuit(circuit) = &mut held.meter else { return };
        if held.since != since {
            return;
        }
        let service = self.routing.skeletons[call.skeleton].service;
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
            self.facts_changed();
        }
        self.announce_breaker(breaker, effect);
        match effect {
            Effect::None => {}
            Effect::Opened { .. } if self.routing.services[service].fail_queued => {
                self.effects.refuse.push(breaker);
            }
            Effect::Opened { .. } | Effect::ProbeFreed | Effect::Closed => {
                self.effects.touch(breaker, &self.limits);
            }
        }
    }

    /// The upstream has begun to answer a call that is still in flight: its breaker need not wait for the rest.
    pub fn answered(&mut self, grant: &Grant, now: Nanos) {
        let now = self.clock(now);
        let call = self.in_flight[grant].clone();
        self.end_rows(&call);
        self.report(grant, &call, &Fate::Answered, now);
        self.advance(now);
    }

    /// A breaker opened, and those who wait do not want to.
    pub(super) fn refuse_all_at(&mut self, breaker: LimitId, now: Nanos) {
        let on_it = |skeleton: &RouteId| self.routing.skeletons[*skeleton].breaker == breaker;
        let skeletons = self.routing.skeleton_index.values().copied().filter(on_it).collect();
        let mut waiting = Vec::new();
        for lane in self.lanes_of(&skeletons) {
            waiting.extend(self.calls_of(lane).map(|call| (self.scheduler.waiters[call].seq, call)));
        }
        waiting.sort_unstable();
        for (_, waiter) in waiting {
            self.refuse_waiting(waiter, Reason::CircuitOpen, now);
        }
    }

    /// Why a new call is refused rather than left to wait for a breaker, if it is.
    pub(super) fn shut_out(
        &mut self,
        arrival: &Arrival,
        patient: bool,
        deadline: Nanos,
        now: Nanos,
    ) -> Option<Refusal> {
        let skeleton = &self.routing.skeletons[arrival.skeleton];
        let (breaker, service) = (skeleton.breaker, skeleton.service);
        let Meter::Circuit(circuit) = &self.limits.all.get(breaker)?.meter else { return None };
        if circuit.fits(1, 0, now) {
            return None;
        }
        let opens = circuit.earliest(1, 0);
        if patient && (opens.is_never() || opens <= deadline) {
            return None;
        }
        self.routing.services[service].counts.refused += 1;
        Some(self.circuit_open(breaker, now))
    }

    pub(super) fn circuit_open(&self, breaker: LimitId, now: Nanos) -> Refusal {
        let opens = self.limits[breaker].meter.earliest(1, 0);
        let known = !opens.is_never();
        Refusal {
            reason: Reason::CircuitOpen,
            limit: Some(self.limit_name(breaker)),
            wait: known.then(|| opens.since(now)),
            reset: known.then_some(opens.max(now)),
        }
    }
}
