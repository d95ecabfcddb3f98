//! The engine: one atomic decision over all limits of a call, and a fair queue for calls that must wait.
//!
//! The engine is a state machine without a clock. Its driver calls [`Engine::try_admit`] or [`Engine::enqueue`] for a new call,
//! [`Engine::finish`] or [`Engine::cancel`] when a call ends, [`Engine::withdraw`] when a waiting call goes away, and
//! [`Engine::advance`] at [`Engine::next_wake`]. After each of these the driver hands out what [`Engine::verdicts`] holds. `now`
//! must not go backwards; if it does, the latest time counts.
//!
//! This folder holds the order of the steps and no rule. The rules are in the machines: `limits`, `funding`, `routing`, `calls`,
//! `upstream`, `admission`, `scheduler`, each of which uses only those before it. A machine reaches those after it by raising an
//! effect; `Engine::apply` applies all effects in one order and then dispatches.

mod configure;
mod inspect;

pub use self::configure::ChangeError;
pub use crate::calls::{AT_ONCE, Departure, Grant};
pub use crate::inspect::outlook::Outlook;
pub use crate::inspect::route::{Explained, FirstInLine, Passage, Stand, Terms};
pub use crate::inspect::status::{BackoffStatus, BreakerState, BreakerStatus, LimitStatus, Place};
pub use crate::lending::facts::Facts;
pub use crate::lending::pages::{Found, LoanRequest, Page, Unknown};
pub use crate::routing::service::ServiceCounts;
pub use crate::scheduler::lane::Arrived;
pub use crate::upstream::ended::{Ended, Exhausted, Fate, Told};
pub use crate::upstream::event::{Lesson, News, Slowed};
pub use crate::upstream::learned::LearnedLimit;

use crate::admission::resources::Resources;
use crate::admission::{fast_path, settle};
use crate::calls::{Arrival, InFlightCalls};
use crate::config::Config;
use crate::funding::book::Funding;
use crate::limits::store::Limits;
use crate::model::call::{Call, Cost};
use crate::model::effects::{Effects, Served};
use crate::model::refusal::{Reason, Refusal};
use crate::model::time::Nanos;
use crate::model::{LaneId, MAX_UNIT_KINDS, RouteId};
use crate::routing::route::Route;
use crate::routing::state::Base;
use crate::routing::state::Routing;
use crate::routing::{find, names};
pub use crate::scheduler::decision::{Ticket, Verdict};
use crate::scheduler::eligibility::Role;
use crate::scheduler::lane::Lane;
use crate::scheduler::shed_order::ShedOrder;
use crate::scheduler::state::Scheduler;
use crate::scheduler::{
    batch, bind, dispatch, eligibility, forecast, lanes, marks, placement, rebind, refuse,
};
use crate::upstream::state::Upstream;
use crate::upstream::{backoff, breakers, observe, review};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What became of a new call that is ready to wait.
#[derive(Debug)]
pub enum Admission {
    /// It may go.
    Granted(Grant),
    /// It waits; a verdict will come.
    Waiting(Ticket),
}

/// The engine.
#[derive(Debug)]
pub struct Engine {
    res: Resources,
    scheduler: Scheduler,
}

