//! Behind the gate: a call reaches its upstream, is answered, and gives back what it holds.

use std::time::Duration;

use tidegate_core::Grant;
use tidegate_core::engine::{Ended, Fate};
use tidegate_core::reply::{Reading, UnixMillis};
use tidegate_core::retry::{Failure, Transport};

use super::attempts::rest;
use super::calls::{Reply, Stage};
use super::decisions::collect;
use super::output;
use super::over::over;
use super::plan::{CallId, Event};
use super::state::{Stop, World};
use super::story::Line;
use super::tally;
use super::wire::Received;
use crate::check::{End, Happening};
use crate::upstream::{Answer, Headers, Held, RefusedBy};

/// After so long a reply that does not come is given up.
const LOST_AFTER: Duration = Duration::from_secs(60);

/// Hands a call to its upstream.
pub(super) fn reach(world: &mut World<'_>, id: CallId) -> Result<(), Stop> {
    let Some(place) = world.calls.find(id) else { return Ok(()) };
    let (now, service, spec) = (world.now(), world.service(place), world.spec(place));
    let no = world.calls[place].no;
    let grant = match std::mem::replace(&mut world.calls[place].stage, Stage::Over) {
        Stage::Sent(grant) => {
            world.keeps(world.ledger.reaches(no))?;
            Some(grant)
        }
        // It had left when its process died.
        Stage::Orphan(_) => None,
        stage => {
            world.calls[place].stage = stage;
            return Ok(());
        }
    };
    let state = &world.calls[place];
    let cost = output::counted_on_arrival(state, &world.scenario.workloads[state.source], spec);
    let received = world.wire.receive(service, spec, &cost, state.real.runs, now);
    let latency = received.latency;
    let (reply, status) = told(world, received, service);
    world.note(Line::Reached { no, status });
    let after = match reply {
        Reply::Lost(_) => LOST_AFTER,
        _ => latency,
    };
    world.calls[place].stage = match grant {
        Some(grant) => Stage::Answered(grant, reply),
        None => Stage::Orphan(reply.held()),
    };
    world.foresee(now.after(after), Event::Reply(id));
    Ok(())
}

/// Counts an upstream's answer. Returns what comes of it, and its status.
fn told(world: &mut World<'_>, received: Received, service: usize) -> (Reply, u16) {
    let now = world.now();
    let Received { answer, broken, lost, .. } = received;
    world.tally.service(service).sent += 1;
    let (refused, status) = match answer {
        Some(Answer::Refused(by)) => {
            world.tally.rejected(service, now);
            (Some(by), world.wire.refused_status(service, &by))
        }
        Some(Answer::Failed(status)) => {
            world.tally.failed(service, now);
            (None, status)
        }
        accepted => {
            let held = match accepted {
                Some(Answer::Accepted(held)) => Some(held),
                _ => None,
            };
            let counts = world.tally.service(service);
            counts.accepted += 1;
            counts.lost += u64::from(broken || lost);
            let reply = match (broken, lost) {
                (true, _) => Reply::Broken(held),
                (false, true) => Reply::Lost(held),
                (false, false) => Reply::Done(held, headers(world, service, None)),
            };
            return (reply, 200);
        }
    };
    (Reply::Bad { status, headers: headers(world, service, refused.as_ref()) }, status)
}

/// Returns what an upstream tells of its limits. Its own clock is right, whatever ours was set to.
fn headers(world: &World<'_>, service: usize, refused: Option<&RefusedBy>) -> Headers {
    world.wire.headers(service, refused, world.now(), world.plan.unix())
}

/// Takes a reply that is back, or is given up.
pub(super) fn reply(world: &mut World<'_>, id: CallId) -> Result<(), Stop> {
    let Some(place) = world.calls.find(id) else { return Ok(()) };
    match std::mem::replace(&mut world.calls[place].stage, Stage::Over) {
        Stage::Orphan(held) => {
            end_upstream(world, place, held);
            world.calls.vacate(place);
            Ok(())
        }
        Stage::Answered(grant, reply) => answered(world, place, grant, reply),
        stage => {
            world.calls[place].stage = stage;
            Ok(())
        }
    }
}

