//! The way of one call: it comes, waits, goes over the wire, is answered, and ends or is made again.

use std::time::Duration;

use tidegate_core::engine::Arrived;
use tidegate_core::retry::{Failure, Tries};
use tidegate_core::{Admission, Call, Cost, Grant, Nanos, Reason};

use super::source::Draft;
use super::story::Line;
use super::tally::Fate;
use super::{CallId, Event, Stop, Worker, World, fate};
use crate::check::{Happening, Newcomer};
use crate::routes::Named;
use crate::scenario::{Arrivals, UpstreamSpec};
use crate::upstream::{Headers, Held};

/// A worker whose call was refused without a word about when to come back goes on after this.
const PAUSE: Duration = Duration::from_secs(1);

/// How long calls wait where neither they nor the config say so: as long as in the sidecar.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A worker makes no two calls closer together than this, in nanoseconds.
const SHORTEST_ROUND: u64 = 1_000;

/// A call that was made and is not over.
#[derive(Debug)]
pub(crate) struct CallState {
    pub no: u64,
    pub kind: u32,
    pub source: usize,
    pub worker: Option<Worker>,
    pub generation: u32,
    pub call: Call,
    pub real: Cost,
    /// What it really costs is not what it was expected to.
    pub differs: bool,
    pub runs: Option<Duration>,
    /// When it first came, as the engine and as we know it.
    pub arrived: Option<Arrived>,
    pub came: Nanos,
    /// When its present attempt came.
    pub since: Nanos,
    /// How long it may wait in all, and how long it has, between attempts too.
    pub timeout: Duration,
    pub waited: Duration,
    pub tries: Tries,
    pub stage: Stage,
}

/// How far a call has come.
#[derive(Debug)]
pub(crate) enum Stage {
    Over,
    Waiting(tidegate_core::Ticket),
    /// On its way to the upstream.
    Sent(Grant),
    /// The upstream holds it, or has answered.
    Answered(Grant, Reply),
    /// Until it is made again.
    Resting,
    /// Its process is gone; the upstream does not know.
    Orphan(Option<Held>),
}

/// What the upstream said, until it is back.
#[derive(Debug)]
pub(crate) enum Reply {
    /// It went well, and what was written on it.
    Done(Option<Held>, Headers),
    /// Turned away or failed, and what was written on it.
    Bad { status: u16, headers: Headers },
    /// The connection broke.
    Broken(Option<Held>),
    /// It never comes.
    Lost(Option<Held>),
}

impl Reply {
    /// What the upstream holds until it has answered.
    pub fn held(self) -> Option<Held> {
        match self {
            Reply::Done(held, _) | Reply::Broken(held) | Reply::Lost(held) => held,
            Reply::Bad { .. } => None,
        }
    }
}

impl<'s> World<'s> {
    /// A source makes a call.
    pub(super) fn make_call(&mut self, source: usize, worker: Option<Worker>) -> Result<(), Stop> {
        let workload = &self.scenario.workloads[source];
        let loop_ = worker.filter(|_| workload.loops > 0).map(|worker| worker.loop_);
        let draft = self.sources[source].draft(workload, loop_);
        let Some(kind) = self.kind_of(source, &draft) else {
            self.worker_goes_on(source, worker, Duration::ZERO);
            return Ok(());
        };
        let mut call = self.routes.kind(kind).call.clone();
        for dimension in &draft.stated {
            call = call.units(dimension.clone(), draft.expected.units(dimension));
        }
        if workload.unknown_output {
            call = self.reserve(call, workload);
        }
        let (class, service) = (self.routes.kind(kind).class, self.routes.kind(kind).service);
        self.arrived += 1;
        let stated = workload.timeout.or_else(|| self.engine.as_ref()?.timeout_of(call.service()));
        let state = CallState {
            no: self.arrived,
            kind,
            source,
            worker,
            generation: 0,
            call,
            differs: workload.unknown_output || draft.real != draft.expected,
            real: draft.real,
            runs: draft.runs,
            arrived: self.engine.as_mut().map(|engine| engine.arrived(self.now)),
            came: self.now,
            since: self.now,
            timeout: stated.unwrap_or(TIMEOUT),
            waited: Duration::ZERO,
            tries: Tries::of(workload.repeatable),
            stage: Stage::Over,
        };
        self.tally.count(source, class, Fate::Called);
        self.ledger.made(state.no);
        self.retries.call(service, self.now);
        let place = self.place(state);
        self.enqueue(place)
    }