impl Engine {
    /// Lets the call go now if that is seen at first sight: its route is known, nobody waits on it, and it fits. Else
    /// nothing has changed, and [`Engine::try_admit`] says what becomes of it.
    // Inlined, since the grant then goes in registers to where it is kept: through memory, where it is written in parts
    // and read as a whole, it takes as long as two limits.
    #[inline(always)]
    pub fn admit_at_sight(&mut self, call: &Call, now: Nanos) -> Option<Grant> {
        let now = self.clock(now);
        let route_id = find::known_route(&self.res.base, call)
            .filter(|_| call.said.cost.is_plain() && now < self.res.base.limits.attention)?;
        match fast_path::grant_or_arrive(&mut self.res, route_id, call, now) {
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
        if self.res.base.limits.attention <= now {
            self.advance(now);
        }
        let route_id = self.route_for(call, now)?;
        match fast_path::grant_or_arrive(&mut self.res, route_id, call, now) {
            ControlFlow::Break(grant) => Ok(grant),
            ControlFlow::Continue(arrival) => self.try_admit_by_rank(arrival, call, now),
        }
    }

    /// Decides about a call that finds a limit without room, or a queue.
    #[inline(never)]
    fn try_admit_by_rank(&mut self, mut arrival: Arrival, call: &Call, now: Nanos) -> Result<Grant, Refusal> {
        refuse::fit_or_refuse(&mut self.scheduler, &mut self.res.base, &mut arrival, call, now)?;
        if let Some(grant) = self.observe(&arrival, call, now) {
            return Ok(grant);
        }
        self.advance(now);
        let blocker = match lanes::lane_of(&self.scheduler, &arrival) {
            Some(lane)
                if eligibility::may_overtake(
                    &mut self.scheduler,
                    &mut self.res.base,
                    lane,
                    &arrival.units,
                    now,
                ) =>
            {
                None
            }
            Some(lane) => Some((self.scheduler.lanes[lane].bound, Nanos::NEVER)),
            None => {
                let arrived = placement::arrived(&mut self.scheduler, now);
                let (waiter, lane) = placement::seat(
                    &mut self.scheduler,
                    &mut self.res.base,
                    &arrival,
                    call,
                    Nanos::NEVER,
                    arrived,
                );
                let blocker = eligibility::blocker(
                    &mut self.scheduler,
                    &mut self.res.base,
                    lane,
                    &arrival.units,
                    Role::Other,
                    now,
                );
                placement::pull_waiter(&mut self.scheduler, &mut self.res.base, waiter);
                blocker.map(|held| (held.limit, held.until))
            }
        };
        match blocker {
            None => Ok(self.grant_at_once_and_dispatch(&arrival, now)),
            Some((limit, until)) => {
                let route = find::route_of(&self.res.base, arrival.route_id, arrival.loop_);
                marks::want_loans(&mut self.scheduler, &mut self.res.base, &route, &arrival.units, now);
                self.res.base.routing.services[self.res.base.routing.routes[arrival.route_id].service]
                    .counts
                    .refused += 1;
                if limit == self.res.base.routing.routes[arrival.route_id].breaker && !limit.is_nil() {
                    return Err(breakers::circuit_open(&self.res.base, limit, now));
                }
                Err(refuse::refusal_by(&self.res.base, Reason::Timeout, limit, until, &arrival, now))
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
        if self.res.base.limits.attention <= now {
            self.advance(now);
        }
        let route_id = self.route_for(call, now)?;
        let mut arrival = match fast_path::grant_or_arrive(&mut self.res, route_id, call, now) {
            ControlFlow::Break(grant) => return Ok(Admission::Granted(grant)),
            ControlFlow::Continue(arrival) => arrival,
        };
        if timeout.is_zero() {
            return self.try_admit(call, now).map(Admission::Granted);
        }
        let deadline = now.after(timeout);
        // A cost that waits there already has been found to fit.
        if arrived.is_none()
            && let Some(ticket) =
                batch::join(&mut self.scheduler, &mut self.res.base, &mut arrival, call, deadline, now)
        {
            return Ok(Admission::Waiting(ticket));
        }
        refuse::fit_or_refuse(&mut self.scheduler, &mut self.res.base, &mut arrival, call, now)?;
        if let Some(grant) = self.observe(&arrival, call, now) {
            return Ok(Admission::Granted(grant));
        }
        self.advance(now);
        let patient = self.res.upstream.patient || arrived.is_some();
        if let Some(refusal) =
            breakers::refuse_by_breaker(&mut self.res.base, &arrival, patient, deadline, now)
        {
            return Err(refusal);
        }
        let arrived = arrived.unwrap_or_else(|| placement::arrived(&mut self.scheduler, now));
        let waiter = match lanes::lane_of(&self.scheduler, &arrival) {
            Some(lane) => {
                let Lane { bound, .. } = self.scheduler.lanes[lane];
                let ahead = forecast::ahead_of_arrival(&self.scheduler, lane, arrived);
                let forecast = forecast::forecast_behind(
                    &mut self.scheduler,
                    &mut self.res.base,
                    lane,
                    &ahead,
                    &arrival.units,
                    bound,
                    now,
                );
                if forecast > deadline {
                    return match eligibility::may_overtake(
                        &mut self.scheduler,
                        &mut self.res.base,
                        lane,
                        &arrival.units,
                        now,
                    ) {
                        true => Ok(Admission::Granted(self.grant_at_once_and_dispatch(&arrival, now))),
                        false => Err(refuse::refusal_by(
                            &self.res.base,
                            Reason::Hopeless,
                            bound,
                            forecast,
                            &arrival,
                            now,
                        )),
                    };
                }
                placement::seat(&mut self.scheduler, &mut self.res.base, &arrival, call, deadline, arrived).0
            }
            None => {
                let (waiter, lane) = placement::seat(
                    &mut self.scheduler,
                    &mut self.res.base,
                    &arrival,
                    call,
                    deadline,
                    arrived,
                );
                let Some(held) = eligibility::blocker(
                    &mut self.scheduler,
                    &mut self.res.base,
                    lane,
                    &arrival.units,
                    Role::Other,
                    now,
                ) else {
                    placement::pull_waiter(&mut self.scheduler, &mut self.res.base, waiter);
                    return Ok(Admission::Granted(self.grant_at_once_and_dispatch(&arrival, now)));
                };
                let nothing = [0; MAX_UNIT_KINDS];
                let forecast = forecast::forecast_behind(
                    &mut self.scheduler,
                    &mut self.res.base,
                    lane,
                    &nothing,
                    &arrival.units,
                    held.limit,
                    now,
                );
                if forecast > deadline {
                    // It stands in no queue yet, so no other call was affected.
                    placement::pull_waiter(&mut self.scheduler, &mut self.res.base, waiter);
                    return Err(refuse::refusal_by(
                        &self.res.base,
                        Reason::Hopeless,
                        held.limit,
                        forecast,
                        &arrival,
                        now,
                    ));
                }
                bind::bind(&mut self.scheduler, &mut self.res.base, lane, held.limit);
                waiter
            }
        };
        let ticket = Ticket { index: waiter, generation: self.scheduler.waiters[waiter].generation };
        self.apply(now);
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
        placement::pull_waiter(&mut self.scheduler, &mut self.res.base, ticket.index);
        self.advance(now);
        self.apply(now);
        true
    }

    /// A call comes now. Every attempt of it enters the queue with this by [`Engine::enqueue_again`], and is ranked by it.
    pub fn arrived(&mut self, now: Nanos) -> Arrived {
        let now = self.clock(now);
        placement::arrived(&mut self.scheduler, now)
    }

    /// Whether a ticket's call still waits.
    #[must_use]
    pub fn is_waiting(&self, ticket: Ticket) -> bool {
        self.scheduler.waiters.get(ticket.index).is_some_and(|waiter| waiter.generation == ticket.generation)
    }

    /// Lets a call go at once although others wait, and dispatches those.
    fn grant_at_once_and_dispatch(&mut self, arrival: &Arrival, now: Nanos) -> Grant {
        let grant = dispatch::go(&mut self.scheduler, &mut self.res, arrival, now);
        self.apply(now);
        grant
    }

    /// A service that is only observed holds nothing back: what does not fit is counted all the same.
    fn observe(&mut self, arrival: &Arrival, call: &Call, now: Nanos) -> Option<Grant> {
        let Route { ref terms, penalty, service, .. } = self.res.base.routing.routes[arrival.route_id];
        if !terms.observe {
            return None;
        }
        // A throttled call comes this way though it may fit.
        let would_wait = penalty == 0 || {
            let arrived = placement::arrived(&mut self.scheduler, now);
            let (waiter, lane) = placement::seat(
                &mut self.scheduler,
                &mut self.res.base,
                arrival,
                call,
                Nanos::NEVER,
                arrived,
            );
            let held = eligibility::blocker(
                &mut self.scheduler,
                &mut self.res.base,
                lane,
                &arrival.units,
                Role::Other,
                now,
            );
            placement::pull_waiter(&mut self.scheduler, &mut self.res.base, waiter);
            held.is_some()
        };
        self.res.base.routing.services[service].counts.would_wait += u64::from(would_wait);
        Some(self.grant_at_once_and_dispatch(arrival, now))
    }

    /// Makes room in a full queue: the lowest rank goes, which may be the call that just came.
    fn shed_for(&mut self, ticket: Ticket, now: Nanos) -> Result<(), Refusal> {
        let lane = lanes::batch_of(&self.scheduler, ticket.index).lane;
        let route_id = self.scheduler.lanes[lane].route_id;
        let service = self.res.base.routing.routes[route_id].service;
        let shed_orders = self.scheduler.shed_orders.of(service);
        if ShedOrder::waiting(shed_orders) <= self.res.base.routing.services[service].queue.max_waiting {
            return Ok(());
        }
        // The lowest priority; in it the loop with the most waiting for its weight; of that one the latest.
        let Some(lanes) = shed_orders.iter_mut().find_map(ShedOrder::largest) else { return Ok(()) };
        let last = lanes.iter().map(|lane| self.scheduler.lanes[*lane].tail).filter(|last| !last.is_nil());
        let Some(victim) = last.max_by_key(|last| self.scheduler.waiters[*last].seq) else { return Ok(()) };
        refuse::refuse_waiting(&mut self.scheduler, &mut self.res.base, victim, Reason::QueueFull, now);
        self.apply(now);
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

    /// The upstream has begun to answer a call that is still in flight: its breaker need not wait for the rest.
    pub fn answered(&mut self, grant: &Grant, now: Nanos) {
        let now = self.clock(now);
        let call = self.res.calls[grant].clone();
        backoff::end_rows(&mut self.res.upstream, &mut self.res.base, &call);
        breakers::report(&mut self.res.upstream, &mut self.res.base, grant, &call, &Fate::Answered, now);
        self.advance(now);
    }

    /// The limit that held a call longest before it went, if it waited and the limit is still there.
    #[must_use]
    pub fn held_by(&self, grant: &Grant) -> Option<Arc<str>> {
        let limit = self.res.calls[grant].held_by;
        let is_there = !limit.is_nil() && !self.res.base.limits.all.is_free(limit);
        is_there.then(|| names::limit_name(&self.res.base, limit))
    }

    /// An engine under `config`. `unix` is the wall-clock time at `now`, for calendar windows.
    ///
    /// # Errors
    /// If the config holds what cannot be: a weight that is no positive number, more than seven dimensions
    /// on one route, a limit of zero.
    pub fn new(config: &Config, now: Nanos, unix: Duration) -> Result<Engine, ChangeError> {
        let unix_offset = i128::try_from(unix.as_nanos()).unwrap_or(i128::MAX) - i128::from(now.0);
        let mut engine = Engine {
            res: Resources {
                base: Base {
                    now,
                    limits: Limits { unix_offset, attention: Nanos::NEVER, ..Limits::default() },
                    funding: Funding::default(),
                    routing: Routing::default(),
                    effects: Effects::default(),
                },
                upstream: Upstream::default(),
                calls: InFlightCalls::default(),
            },
            scheduler: Scheduler::default(),
        };
        engine.configure(config)?;
        Ok(engine)
    }

    /// Brings the engine to `now`: lets calls go whose time has come, refuses those whose time is up.
    pub fn advance(&mut self, now: Nanos) {
        let now = self.clock(now);
        if self.res.base.limits.attention <= now {
            backoff::end_tails(&mut self.res.upstream, &mut self.res.base, now);
        }
        if self.res.upstream.learning.due <= now {
            review::review(&mut self.res.upstream, &mut self.res.base, now);
            self.plan_what_was_learned(now);
        }
        // A call that fits at its last moment goes; hence grants before refusals.
        if self.scheduler.timers.first().is_some_and(|(wake, _)| wake <= now)
            || !self.scheduler.dirty.is_empty()
            || self.res.base.effects.is_pending()
        {
            self.apply(now);
        }
        while let Some((deadline, waiter)) = self.scheduler.deadlines.first() {
            if deadline > now {
                break;
            }
            refuse::refuse_waiting(
                &mut self.scheduler,
                &mut self.res.base,
                waiter,
                crate::model::refusal::Reason::Timeout,
                now,
            );
            self.apply(now);
        }
    }

    /// Applies the effects that machines raised, all but the retirement of limits, which follows dispatch.
    fn apply_effects(&mut self, now: Nanos) {
        if !self.res.base.effects.is_pending() {
            return;
        }
        self.restructure(now);
        for Served { limit, loop_, route, class, units } in std::mem::take(&mut self.res.base.effects.served)
        {
            bind::charge_flow(
                &mut self.scheduler,
                &mut self.res.base,
                limit,
                (loop_, route, class),
                units,
                false,
                LaneId::NIL,
            );
        }
        for limit in std::mem::take(&mut self.res.base.effects.touched) {
            marks::touched(&mut self.scheduler, &mut self.res.base, limit);
        }
    }

    /// Applies the effects that change where calls wait, and which of them can go at all.
    fn restructure(&mut self, now: Nanos) {
        for (service, model) in std::mem::take(&mut self.res.base.effects.split) {
            let waiting = rebind::displace_model(&mut self.scheduler, &mut self.res.base, service, &model);
            rebind::place_again(&mut self.scheduler, &mut self.res, waiting, now);
        }
        let routes = std::mem::take(&mut self.res.base.effects.reroute);
        rebind::rebind(&mut self.scheduler, &mut self.res, &routes, now);
        let routes = std::mem::take(&mut self.res.base.effects.revisit);
        for lane in lanes::lanes_of(&self.scheduler, &routes) {
            let route = self.scheduler.lanes[lane].route.clone();
            marks::mark_route(&mut self.scheduler, &mut self.res.base, &route);
        }
        if std::mem::take(&mut self.res.base.effects.refit) {
            rebind::refit(&mut self.scheduler, &mut self.res.base, now);
        }
        for breaker in std::mem::take(&mut self.res.base.effects.refuse) {
            refuse::refuse_all_at(&mut self.scheduler, &mut self.res.base, breaker, now);
        }
    }

    /// Frees the ids of limits that were retired, once no machine refers to them.
    pub(super) fn purge_retired(&mut self) {
        for limit in std::mem::take(&mut self.res.base.effects.retired) {
            marks::arm(&mut self.scheduler, &mut self.res.base, limit, Nanos::NEVER);
            self.res.base.limits[limit].queue = None;
            self.scheduler.dirty.retain(|marked| marked.0 != limit);
            self.res.upstream.learning.forget(limit);
            self.res.base.limits.all.free(limit);
        }
    }

    /// When [`Engine::advance`] should be called next, if at all.
    #[must_use]
    pub fn next_wake(&self) -> Option<Nanos> {
        let timer = self.scheduler.timers.first().map(|(wake, _)| wake);
        let deadline = self.scheduler.deadlines.first().map(|(deadline, _)| deadline);
        // While no call waits, the next arrival handles tails that have ended.
        let tail = (self.scheduler.waiting > 0 && !self.res.base.limits.attention.is_never())
            .then_some(self.res.base.limits.attention);
        let lesson = (self.scheduler.waiting > 0 && !self.res.upstream.learning.due.is_never())
            .then_some(self.res.upstream.learning.due);
        [timer, deadline, tail, lesson].into_iter().flatten().min()
    }

    /// What became of waiting calls since this was last asked.
    pub fn verdicts(&mut self) -> std::vec::Drain<'_, (Ticket, Verdict)> {
        self.scheduler.verdicts.drain(..)
    }

    /// Whether there is a verdict to hand out.
    #[must_use]
    pub fn has_verdicts(&self) -> bool {
        !self.scheduler.verdicts.is_empty()
    }

    /// How many calls wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.scheduler.waiting
    }

    /// The latest time the engine has seen.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.res.base.now
    }

    /// Takes the time: it never goes backwards.
    #[inline]
    pub(super) fn clock(&mut self, now: Nanos) -> Nanos {
        self.res.base.now = self.res.base.now.max(now);
        self.res.base.now
    }

    /// The route of a call whose cost is one.
    #[inline(always)]
    pub(super) fn route_for(&mut self, call: &Call, now: Nanos) -> Result<RouteId, Refusal> {
        let route_id = match find::known_route(&self.res.base, call) {
            Some(route_id) => route_id,
            None => self.find_route(call, now)?,
        };
        if !call.said.cost.is_plain() {
            find::check_cost(&self.res.base, &call.said.cost)?;
        }
        Ok(route_id)
    }

    /// Applies all effects: structure, shares and marks, then dispatch, then the retirement of limits.
    pub(super) fn apply(&mut self, now: Nanos) {
        self.apply_effects(now);
        dispatch::dispatch(&mut self.scheduler, &mut self.res, now);
        self.purge_retired();
    }

    /// After a limit changed in place: refuses what can no longer fit, and looks at everything again.
    pub(super) fn replan_all(&mut self, now: Nanos) {
        rebind::refit(&mut self.scheduler, &mut self.res.base, now);
        self.apply(now);
    }

    /// Puts into force what was learned while a call ended, without dispatching.
    #[inline]
    pub(super) fn plan_what_was_learned(&mut self, now: Nanos) {
        review::put_learned_in_force(&mut self.res.upstream, &mut self.res.base, now);
        if self.res.base.effects.is_structural() {
            self.restructure(now);
        }
    }

    /// Finds the route of a call.
    #[inline(never)]
    fn find_route(&mut self, call: &Call, now: Nanos) -> Result<RouteId, Refusal> {
        let route_id = find::resolve_shape(&mut self.res.base, &call.said.shape, now)?;
        call.said.route.store(self.res.base.routing.tag.mark(route_id), Ordering::Relaxed);
        // Limits of idle keys may have been retired on the way.
        if !self.res.base.effects.retired.is_empty() {
            self.purge_retired();
        }
        Ok(route_id)
    }

    /// The call ended. `actual` is what it really cost, in the dimensions it states; the rest cost what
    /// was reserved. What was reserved above that returns to where it came from, unless the service keeps
    /// it; what is above the reservation is debt. Slots come back.
    pub fn finish(&mut self, grant: Grant, actual: Option<&Cost>, now: Nanos) {
        let now = self.clock(now);
        self.lose_probe(&grant, now);
        let waited_for = self.scheduler.waiting > 0;
        if settle::finish_call(&mut self.res, grant, actual, waited_for, now) {
            self.advance(now);
            self.apply(now);
        }
    }

    /// Ends a call and applies what its outcome says: learning, backoff windows, the breaker, the cost. A refused call
    /// opens a backoff window. It gets back what it reserved but for its request, or nothing if the upstream counts
    /// refused calls.
    pub fn end_call(&mut self, grant: Grant, ended: &Ended, now: Nanos) {
        let now = self.clock(now);
        let call = self.res.calls[&grant].clone();
        let counted = settle::is_counted(&self.res.base, &call, &ended.fate);
        // Before anything comes back: freed units must not go to a call that has to stay away now.
        observe::observe(
            &mut self.res.upstream,
            &mut self.res.base,
            grant.index(),
            &call,
            ended,
            counted,
            now,
        );
        self.plan_what_was_learned(now);
        breakers::report(&mut self.res.upstream, &mut self.res.base, &grant, &call, &ended.fate, now);
        match ended.fate {
            Fate::Unreached => self.cancel(grant, now),
            _ if counted => self.finish(grant, ended.cost.as_ref(), now),
            _ => {
                self.lose_probe(&grant, now);
                let waited_for = self.scheduler.waiting > 0;
                if settle::give_back_refused(&mut self.res, grant, waited_for, now) {
                    self.advance(now);
                    self.apply(now);
                }
            }
        }
        self.plan_what_was_learned(now);
        self.run_for_waiters(now);
    }

    /// The head of a reply tells of limits though the call goes on. What it tells is heard once.
    pub fn hear(&mut self, grant: &Grant, ended: &Ended, now: Nanos) {
        let now = self.clock(now);
        let call = self.res.calls[grant].clone();
        let counted = settle::is_counted(&self.res.base, &call, &ended.fate);
        review::read_stated_limits(
            &mut self.res.upstream,
            &mut self.res.base,
            grant.index(),
            &call,
            &ended.told,
            counted,
            now,
        );
        self.plan_what_was_learned(now);
        self.run_for_waiters(now);
    }

    /// A call has left only now: its connection had to be opened, or many went at once. The upstream counts it from when
    /// it arrives, which is not before, so that is when it begins to count in a window; a pacer has let it go already.
    /// Who is not told counts from when calls were let go. A call that has ended since has left long ago.
    pub fn left(&mut self, departure: Departure, now: Nanos) {
        let now = self.clock(now);
        settle::count_from_departure(&mut self.res, departure, now);
        self.run_for_waiters(now);
    }

    /// A call that goes on has cost this much so far, in the dimensions that it states. What is above the reservation is
    /// debt from now on, and not only when the call ends: the reservation grows to it, and the end settles the rest. What
    /// is below changes nothing, since more may come. Bytes are known before a call goes, and stay as they are.
    pub fn spent(&mut self, grant: &Grant, so_far: &Cost, now: Nanos) {
        let now = self.clock(now);
        settle::grow(&mut self.res, grant, so_far, now);
        self.run_for_waiters(now);
    }

    /// Advances and dispatches, if calls wait.
    fn run_for_waiters(&mut self, now: Nanos) {
        if self.scheduler.waiting > 0 {
            self.advance(now);
            self.apply(now);
        }
    }

    /// How many times the bytes of a call in flight count, if it went throttled.
    #[must_use]
    pub fn byte_penalty(&self, grant: &Grant) -> Option<u16> {
        let penalty = self.res.calls[grant].penalty;
        (penalty > 0).then_some(penalty)
    }

    /// Ends a call that cost what it reserved, if nothing is noted of it and it frees nothing that a waiting call could use.
    ///
    /// # Errors
    /// The grant, if there is more to do: see [`Engine::finish`].
    #[inline(always)]
    pub fn finish_unnoticed(&mut self, grant: Grant) -> Result<(), Grant> {
        let waited_for = self.scheduler.waiting > 0;
        if settle::is_noted(&self.res, &grant)
            || !settle::frees_no_waiter(&self.res, &grant, waited_for)
            || !settle::free_slots(&mut self.res, &grant)
        {
            return Err(grant);
        }
        self.res.calls.forget(&grant);
        Ok(())
    }

    /// Takes back the breaker probe of a call whose outcome is unknown.
    #[inline(always)]
    fn lose_probe(&mut self, grant: &Grant, now: Nanos) {
        if settle::report_lost(&mut self.res, grant, now) {
            self.advance(now);
        }
    }

    /// The call is known never to have left: everything comes back.
    pub fn cancel(&mut self, grant: Grant, now: Nanos) {
        let now = self.clock(now);
        self.lose_probe(&grant, now);
        let waited_for = self.scheduler.waiting > 0;
        if settle::give_back(&mut self.res, grant, |_| true, waited_for, now) {
            self.advance(now);
            self.apply(now);
        }
    }
}
