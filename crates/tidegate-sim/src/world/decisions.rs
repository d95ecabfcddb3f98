//! What the engine decided: calls go or are refused, lenders are asked, lessons are followed, and all of it is judged.

use tidegate_core::{Grant, Nanos, Verdict};

use super::calls::Stage;
use super::plan::Event;
use super::state::{Stop, World};
use super::story::Line;
use super::{lessons, over};
use crate::check::Happening;
use crate::report::Invariant;

/// Hands out what the engine decided, and has it judged.
pub(super) fn collect(world: &mut World<'_>, mut event: Happening) -> Result<(), Stop> {
    let now = world.now();
    let Some(engine) = &mut world.process.engine else { return Ok(()) };
    let verdicts: Vec<_> = engine.verdicts().collect();
    world.tally.waiting_now(engine.waiting());
    let faults = &world.scenario.faults;
    // What is lent runs out as time passes, and bookings with it.
    event.unsettled |= !faults.lenders.is_empty();
    event.current = faults.timer_late.is_none() || event.current;
    for (ticket, verdict) in verdicts {
        let Some(place) = world.calls.take_waiting(ticket) else {
            let message = "a verdict for a call that does not wait".to_owned();
            return Err(world.broken(Invariant::Conservation, message));
        };
        let service = world.service(place);
        world.tally.waits(service, -1, now);
        match verdict {
            Verdict::Granted(grant) => {
                event.granted.push(place);
                went(world, place, grant);
            }
            Verdict::Refused(refusal) => {
                world.note(Line::Refused { no: world.calls[place].no, why: refusal.reason.code() });
                world.story.digest.add_refusal(&refusal);
                event.refused.push((place, refusal));
            }
        }
    }
    world.ask_lenders();
    event.unsettled |= lessons::learn(world)?;
    let kept = world.process.check(&world.routes, &event, now);
    world.keeps(kept)?;
    for (place, refusal) in event.refused {
        over::refused(world, place, &refusal.reason, refusal.wait)?;
    }
    Ok(())
}

/// Sends a call that may go.
pub(super) fn went(world: &mut World<'_>, place: u32, grant: Grant) {
    world.story.digest.add_grant(grant.granted_at());
    let now = world.now();
    let state = &mut world.calls[place];
    let (no, kind, source, since) = (state.no, state.kind, state.source, state.times.since);
    state.stage = Stage::Sent(grant);
    state.times.waited += now.since(since);
    world.find_costs(place);
    world.tally.went(source, world.routes.kind(kind), &world.costs, since, now);
    world.note(Line::Went { no });
    let jitter = world.wire.jitter(world.spec(place));
    let id = world.calls.id(place);
    world.foresee(Nanos(now.0.saturating_add(jitter)), Event::Reach(id));
}

/// Lets calls go whose time has come, before something changes, however late the timer is.
pub(super) fn dispatch_due(world: &mut World<'_>) -> Result<(), Stop> {
    let now = world.now();
    let Some(engine) = &mut world.process.engine else { return Ok(()) };
    engine.advance(now);
    collect(world, Happening { current: true, ..Happening::default() })
}

/// Follows what was learned by now, before a call comes: what it reserves depends on that.
pub(super) fn catch_up(world: &mut World<'_>) -> Result<(), Stop> {
    match &world.process.engine {
        Some(engine) if engine.is_lesson_due(world.now()) => dispatch_due(world),
        _ => Ok(()),
    }
}