    /// Asks the engine for an attempt.
    fn enqueue(&mut self, place: u32) -> Result<(), Stop> {
        let state = &mut self.calls[place as usize];
        state.since = self.now;
        let (no, kind, source, came) = (state.no, state.kind, state.source, state.came);
        let timeout = state.timeout.saturating_sub(state.waited);
        let again = state.tries.retries > 0;
        let workload = &self.scenario.workloads[source];
        self.note(if again { Line::CameBack { no } } else { Line::Arrived { no, kind } });
        self.ledger.attempt(no).map_err(|broken| self.broken_by(broken))?;
        let Some(engine) = &mut self.engine else {
            return self.over(place, Fate::Refused);
        };
        let state = &self.calls[place as usize];
        self.routes.costs(kind, &state.call, workload.estimated, &mut self.costs);
        if let Some(judge) = &mut self.judge {
            let new = Newcomer { no, kind, costs: &self.costs, estimated: workload.estimated, came };
            judge.arrives(place, &new, self.now.after(timeout));
        }
        let admission = match state.arrived.filter(|_| again) {
            Some(arrived) => engine.enqueue_again(&state.call, arrived, timeout, self.now),
            None => engine.enqueue(&state.call, timeout, self.now),
        };
        let mut event = Happening { newcomer: Some(place), ..Happening::default() };
        match admission {
            Ok(Admission::Granted(grant)) => {
                event.granted.push(place);
                self.went(place, grant);
            }
            Ok(Admission::Waiting(ticket)) => {
                event.waits = Some((place, ticket));
                self.calls[place as usize].stage = Stage::Waiting(ticket);
                self.tickets.insert(ticket, place);
                self.note(Line::Waits { no });
                self.tally.waits(self.routes.kind(kind).service, 1, self.now);
                if let Some(patience) = self.sources[source].patience(workload) {
                    let id = self.id(place);
                    self.foresee(self.now.after(patience), Event::GiveUp(id));
                }
            }
            Err(refusal) => {
                self.note(Line::Refused { no, why: refusal.reason.code() });
                self.story.digest.add_refusal(&refusal);
                event.refused.push((place, refusal));
            }
        }
        self.collect(event)
    }

    /// A call may go: it is sent.
    pub(super) fn went(&mut self, place: u32, grant: Grant) {
        self.story.digest.add_grant(grant.granted_at());
        let state = &mut self.calls[place as usize];
        let (no, kind, source, since) = (state.no, state.kind, state.source, state.since);
        state.stage = Stage::Sent(grant);
        state.waited += self.now.since(since);
        let estimated = self.scenario.workloads[source].estimated;
        let mut costs = std::mem::take(&mut self.costs);
        self.routes.costs(kind, &self.calls[place as usize].call, estimated, &mut costs);
        self.tally.went(source, self.routes.kind(kind), &costs, since, self.now);
        self.costs = costs;
        self.note(Line::Went { no });
        let jitter = match self.spec(place) {
            Some(spec) => spec.jitter.draw(&mut self.wire),
            None => 0,
        };
        let id = self.id(place);
        self.foresee(Nanos(self.now.0.saturating_add(jitter)), Event::Reach(id));
    }

    /// A call that did not succeed waits until it is made again, or is given up. It holds nothing meanwhile.
    pub(super) fn rest(&mut self, place: u32, failure: &Failure) -> Result<(), Stop> {
        let state = &mut self.calls[place as usize];
        state.tries.elapsed = self.now.since(state.came);
        state.tries.wait_left = state.timeout.saturating_sub(state.waited);
        let service = self.routes.kind(state.kind).service;
        let Some(after) = self.retries.after(service, failure, &mut state.tries, self.now) else {
            return self.over(place, Fate::GivenUp);
        };
        state.waited += after;
        state.stage = Stage::Resting;
        self.tally.service(service).retries += 1;
        let id = self.id(place);
        self.foresee(self.now.after(after), Event::Again(id));
        Ok(())
    }

    pub(super) fn again(&mut self, id: CallId) -> Result<(), Stop> {
        match self.find(id) {
            Some(place) if matches!(self.calls[place as usize].stage, Stage::Resting) => {
                self.calls[place as usize].stage = Stage::Over;
                self.enqueue(place)
            }
            _ => Ok(()),
        }
    }

    /// A caller goes away while its call waits.
    pub(super) fn give_up(&mut self, id: CallId) -> Result<(), Stop> {
        let Some(place) = self.find(id) else { return Ok(()) };
        let Stage::Waiting(ticket) = self.calls[place as usize].stage else { return Ok(()) };
        let (no, kind) = (self.calls[place as usize].no, self.calls[place as usize].kind);
        self.note(Line::Withdrawn { no });
        self.tickets.remove(&ticket);
        self.tally.waits(self.routes.kind(kind).service, -1, self.now);
        if let Some(judge) = &mut self.judge {
            judge.withdrawn(place, &self.routes);
        }
        if let Some(engine) = &mut self.engine {
            engine.withdraw(ticket, self.now);
        }
        self.collect(Happening { ended: Some(place), ..Happening::default() })?;
        self.over(place, Fate::Cancelled)
    }

    /// The gate refused a call.
    pub(super) fn refused(
        &mut self,
        place: u32,
        reason: &Reason,
        wait: Option<Duration>,
    ) -> Result<(), Stop> {
        let pause = wait.unwrap_or(PAUSE).max(Duration::from_millis(50));
        self.over_after(place, fate(reason), pause)
    }

