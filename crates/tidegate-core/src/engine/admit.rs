//! Admission: a new call passes every limit on its route or consumes nothing anywhere.

use std::ops::ControlFlow;
use std::time::Duration;

use super::judge::Role;
use super::lane::Arrived;
use super::lane::{Lane, Like};
use super::layout::Use;
use super::pass::Arrival;
use super::roster::Roster;
use super::route::Skeleton;
use super::{Admission, Engine, Grant, MAX_UNIT_KINDS, Ticket, Units, Verdict};
use crate::algorithm::UNBOUNDED;
use crate::model::call::{Call, Estimated};
use crate::model::priority::Priority;
use crate::model::refusal::{Reason, Refusal};
use crate::model::time::Nanos;
use crate::model::{LaneId, LimitId, WaiterId};

impl Engine {
    /// Lets the call go now if that is seen at first sight: its route is known, nobody waits on it, and it fits. Else
    /// nothing has changed, and [`Engine::try_admit`] says what becomes of it.
    // Inlined, since the grant then goes in registers to where it is kept: through memory, where it is written in parts
    // and read as a whole, it takes as long as two limits.
    #[inline(always)]
    pub fn admit_at_sight(&mut self, call: &Call, now: Nanos) -> Option<Grant> {
        let now = self.clock(now);
        let skeleton =
            self.known_route(call).filter(|_| call.said.cost.is_plain() && now < self.limits.attention)?;
        match self.pass_or_arrive(skeleton, call, now) {
            ControlFlow::Break(grant) => Some(grant),
            ControlFlow::Continue(_) => None,
        }
    }

    /// Lets the call go now or refuses it; it never waits.
    ///
    /// # Errors
    /// The limit that has no room, and when it would have.
    pub fn try_admit(&mut self, call: &Call, now: Nanos) -> Result<Grant, Refusal> {
        let now = self.clock(now);
        if self.limits.attention <= now {
            self.advance(now);
        }
        let skeleton = self.route_for(call, now)?;
        match self.pass_or_arrive(skeleton, call, now) {
            ControlFlow::Break(grant) => Ok(grant),
            ControlFlow::Continue(arrival) => self.try_admit_by_rank(arrival, call, now),
        }
    }

    /// The way of a call that finds a limit without room, or somebody waiting.
    #[inline(never)]
    fn try_admit_by_rank(&mut self, mut arrival: Arrival, call: &Call, now: Nanos) -> Result<Grant, Refusal> {
        self.fit_or_refuse(&mut arrival, call, now)?;
        if let Some(grant) = self.observe(&arrival, call, now) {
            return Ok(grant);
        }
        self.advance(now);
        let obstacle = match self.lane_of(&arrival) {
            Some(lane) if self.may_pass(lane, &arrival.units, now) => None,
            Some(lane) => Some((self.scheduler.lanes[lane].bound, Nanos::NEVER)),
            None => {
                let arrived = self.arrived(now);
                let (waiter, lane) = self.seat(&arrival, call, Nanos::NEVER, arrived);
                let obstacle = self.obstacle(lane, &arrival.units, Role::Other, now);
                self.pull_waiter(waiter);
                obstacle.map(|held| (held.limit, held.until))
            }
        };
        match obstacle {
            None => Ok(self.go_and_dispatch(&arrival, now)),
            Some((limit, until)) => {
                let route = self.route_of(arrival.skeleton, arrival.loop_);
                self.want_loans(&route, &arrival.units, now);
                self.routing.services[self.routing.skeletons[arrival.skeleton].service].counts.refused += 1;
                if limit == self.routing.skeletons[arrival.skeleton].breaker && !limit.is_nil() {
                    return Err(self.circuit_open(limit, now));
                }
                Err(self.no_room(Reason::Timeout, limit, until, &arrival, now))
            }
        }
    }

    /// Lets the call go now, or puts it into the queue for at most `timeout`.
    ///
    /// # Errors
    /// If it could never fit, if it would have to wait longer than `timeout`, or if too many wait already.
    pub fn enqueue(&mut self, call: &Call, timeout: Duration, now: Nanos) -> Result<Admission, Refusal> {
        self.enter_queue(call, None, timeout, now)
    }

    /// The same for an attempt of a call that came before: it is ranked by when that was, and waits for at most
    /// `timeout` from now on.
    ///
    /// # Errors
    /// As [`Engine::enqueue`].
    pub fn enqueue_again(
        &mut self,
        call: &Call,
        arrived: Arrived,
        timeout: Duration,
        now: Nanos,
    ) -> Result<Admission, Refusal> {
        self.enter_queue(call, Some(arrived), timeout, now)
    }