/// Reads a reply as a gate reads it: what it means for calls that come after, and for the call itself.
fn answered(world: &mut World<'_>, place: u32, grant: Grant, reply: Reply) -> Result<(), Stop> {
    let (ended, failure) = match reply {
        Reply::Done(held, headers) => {
            end_upstream(world, place, held);
            let told = match headers.is_empty() {
                true => Vec::new(),
                false => Ended::by_reply(200, &read(world, place, 200, &headers)).told,
            };
            let state = &world.calls[place];
            output::learn(&mut world.callers.outputs, state, &world.scenario.workloads[state.source]);
            let cost = state.real.differs.then(|| state.real.cost.clone());
            (Ended { cost, told, ..Fate::Answered.into() }, None)
        }
        Reply::Broken(held) | Reply::Lost(held) => {
            end_upstream(world, place, held);
            (Fate::Failed { wait: None }.into(), Some(Failure::of_transport(Transport::Broken)))
        }
        Reply::Bad { status, headers } => {
            let reading = read(world, place, status, &headers);
            (Ended::by_reply(status, &reading), Some(Failure::of_reply(status, &reading)))
        }
    };
    let kind = world.routes.kind(world.calls[place].kind);
    let ended = Ended { model: kind.after.model.as_deref().map(Into::into), ..ended };
    let event = settle(world, place, grant, &ended)?;
    if failure.is_some() {
        world.note_trouble();
    }
    collect(world, event)?;
    match failure {
        None => {
            let kept = world.ledger.answered(world.calls[place].no);
            world.keeps(kept)?;
            over(world, place, tally::Fate::Succeeded)
        }
        Some(failure) => rest(world, place, &failure),
    }
}

fn read(world: &World<'_>, place: u32, status: u16, headers: &[(String, String)]) -> Reading {
    let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let unix = world.process.unix(&world.plan);
    let unix = UnixMillis(i64::try_from(unix.as_millis()).unwrap_or(i64::MAX));
    world.scenario.config.reader(world.calls[place].call.service()).read(status, headers, b"", unix)
}

/// Gives a grant back to the engine. Returns the event that is to be judged.
fn settle(world: &mut World<'_>, place: u32, grant: Grant, ended: &Ended) -> Result<Happening, Stop> {
    let now = world.now();
    // First what it tells, then what it gives back: that is also how the engine takes it.
    if let Some(engine) = world.process.engine.as_mut().filter(|_| !ended.told.is_empty()) {
        engine.hear(&grant, ended, now);
        collect(world, Happening { unsettled: true, ..Happening::default() })?;
    }
    let mut event = Happening { ended: Some(place), ..Happening::default() };
    let (no, kind) = (world.calls[place].no, world.calls[place].kind);
    let comes_back = End { ended, kind: world.routes.kind(kind) }.comes_back();
    world.note(if comes_back { Line::Cancelled { no } } else { Line::Ended { no } });
    world.find_costs(place);
    let end = End { ended, kind: world.routes.kind(kind) };
    let Some(engine) = &mut world.process.engine else { return Ok(event) };
    if let Some(judge) = &mut world.process.judge {
        match judge.ends(place, &end, engine, &world.routes, now) {
            Ok(unsettled) => event.unsettled = unsettled,
            Err((invariant, message)) => return Err(world.broken(invariant, message)),
        }
    }
    engine.end_call(grant, ended, now);
    // What a limit was used for is what calls really cost, as far as it took notice.
    for (used, reserved) in end.kind.limits.iter().zip(&world.costs) {
        let change = i128::from(end.cost(used, *reserved)) - i128::from(*reserved);
        if change != 0 {
            world.tally.spent(used.limit, change, now);
        }
    }
    Ok(event)
}

/// Ends a call at its upstream, if that holds it.
fn end_upstream(world: &mut World<'_>, place: u32, held: Option<Held>) {
    let (now, service, spec) = (world.now(), world.service(place), world.spec(place));
    let ended = held.map(|held| {
        let cost = output::counted_in_the_end(&world.calls[place], spec, &held);
        (held, cost)
    });
    world.wire.end(service, ended, now);
}