    pub(super) fn over(&mut self, place: u32, fate: Fate) -> Result<(), Stop> {
        let pause = if fate == Fate::Refused { PAUSE } else { Duration::ZERO };
        self.over_after(place, fate, pause)
    }

    /// A call is over; its worker, if it has one, goes on.
    fn over_after(&mut self, place: u32, fate: Fate, pause: Duration) -> Result<(), Stop> {
        let state = &self.calls[place as usize];
        let (no, source, worker) = (state.no, state.source, state.worker);
        self.tally.count(source, self.routes.kind(state.kind).class, fate);
        self.ledger.over(no).map_err(|broken| self.broken_by(broken))?;
        self.vacate(place);
        self.worker_goes_on(source, worker, pause);
        Ok(())
    }

    pub(super) fn worker_goes_on(&mut self, source: usize, worker: Option<Worker>, pause: Duration) {
        let (Some(mut worker), Arrivals::Closed { think, calls, .. }) =
            (worker, &self.scenario.workloads[source].arrivals)
        else {
            return;
        };
        worker.made += 1;
        if calls.is_some_and(|most| worker.made >= most) {
            return;
        }
        if let Some(next) = self.sources[source].after_thinking(think, self.now.after(pause)) {
            // Where neither thinking nor the call takes any time, time must pass all the same.
            let next = next.max(Nanos(self.now.0 + SHORTEST_ROUND));
            self.foresee(next, Event::Work(source, worker));
        }
    }

    /// The time is up: whatever waits is withdrawn, whatever runs is finished.
    pub(super) fn give_up_everything(&mut self) -> Result<(), Stop> {
        for place in 0..self.calls.len() {
            let state = &mut self.calls[place];
            let (no, source, kind) = (state.no, state.source, state.kind);
            match (std::mem::replace(&mut state.stage, Stage::Over), &mut self.engine) {
                (Stage::Over | Stage::Orphan(_), _) => continue,
                (Stage::Waiting(ticket), Some(engine)) => drop(engine.withdraw(ticket, self.now)),
                (Stage::Sent(grant) | Stage::Answered(grant, _), Some(engine)) => {
                    engine.finish(grant, None, self.now);
                }
                _ => {}
            }
            // Those that a freed slot lets go at the last moment go nowhere.
            if let Some(engine) = &mut self.engine {
                let verdicts: Vec<_> = engine.verdicts().collect();
                for (_, verdict) in verdicts {
                    if let tidegate_core::Verdict::Granted(grant) = verdict {
                        engine.cancel(grant, self.now);
                    }
                }
            }
            self.tally.count(source, self.routes.kind(kind).class, Fate::Unfinished);
            self.ledger.over(no).map_err(|broken| self.broken_by(broken))?;
        }
        self.ledger.close().map_err(|broken| self.broken_by(broken))
    }

    // ---- places ----

    fn place(&mut self, state: CallState) -> u32 {
        match self.free.pop() {
            Some(place) => {
                let generation = self.calls[place as usize].generation;
                self.calls[place as usize] = CallState { generation, ..state };
                place
            }
            None => {
                self.calls.push(state);
                self.calls.len() as u32 - 1
            }
        }
    }

    pub(super) fn vacate(&mut self, place: u32) {
        let state = &mut self.calls[place as usize];
        state.generation = state.generation.wrapping_add(1);
        state.stage = Stage::Over;
        self.free.push(place);
    }

    pub(super) fn id(&self, place: u32) -> CallId {
        CallId { place, generation: self.calls[place as usize].generation }
    }

    pub(super) fn find(&self, id: CallId) -> Option<u32> {
        (self.calls[id.place as usize].generation == id.generation).then_some(id.place)
    }

    pub(super) fn spec(&self, place: u32) -> Option<&'s UpstreamSpec> {
        let service = self.routes.kind(self.calls[place as usize].kind).service;
        self.scenario.upstreams.get(&self.service_names[service])
    }

    /// The kind of a call; nothing if the engine cannot route it or is down.
    fn kind_of(&mut self, source: usize, draft: &Draft) -> Option<u32> {
        let key = draft.key(source);
        if let Some(kind) = self.kinds.get(&key) {
            return *kind;
        }
        let workload = &self.scenario.workloads[source];
        let engine = self.engine.as_mut()?;
        let loop_ = match &draft.loop_id {
            None => 0,
            Some(name) => {
                let next = self.loop_names.len() as u32;
                let number = *self.loops.entry(name.clone()).or_insert(next);
                if number == next {
                    self.loop_names.push(name.clone());
                }
                number
            }
        };
        let (call, config) = (draft.call(workload), &self.scenario.config);
        let named = Named {
            service: &workload.service,
            endpoint: workload.endpoint.as_deref(),
            model: draft.model.as_deref(),
            key: workload.key.as_deref(),
            loop_type: draft.loop_type.as_deref(),
        };
        let kind = self.routes.add(call, loop_, &named, config, engine, self.now).ok();
        self.tally.limits_are(&self.routes, self.now);
        self.kinds.insert(key, kind);
        kind
    }
}