    #[inline]
    fn enter_queue(
        &mut self,
        call: &Call,
        arrived: Option<Arrived>,
        timeout: Duration,
        now: Nanos,
    ) -> Result<Admission, Refusal> {
        let now = self.clock(now);
        if self.limits.attention <= now {
            self.advance(now);
        }
        let skeleton = self.route_for(call, now)?;
        let mut arrival = match self.pass_or_arrive(skeleton, call, now) {
            ControlFlow::Break(grant) => return Ok(Admission::Granted(grant)),
            ControlFlow::Continue(arrival) => arrival,
        };
        if timeout.is_zero() {
            return self.try_admit(call, now).map(Admission::Granted);
        }
        let deadline = now.after(timeout);
        // A cost that waits there already has been found to fit.
        if arrived.is_none()
            && let Some(ticket) = self.join(&mut arrival, call, deadline, now)
        {
            return Ok(Admission::Waiting(ticket));
        }
        self.fit_or_refuse(&mut arrival, call, now)?;
        if let Some(grant) = self.observe(&arrival, call, now) {
            return Ok(Admission::Granted(grant));
        }
        self.advance(now);
        let patient = self.upstream.patient || arrived.is_some();
        if let Some(refusal) = self.shut_out(&arrival, patient, deadline, now) {
            return Err(refusal);
        }
        let arrived = arrived.unwrap_or_else(|| self.arrived(now));
        let waiter = match self.lane_of(&arrival) {
            Some(lane) => {
                let Lane { bound, .. } = self.scheduler.lanes[lane];
                let ahead = self.ahead_of_arrival(lane, arrived);
                let forecast = self.forecast_behind(lane, &ahead, &arrival.units, bound, now);
                if forecast > deadline {
                    return match self.may_pass(lane, &arrival.units, now) {
                        true => Ok(Admission::Granted(self.go_and_dispatch(&arrival, now))),
                        false => Err(self.no_room(Reason::Hopeless, bound, forecast, &arrival, now)),
                    };
                }
                self.seat(&arrival, call, deadline, arrived).0
            }
            None => {
                let (waiter, lane) = self.seat(&arrival, call, deadline, arrived);
                let Some(held) = self.obstacle(lane, &arrival.units, Role::Other, now) else {
                    self.pull_waiter(waiter);
                    return Ok(Admission::Granted(self.go_and_dispatch(&arrival, now)));
                };
                let nothing = [0; MAX_UNIT_KINDS];
                let forecast = self.forecast_behind(lane, &nothing, &arrival.units, held.limit, now);
                if forecast > deadline {
                    // It stands in no queue yet: nobody has seen it.
                    self.pull_waiter(waiter);
                    return Err(self.no_room(Reason::Hopeless, held.limit, forecast, &arrival, now));
                }
                self.bind(lane, held.limit);
                waiter
            }
        };
        let ticket = Ticket { index: waiter, generation: self.scheduler.waiters[waiter].generation };
        self.pump(now);
        // It may have gone at once, as the first of its limit or by backfill.
        if let Some(place) = self.scheduler.verdicts.iter().rposition(|(known, _)| *known == ticket) {
            return match self.scheduler.verdicts.remove(place).1 {
                Verdict::Granted(grant) => Ok(Admission::Granted(grant)),
                Verdict::Refused(refusal) => Err(refusal),
            };
        }
        self.shed_for(ticket, now)?;
        Ok(Admission::Waiting(ticket))
    }

    /// A waiting call goes away: its place is freed and those behind it advance. Says whether it waited.
    pub fn withdraw(&mut self, ticket: Ticket, now: Nanos) -> bool {
        let now = self.clock(now);
        if !self.is_waiting(ticket) {
            return false;
        }
        self.pull_waiter(ticket.index);
        self.advance(now);
        self.pump(now);
        true
    }

    /// Whether a ticket's call still waits.
    #[must_use]
    pub fn is_waiting(&self, ticket: Ticket) -> bool {
        self.scheduler.waiters.get(ticket.index).is_some_and(|waiter| waiter.generation == ticket.generation)
    }

    /// How long calls of a service wait unless they say otherwise, if the config says so.
    #[must_use]
    pub fn timeout_of(&self, service: &str) -> Option<Duration> {
        self.routing.services[self.service_named(service)?].timeout
    }

