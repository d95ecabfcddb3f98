//! Looks at the engine.

use crate::admission::fast_path;
use crate::calls::Grant;
use crate::config::SettleRule;
use crate::engine::Engine;
use crate::inspect::outlook::Outlook;
use crate::inspect::route::Explained;
use crate::inspect::route::FirstInLine;
use crate::inspect::route::Passage;
use crate::inspect::route::Stand;
use crate::inspect::status::BackoffStatus;
use crate::inspect::status::BreakerState;
use crate::inspect::status::BreakerStatus;
use crate::inspect::status::LimitStatus;
use crate::inspect::status::Place;
use crate::inspect::{outlook, route, status};
use crate::limits::breaker::Status;
use crate::limits::meters::Meter;
use crate::model::LimitId;
use crate::model::call::Call;
use crate::model::priority::Priority;
use crate::model::refusal::{Reason, Refusal};
use crate::model::route_limit::RouteLimit;
use crate::model::time::Nanos;
use crate::routing::service::ServiceCounts;
use crate::routing::{find, loop_table, names};
use crate::scheduler::decision::Ticket;
use crate::scheduler::{eligibility, forecast, lanes, rank, refuse};
use crate::upstream::event::Lesson;
use crate::upstream::event::News;
use crate::upstream::learned;
use crate::upstream::learned::LearnedLimit;
use std::sync::Arc;
use std::time::Duration;

impl Engine {
    /// How long calls of a service wait unless they say otherwise, if the config says so.
    #[must_use]
    pub fn timeout_of(&self, service: &str) -> Option<Duration> {
        self.res.base.routing.services[names::service_named(&self.res.base, service)?].queue.timeout
    }

