//! Attempts at the gate: a call is made, asks, waits, is made again, or is given up by its caller.

use std::time::Duration;

use tidegate_core::Admission;
use tidegate_core::retry::{Failure, Tries};

use super::calls::{CallState, Real, Stage, Times};
use super::decisions::{collect, went};
use super::output;
use super::over::{over, worker_goes_on};
use super::plan::{CallId, Event, Worker};
use super::source::Draft;
use super::state::{Stop, World};
use super::story::Line;
use super::tally::Fate;
use crate::check::{Happening, Newcomer};
use crate::routes::Named;

/// How long calls wait where neither they nor the config say so: as long as in the sidecar.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Makes the next call of a source.
pub(super) fn make_call(world: &mut World<'_>, source: usize, worker: Option<Worker>) -> Result<(), Stop> {
    let workload = &world.scenario.workloads[source];
    let loop_ = worker.filter(|_| workload.loops > 0).map(|worker| worker.loop_);
    let draft = world.callers.sources[source].draft(workload, loop_);
    let Some(kind) = kind_of(world, source, &draft) else {
        worker_goes_on(world, source, worker, Duration::ZERO);
        return Ok(());
    };
    let mut call = world.routes.kind(kind).call.clone();
    for dimension in &draft.stated {
        call = call.units(dimension.clone(), draft.expected.units(dimension));
    }
    if workload.unknown_output {
        call = output::reserve(call, workload, &world.scenario.config, &world.callers.outputs);
    }
    let now = world.now();
    let (class, service) = (world.routes.kind(kind).class, world.routes.kind(kind).service);
    let engine = &mut world.process.engine;
    let stated = workload.timeout.or_else(|| engine.as_ref()?.timeout_of(call.service()));
    let state = CallState {
        no: world.calls.next_no(),
        kind,
        source,
        worker,
        generation: 0,
        call,
        real: Real {
            differs: workload.unknown_output || draft.real != draft.expected,
            cost: draft.real,
            runs: draft.runs,
        },
        times: Times {
            arrived: engine.as_mut().map(|engine| engine.arrived(now)),
            came: now,
            since: now,
            timeout: stated.unwrap_or(TIMEOUT),
            waited: Duration::ZERO,
        },
        tries: Tries::of(workload.repeatable),
        stage: Stage::Over,
    };
    world.tally.count(source, class, Fate::Called);
    world.ledger.made(state.no);
    world.callers.retries.call(service, now);
    let place = world.calls.place(state);
    enqueue(world, place)
}

/// Returns the kind of a call; nothing if the engine cannot route it or is down.
fn kind_of(world: &mut World<'_>, source: usize, draft: &Draft) -> Option<u32> {
    let key = draft.key(source);
    if let Some(kind) = world.callers.kind(&key) {
        return kind;
    }
    let (scenario, now) = (world.scenario, world.now());
    let workload = &scenario.workloads[source];
    let engine = world.process.engine.as_mut()?;
    let loop_ = world.callers.loop_number(draft.loop_id.as_deref());
    let named = Named {
        service: &workload.service,
        endpoint: workload.endpoint.as_deref(),
        model: draft.model.as_deref(),
        key: workload.key.as_deref(),
        loop_type: draft.loop_type.as_deref(),
    };
    let call = draft.call(workload);
    let kind = world.routes.add(call, loop_, &named, &scenario.config, engine, now).ok();
    world.tally.limits_are(&world.routes, now);
    world.callers.add_kind(key, kind);
    kind
}

/// Asks the engine for an attempt.
fn enqueue(world: &mut World<'_>, place: u32) -> Result<(), Stop> {
    let now = world.now();
    let state = &mut world.calls[place];
    state.times.since = now;
    let (no, kind, source, came) = (state.no, state.kind, state.source, state.times.came);
    let (timeout, again) = (state.times.left(), state.tries.retries > 0);
    let workload = &world.scenario.workloads[source];
    world.note(if again { Line::CameBack { no } } else { Line::Arrived { no, kind } });
    world.keeps(world.ledger.attempt(no))?;
    if world.process.engine.is_none() {
        return over(world, place, Fate::Refused);
    }
    world.find_costs(place);
    if let Some(judge) = &mut world.process.judge {
        let new = Newcomer { no, kind, costs: &world.costs, estimated: workload.estimated, came };
        judge.arrives(place, &new, now.after(timeout));
    }
    let Some(engine) = &mut world.process.engine else { return Ok(()) };
    let state = &world.calls[place];
    let admission = match state.times.arrived.filter(|_| again) {
        Some(arrived) => engine.enqueue_again(&state.call, arrived, timeout, now),
        None => engine.enqueue(&state.call, timeout, now),
    };
    let mut event = Happening { newcomer: Some(place), ..Happening::default() };
    match admission {
        Ok(Admission::Granted(grant)) => {
            event.granted.push(place);
            went(world, place, grant);
        }
        Ok(Admission::Waiting(ticket)) => {
            event.waits = Some((place, ticket));
            world.calls.wait(place, ticket);
            world.note(Line::Waits { no });
            world.tally.waits(world.routes.kind(kind).service, 1, now);
            if let Some(patience) = world.callers.sources[source].patience(workload) {
                let id = world.calls.id(place);
                world.foresee(now.after(patience), Event::GiveUp(id));
            }
        }
        Err(refusal) => {
            world.note(Line::Refused { no, why: refusal.reason.code() });
            world.story.digest.add_refusal(&refusal);
            event.refused.push((place, refusal));
        }
    }
    collect(world, event)
}

/// Lets a call that did not succeed rest until it is made again, or gives it up. It holds nothing meanwhile.
pub(super) fn rest(world: &mut World<'_>, place: u32, failure: &Failure) -> Result<(), Stop> {
    let (now, service) = (world.now(), world.service(place));
    let state = &mut world.calls[place];
    state.tries.elapsed = now.since(state.times.came);
    state.tries.wait_left = state.times.left();
    let Some(after) = world.callers.retries.after(service, failure, &mut state.tries, now) else {
        return over(world, place, Fate::GivenUp);
    };
    state.times.waited += after;
    state.stage = Stage::Resting;
    world.tally.service(service).retries += 1;
    let id = world.calls.id(place);
    world.foresee(now.after(after), Event::Again(id));
    Ok(())
}

/// Makes a call again that has rested.
pub(super) fn again(world: &mut World<'_>, id: CallId) -> Result<(), Stop> {
    match world.calls.find(id) {
        Some(place) if matches!(world.calls[place].stage, Stage::Resting) => {
            world.calls[place].stage = Stage::Over;
            enqueue(world, place)
        }
        _ => Ok(()),
    }
}

/// Withdraws a call whose caller goes away while it waits.
pub(super) fn give_up(world: &mut World<'_>, id: CallId) -> Result<(), Stop> {
    let Some(place) = world.calls.find(id) else { return Ok(()) };
    let Stage::Waiting(ticket) = world.calls[place].stage else { return Ok(()) };
    let (now, service) = (world.now(), world.service(place));
    world.note(Line::Withdrawn { no: world.calls[place].no });
    world.calls.take_waiting(ticket);
    world.tally.waits(service, -1, now);
    if let Some(judge) = &mut world.process.judge {
        judge.withdrawn(place, &world.routes);
    }
    if let Some(engine) = &mut world.process.engine {
        engine.withdraw(ticket, now);
    }
    collect(world, Happening { ended: Some(place), ..Happening::default() })?;
    over(world, place, Fate::Cancelled)
}