    /// Spends for a call that goes at once although somebody waits.
    fn go(&mut self, arrival: &Arrival, now: Nanos) -> Grant {
        let Arrival { skeleton, loop_, class, units } = *arrival;
        let route = self.route_of(skeleton, loop_);
        let grant = self.spend(skeleton, loop_, class, units, &route, now, now);
        for &(limit, slot) in &route {
            // Else a stream of urgent calls that fit as they come would starve an old one for ever.
            self.earn_credit(limit, skeleton, units[slot as usize]);
            let units = i128::from(units[slot as usize]);
            self.charge_flow(limit, (loop_, skeleton, class as u8), units, false, LaneId::NIL);
        }
        self.mark_route(&route);
        grant
    }

    /// Lets a call go at once although others wait, and dispatches those.
    fn go_and_dispatch(&mut self, arrival: &Arrival, now: Nanos) -> Grant {
        let grant = self.go(arrival, now);
        self.pump(now);
        grant
    }

    /// The lane in which calls of its kind wait already.
    pub(super) fn lane_of(&self, arrival: &Arrival) -> Option<LaneId> {
        self.scheduler.lane_index.get(&(arrival.skeleton, arrival.loop_, arrival.class)).copied()
    }

    /// Whether a call may go past those of its own kind that wait: only if that moves nobody.
    pub(super) fn may_pass(&mut self, lane: LaneId, units: &Units, now: Nanos) -> bool {
        let allowed = self.allowance(lane, now);
        allowed.is_some_and(|allowed| units.iter().zip(&allowed).all(|(units, most)| units <= most))
    }

    /// A service that is only observed holds nothing back: what does not fit is counted all the same.
    fn observe(&mut self, arrival: &Arrival, call: &Call, now: Nanos) -> Option<Grant> {
        let Skeleton { observe, penalty, service, .. } = self.routing.skeletons[arrival.skeleton];
        if !observe {
            return None;
        }
        // A throttled call comes this way though it may fit.
        let would_wait = penalty == 0 || {
            let arrived = self.arrived(now);
            let (waiter, lane) = self.seat(arrival, call, Nanos::NEVER, arrived);
            let held = self.obstacle(lane, &arrival.units, Role::Other, now);
            self.pull_waiter(waiter);
            held.is_some()
        };
        self.routing.services[service].counts.would_wait += u64::from(would_wait);
        Some(self.go_and_dispatch(arrival, now))
    }

    /// Refuses a stated cost that can never fit, and brings an estimated one down to what can.
    pub(super) fn fit_or_refuse(
        &mut self,
        arrival: &mut Arrival,
        call: &Call,
        now: Nanos,
    ) -> Result<(), Refusal> {
        if self.routing.skeletons[arrival.skeleton].observe {
            return Ok(());
        }
        let own;
        let route: &[Use] = match self.lane_of(arrival) {
            Some(lane) => &self.scheduler.lanes[lane].route,
            None => {
                own = self.route_of(arrival.skeleton, arrival.loop_);
                &own
            }
        };
        let refused = self.fit_units(&mut arrival.units, route, arrival.class, call.said.estimated);
        refused.map_or(Ok(()), |(limit, cost, capacity)| {
            Err(Refusal {
                reason: Reason::TooLarge { cost, capacity },
                limit: Some(self.limit_name(limit)),
                wait: None,
                reset: self.reset_of(limit, now),
            })
        })
    }

    /// The first limit that `units` can never fit: (limit, cost, capacity). An estimate is brought down.
    pub(super) fn fit_units(
        &self,
        units: &mut Units,
        route: &[Use],
        class: Priority,
        estimated: Estimated,
    ) -> Option<(LimitId, u64, u64)> {
        for &(limit, slot) in route {
            let held = &self.limits[limit];
            let spec = &self.limits.specs[held.spec];
            let withheld = spec.withheld[class as usize];
            let capacity = match held.meter.capacity() {
                UNBOUNDED => UNBOUNDED,
                most => most - withheld.min(most),
            };
            let cost = units[slot as usize];
            if cost > capacity {
                // What was only learned makes nothing impossible that is allowed: the rest is debt.
                let estimated = estimated.covers(spec.definition.dimension().as_ref());
                if !estimated && cost > spec.most().saturating_sub(withheld).max(capacity) {
                    return Some((limit, cost, capacity));
                }
                units[slot as usize] = capacity;
            }
        }
        None
    }