    /// Every breaker, by name.
    pub fn breakers(&mut self, now: Nanos) -> Vec<BreakerStatus> {
        let now = self.clock(now);
        let mut all = Vec::new();
        for limit in self.res.base.limits.all.live() {
            let Meter::Circuit(circuit) = &self.res.base.limits[limit].meter else { continue };
            let state = match circuit.breaker().status(now) {
                Status::Closed => BreakerState::Closed,
                Status::Open { until } => BreakerState::Open { probe_in: until.since(now) },
                Status::HalfOpen { probes } => BreakerState::HalfOpen { probes },
            };
            all.push(BreakerStatus {
                name: names::limit_name(&self.res.base, limit),
                state,
                waiting: lanes::waiting_at(&self.scheduler, &self.res.base, limit),
            });
        }
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// The limits that a call must pass, in the order in which it passes them, and what it would take.
    ///
    /// # Errors
    /// If the call names what is not there.
    pub fn passages(&mut self, call: &Call, now: Nanos) -> Result<Vec<Passage>, Refusal> {
        let now = self.clock(now);
        let route_id = self.route_for(call, now)?;
        let mut units = self.res.base.routing.routes[route_id].layout.units_of(&call.said.cost);
        let loop_ = loop_table::known_loop(&self.res.base, call);
        let class = route::class_of(&self.res.base, route_id, call);
        let route = find::route_of(&self.res.base, route_id, loop_);
        if !self.res.base.routing.routes[route_id].terms.observe {
            self.res.base.limits.fit_units(&mut units, &route, class, call.said.estimated);
        }
        let mut passages: Vec<Passage> = route
            .iter()
            .filter_map(|&(limit, slot)| route::passage(&self.res.base, limit, units[slot as usize]))
            .collect();
        if loop_.is_nil()
            && let Some(name) = &call.said.loop_id
        {
            // It gets its own limits when it first calls.
            let slots = &self.res.base.routing.routes[route_id].loop_slots;
            for (&spec, &slot) in self.res.base.routing.loop_specs.iter().zip(slots) {
                let name = format!("loop:{name}/{}", self.res.base.limits.specs[spec].suffix).into();
                passages.extend(route::passage_by(&self.res.base.limits, spec, name, units[slot as usize]));
            }
        }
        Ok(passages)
    }

    /// The priority that a call has, its own or its loop type's.
    ///
    /// # Errors
    /// If the call names what is not there.
    pub fn priority_of(&mut self, call: &Call, now: Nanos) -> Result<Priority, Refusal> {
        let route_id = self.route_for(call, now)?;
        Ok(route::class_of(&self.res.base, route_id, call))
    }

    /// How the limits on a call's way stand, in the order of [`Engine::passages`].
    pub fn stands(&mut self, call: &Call, now: Nanos, into: &mut Vec<Stand>) {
        let now = self.clock(now);
        let Ok(route_id) = self.route_for(call, now) else { return };
        let loop_ = loop_table::known_loop(&self.res.base, call);
        for index in 0..self.res.base.routing.routes[route_id].uses.len() {
            let (limit, _) = self.res.base.routing.routes[route_id].uses[index];
            if route::is_passage(&self.res.base.limits, limit) {
                into.push(route::stand(&mut self.res.base.limits, limit, now));
            }
        }
        if call.said.loop_id.is_some() {
            let mut at =
                self.res.base.routing.loops.all.get(loop_).map_or(LimitId::NIL, |record| record.first);
            for _ in 0..self.res.base.routing.loop_specs.len() {
                // A loop that is not there has spent nothing.
                into.push(if at.is_nil() {
                    Stand::default()
                } else {
                    route::stand(&mut self.res.base.limits, at, now)
                });
                at = if at.is_nil() { LimitId::NIL } else { self.res.base.limits[at].sibling };
            }
        }
    }

    /// Whether every limit on a waiting call's way has room for it; then only those before it hold it back.
    pub fn has_room(&mut self, ticket: Ticket, now: Nanos) -> bool {
        let now = self.clock(now);
        if !self.is_waiting(ticket) {
            return false;
        }
        let run = lanes::batch_of(&self.scheduler, ticket.index);
        let (lane, units) = (run.lane, run.like.units);
        let route = self.scheduler.lanes[lane].route.clone();
        route.iter().all(|&(limit, slot)| {
            let withheld = eligibility::withheld(&self.scheduler, &self.res.base, limit, lane, now);
            let held = &mut self.res.base.limits[limit];
            let cost = units[slot as usize];
            (cost == 0 && !held.meter.is_in_flight()) || held.fits(cost, withheld, now)
        })
    }

    /// Lists the call that is first at each limit of a call's route at which calls wait.
    pub fn first_in_line(&mut self, call: &Call, now: Nanos, into: &mut Vec<FirstInLine>) {
        let now = self.clock(now);
        let Ok(route_id) = self.route_for(call, now) else { return };
        let route: Vec<RouteLimit> =
            find::route_of(&self.res.base, route_id, loop_table::known_loop(&self.res.base, call));
        let passages = route
            .into_iter()
            .filter(|(limit, _)| route::is_passage(&self.res.base.limits, *limit))
            .collect::<Vec<_>>();
        for (place, (limit, _)) in passages.into_iter().enumerate() {
            let Some(lane) = rank::first(&self.scheduler, &self.res.base, limit, now) else { continue };
            let Some(index) = lanes::head(&self.scheduler, lane) else { continue };
            let ticket = Ticket { index, generation: self.scheduler.waiters[index].generation };
            let in_flight = self.res.base.limits[limit].meter.is_in_flight();
            let booked = if in_flight {
                Nanos::NEVER
            } else {
                eligibility::booking(&self.scheduler, &self.res.base, lane, now)
            };
            into.push(FirstInLine { place, ticket, booked });
        }
    }

    /// Every limit about which something was learned.
    pub fn learned(&mut self, now: Nanos) -> Vec<LearnedLimit> {
        self.clock(now);
        self.res
            .base
            .limits
            .all
            .live()
            .filter_map(|limit| learned::learned_of(&self.res.upstream, &self.res.base, limit))
            .collect()
    }

    /// The limits that a call must pass, in the order in which it passes them, and how they stand.
    ///
    /// # Errors
    /// If the call names what is not there.
    pub fn explain(&mut self, call: &Call, now: Nanos) -> Result<Vec<Explained>, Refusal> {
        let now = self.clock(now);
        let class = self.priority_of(call, now)?;
        let passages = self.passages(call, now)?;
        let explained = passages.into_iter().map(|passage| {
            let withheld = passage.withheld[class as usize];
            let Some(limit) = names::limit_named(&self.res.base, &passage.limit) else {
                // A loop that never called has its limits to itself.
                let capacity = passage.terms.most();
                let (cost, fits_in) = (passage.cost, Some(Duration::ZERO));
                let limit = passage.limit;
                return Explained {
                    limit,
                    cost,
                    capacity,
                    used: 0,
                    withheld,
                    fits_in,
                    waiting: 0,
                    learned: None,
                };
            };
            let waiting = lanes::waiting_at(&self.scheduler, &self.res.base, limit);
            let held = &mut self.res.base.limits[limit];
            let fits_in = match held.fits(passage.cost, withheld, now) {
                true => Some(Duration::ZERO),
                false => {
                    let at = held.earliest(passage.cost, withheld, now);
                    (!at.is_never() && !held.meter.is_in_flight()).then(|| at.since(now))
                }
            };
            let used = held.meter.used(now);
            let learned = learned::learned_of(&self.res.upstream, &self.res.base, limit);
            let (limit, cost, capacity) = (passage.limit, passage.cost, passage.terms.most());
            Explained { limit, cost, capacity, used, withheld, fits_in, waiting, learned }
        });
        Ok(explained.collect())
    }

    /// What was learned since this was last asked, oldest first.
    pub fn lessons(&mut self) -> Vec<Lesson> {
        self.res.upstream.learning.lessons.drain(..).collect()
    }

    /// Whether something that was learned is to be looked at again at this time, which changes definitions.
    #[must_use]
    pub fn is_lesson_due(&self, now: Nanos) -> bool {
        self.res.upstream.learning.due <= now
    }

    /// From now on also every unit that is charged for others is told.
    pub fn keep_books(&mut self) {
        self.res.upstream.learning.keeps_books = true;
    }

    /// How many loops are remembered.
    #[must_use]
    pub fn live_loops(&self) -> usize {
        self.res.base.routing.loops.index.len()
    }

    /// Returns the fingerprint by which an API key is named here.
    #[must_use]
    pub fn fingerprint(&self, secret: &str) -> String {
        self.res.base.routing.salt.fingerprint(secret)
    }

    /// Returns what the wall clock shows at `now`, as far as the engine knows.
    #[must_use]
    pub fn wall_clock(&self, now: Nanos) -> Duration {
        let unix = u64::try_from(i128::from(now.0) + self.res.base.limits.unix_offset).unwrap_or(0);
        Duration::from_nanos(unix)
    }

    /// Returns whether any limit follows a calendar, and so the wall clock.
    #[must_use]
    pub fn has_calendars(&self) -> bool {
        self.res.base.limits.specs.iter().any(|spec| !spec.gone && spec.has_calendar())
    }

    /// What happened since this was last asked, oldest first.
    pub fn news(&mut self) -> Vec<News> {
        self.res.upstream.bulletin.news.drain(..).collect()
    }

    /// Whether there are news or lessons that came since this was last asked.
    #[inline]
    pub fn take_notice(&mut self) -> bool {
        std::mem::take(&mut self.res.upstream.bulletin.noticed)
    }

    /// What a call would meet if it came now and had all the time. Nothing is taken for it.
    ///
    /// # Errors
    /// If it names what is not there.
    pub fn outlook(&mut self, call: &Call, now: Nanos) -> Result<Outlook, Refusal> {
        let now = self.clock(now);
        self.advance(now);
        let route_id = self.route_for(call, now)?;
        let mut arrival = fast_path::arrive(&mut self.res.base, route_id, call, now);
        if let Err(refusal) =
            refuse::fit_or_refuse(&mut self.scheduler, &mut self.res.base, &mut arrival, call, now)
        {
            return match (refusal.reason, refusal.limit) {
                (Reason::TooLarge { capacity, .. }, Some(limit)) => Ok(Outlook::Never { limit, capacity }),
                (reason, limit) => Err(Refusal { reason, limit, ..refusal }),
            };
        }
        if self.res.base.routing.routes[route_id].terms.observe {
            return Ok(Outlook::Goes);
        }
        Ok(outlook::look_ahead(&mut self.scheduler, &mut self.res.base, &arrival, call, now))
    }

    /// Where a waiting call stands now.
    pub fn place(&mut self, ticket: Ticket, now: Nanos) -> Option<Place> {
        let now = self.clock(now);
        if !self.is_waiting(ticket) {
            return None;
        }
        let lane = lanes::batch_of(&self.scheduler, ticket.index).lane;
        let enqueued = self.scheduler.waiters[ticket.index].enqueued;
        let bound = self.scheduler.lanes[lane].bound;
        let slot_wait = self.res.base.limits[bound].meter.is_in_flight();
        let when = forecast::forecast(&mut self.scheduler, &mut self.res.base, ticket, now);
        Some(Place {
            position: 1 + forecast::ranked_before(&self.scheduler, &self.res.base, lane, ticket.index, now),
            limit: names::limit_name(&self.res.base, bound),
            expected: (!slot_wait && !when.is_never()).then(|| when.since(now)),
            waited: now.since(enqueued),
        })
    }

    /// Every limit, instances of loops and keys included.
    pub fn limits(&mut self, now: Nanos) -> Vec<LimitStatus> {
        let now = self.clock(now);
        let live =
            self.res.base.limits.all.live().filter(|limit| self.res.base.limits[*limit].meter.counts());
        let live: Vec<LimitId> = live.collect();
        live.into_iter()
            .map(|limit| status::limit_status(&mut self.scheduler, &mut self.res.base, limit, now))
            .collect()
    }

    /// One limit by name.
    pub fn limit(&mut self, name: &str, now: Nanos) -> Option<LimitStatus> {
        let now = self.clock(now);
        names::limit_named(&self.res.base, name)
            .map(|limit| status::limit_status(&mut self.scheduler, &mut self.res.base, limit, now))
    }

    /// What became of a service's calls.
    #[must_use]
    pub fn counts(&self, service: &str) -> Option<ServiceCounts> {
        let service = *self.res.base.routing.service_index.get(service)?;
        let mut counts = self.res.base.routing.services[service].counts;
        let own = self.res.base.routing.routes.iter().filter(|route_id| route_id.service == service);
        counts.granted += own.map(|route_id| route_id.granted).sum::<u64>();
        Some(counts)
    }

    /// The service that a call in flight went to. Searched for among all: ask only where it is worth that.
    #[must_use]
    pub fn service_of(&self, grant: &Grant) -> Option<&str> {
        let call = &self.res.calls[grant];
        let service = self.res.base.routing.routes[call.route_id].service;
        self.res
            .base
            .routing
            .service_index
            .iter()
            .find(|(_, index)| **index == service)
            .map(|(name, _)| &**name)
    }

    /// The model that a call in flight asked for, where the config knows none like it: only then it is of use to
    /// remember it until the call ends.
    #[inline]
    #[must_use]
    pub fn unknown_model(&self, grant: &Grant, call: &Call) -> Option<Arc<str>> {
        if grant.is_of_unknown_model() { call.shared_model() } else { None }
    }

    /// Whether the service keeps what a call reserved above its cost.
    #[must_use]
    pub fn settle_rule(&self, service: &str) -> Option<SettleRule> {
        let held = &self.res.base.routing.services[*self.res.base.routing.service_index.get(service)?];
        Some(if held.keep { SettleRule::Keep } else { SettleRule::Refund })
    }

    /// Every window that is open or has a tail, by key.
    pub fn backoffs(&mut self, now: Nanos) -> Vec<BackoffStatus> {
        let now = self.clock(now);
        let all = self.res.upstream.windows.iter().zip(&self.res.base.routing.overlays);
        let live = all.filter(|(window, overlay)| overlay.tail > now || window.until > now);
        let mut all: Vec<BackoffStatus> = live
            .map(|(window, overlay)| BackoffStatus {
                key: overlay.key.clone(),
                open_for: window.until.since(now),
                throttled_for: overlay.tail.since(now),
                waiting: lanes::waiting_at(&self.scheduler, &self.res.base, overlay.limit),
            })
            .collect();
        all.sort_by(|one, other| one.key.cmp(&other.key));
        all
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::config::Config;
    use crate::engine::Engine;
    use crate::model::call::Call;
    use crate::model::time::Nanos;
    use crate::routing::names;

    const CONFIG: &str = r#"
        [global]
        requests = "1000/min"
        [services.api]
        per_key = true
        requests = ["60/min", "1k/day"]
        concurrency = 9
        [services.api.endpoints."POST /v1/*"]
        requests = "30/min"
        [services.api.models."big/key:*"]
        tokens = "9k/min"
        [services.other]
        requests = "5/min"
        [loop_types.code]
        requests = "20/min"
        [loops]
        requests = "10/min"
        concurrency = 3
    "#;

    #[test]
    fn every_name_leads_back_to_its_limit() {
        let config = Config::parse(CONFIG, "test.toml").expect("valid");
        let mut engine = Engine::new(&config, Nanos::ZERO, Duration::ZERO).expect("valid");
        let calls = [
            Call::to("api").key("sk-1").endpoint("POST /v1/chat").model("big/key:7").loop_id("a/requests/1m"),
            Call::to("api").key("sk-2").loop_id("b").loop_type("code"),
            Call::to("api"),
            Call::to("other").loop_id("loop:c"),
        ];
        for call in &calls {
            let grant = engine.try_admit(call, Nanos::ZERO).expect("fits");
            engine.finish(grant, None, Nanos::ZERO);
        }
        let counting: Vec<_> = engine
            .res
            .base
            .limits
            .all
            .live()
            .filter(|limit| engine.res.base.limits[*limit].meter.counts())
            .collect();
        assert!(counting.len() > 18, "{}", counting.len());
        for limit in counting {
            let name = names::limit_name(&engine.res.base, limit);
            assert_eq!(names::limit_named(&engine.res.base, &name), Some(limit), "{name}");
        }
        for unknown in
            ["", "/", "api", "api/requests/1m", "api/key:/requests/1m", "loop:z/requests/1m", "loop:"]
        {
            assert_eq!(names::limit_named(&engine.res.base, unknown), None, "{unknown}");
        }
    }
}