    /// Gives a call its place in its lane: the call, and the lane.
    pub(super) fn seat(
        &mut self,
        arrival: &Arrival,
        call: &Call,
        deadline: Nanos,
        arrived: Arrived,
    ) -> (WaiterId, LaneId) {
        let lane = self.lane_for(arrival.skeleton, arrival.loop_, arrival.class);
        let waiter = self.new_waiter(arrived);
        let like =
            Like { units: arrival.units, estimated: call.said.estimated, shape: call.said.shape.clone() };
        self.push_waiter(waiter, lane, like, deadline);
        (waiter, lane)
    }

    /// Refuses a waiting call.
    pub(super) fn refuse_waiting(&mut self, waiter: WaiterId, reason: Reason, now: Nanos) {
        let ticket = Ticket { index: waiter, generation: self.scheduler.waiters[waiter].generation };
        let run = self.run_of(waiter);
        let lane = &self.scheduler.lanes[run.lane];
        let (bound, class, units) = (lane.bound, lane.class, run.like.units);
        let arrival = Arrival { skeleton: lane.skeleton, loop_: lane.loop_, class, units };
        let Skeleton { service, breaker, .. } = self.routing.skeletons[arrival.skeleton];
        let refusal = match reason {
            // Whatever it waited for, that is not why it is refused.
            Reason::CircuitOpen => self.circuit_open(breaker, now),
            reason if bound.is_nil() => self.no_room(reason, bound, Nanos::NEVER, &arrival, now),
            // Its time is up while the breaker is open: what would help is known.
            reason if bound == breaker => Refusal { reason, ..self.circuit_open(breaker, now) },
            reason => {
                let until = self.forecast(ticket, now);
                self.no_room(reason, bound, until, &arrival, now)
            }
        };
        let counts = &mut self.routing.services[service].counts;
        match refusal.reason {
            Reason::QueueFull => counts.shed += 1,
            Reason::CircuitOpen => counts.refused += 1,
            _ => counts.timed_out += 1,
        }
        self.pull_waiter(waiter);
        self.scheduler.verdicts.push((ticket, Verdict::Refused(refusal)));
    }

    /// Why a call may not go: `limit` holds it until then.
    fn no_room(
        &self,
        reason: Reason,
        limit: LimitId,
        until: Nanos,
        arrival: &Arrival,
        now: Nanos,
    ) -> Refusal {
        if limit.is_nil() {
            return Refusal::bare(reason);
        }
        let mut until = until;
        if until.is_never() {
            let route = self.route_of(arrival.skeleton, arrival.loop_);
            let slot = route.iter().find(|(id, _)| *id == limit).map_or(0, |(_, slot)| *slot);
            let withheld = self.limits.specs[self.limits[limit].spec].withheld;
            let cost = arrival.units[slot as usize];
            until = self.limits[limit].earliest(cost, withheld[arrival.class as usize], now);
        }
        Refusal {
            reason,
            limit: Some(self.limit_name(limit)),
            wait: (!until.is_never()).then(|| until.since(now)),
            reset: self.reset_of(limit, now),
        }
    }

    /// When a limit is wholly available again.
    pub(super) fn reset_of(&self, limit: LimitId, now: Nanos) -> Option<Nanos> {
        let full = self.limits[limit].meter.full_at();
        (!full.is_never()).then(|| full.max(now))
    }

    /// Makes room in a full queue: the lowest rank goes, which may be the call that just came.
    fn shed_for(&mut self, ticket: Ticket, now: Nanos) -> Result<(), Refusal> {
        let lane = self.run_of(ticket.index).lane;
        let skeleton = self.scheduler.lanes[lane].skeleton;
        let service = self.routing.skeletons[skeleton].service;
        let rosters = self.scheduler.rosters.of(service);
        if Roster::waiting(rosters) <= self.routing.services[service].max_waiting {
            return Ok(());
        }
        // The lowest priority; in it the loop with the most waiting for its weight; of that one the latest.
        let Some(lanes) = rosters.iter_mut().find_map(Roster::largest) else { return Ok(()) };
        let last = lanes.iter().map(|lane| self.scheduler.lanes[*lane].tail).filter(|last| !last.is_nil());
        let Some(victim) = last.max_by_key(|last| self.scheduler.waiters[*last].seq) else { return Ok(()) };
        self.refuse_waiting(victim, Reason::QueueFull, now);
        self.pump(now);
        if victim != ticket.index {
            return Ok(());
        }
        match self.scheduler.verdicts.iter().rposition(|(known, _)| *known == ticket) {
            Some(place) => match self.scheduler.verdicts.remove(place).1 {
                Verdict::Refused(refusal) => Err(refusal),
                Verdict::Granted(_) => Ok(()),
            },
            None => Ok(()),
        }
    }
}
