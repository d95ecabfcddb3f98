//! What goes wrong on our side: the process dies, the clock jumps, limits change, lenders are slow.

use std::time::Duration;

use tidegate_core::config::RateLimit;
use tidegate_core::engine::Terms;
use tidegate_core::limits::allowance::Loan;
use tidegate_core::{Algorithm, Nanos};

use super::calls::Stage;
use super::decisions::{collect, dispatch_due};
use super::over::{self, worker_goes_on};
use super::plan::Event;
use super::state::{Stop, World};
use super::story::Line;
use super::tally::{Fate, dimension_in};
use super::trouble::Trouble;
use crate::check::Happening;
use crate::scenario::NewLimit;

/// A lender that failed is asked again after this.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Stops the process: whatever waits or runs is lost to it.
pub(super) fn crash(world: &mut World<'_>, number: usize) -> Result<(), Stop> {
    if !world.process.stop() {
        return Ok(());
    }
    let crash = world.scenario.faults.crashes[number];
    let now = world.now();
    world.note(Line::Crashed);
    world.trouble = Trouble::default();
    (0..world.services.len()).for_each(|service| world.tally.backs_off_until(service, now));
    world.calls.forget_waiting();
    for place in world.calls.places() {
        let service = world.service(place);
        let state = &mut world.calls[place];
        let (source, worker) = (state.source, state.worker);
        let orphan = match std::mem::replace(&mut state.stage, Stage::Over) {
            Stage::Over => continue,
            Stage::Orphan(held) => {
                state.stage = Stage::Orphan(held);
                continue;
            }
            Stage::Sent(_) => Some(Stage::Orphan(None)),
            Stage::Answered(_, reply) => Some(Stage::Orphan(reply.held())),
            Stage::Waiting(_) => {
                world.tally.waits(service, -1, now);
                None
            }
            Stage::Resting => None,
        };
        over::count(world, place, Fate::Crashed)?;
        worker_goes_on(world, source, worker, crash.down);
        match orphan {
            Some(stage) => world.calls[place].stage = stage,
            None => world.calls.vacate(place),
        }
    }
    let (from, to) = (now.since(Nanos::ZERO), now.after(crash.down).since(Nanos::ZERO));
    world.tally.down.push((from, to.min(world.scenario.duration)));
    world.foresee(now.after(crash.down), Event::Restart);
    Ok(())
}

/// Starts the process again.
pub(super) fn restart(world: &mut World<'_>) -> Result<(), Stop> {
    let now = world.now();
    world.note(Line::Restarted);
    world.tally.supply_until(&world.routes, now);
    world.start_process().map_err(Stop::Wrong)?;
    world.tally.limits_are(&world.routes, now);
    Ok(())
}

/// Sets the wall clock.
pub(super) fn step_clock(world: &mut World<'_>, number: usize) -> Result<(), Stop> {
    world.process.step_clock(world.scenario.faults.clock_steps[number].by_ms);
    dispatch_due(world)?;
    world.note(Line::ClockStepped);
    let (now, unix) = (world.now(), world.process.unix(&world.plan));
    if let Some(engine) = &mut world.process.engine {
        engine.set_wall_clock(now, unix);
    }
    collect(world, Happening { unsettled: true, current: true, ..Happening::default() })
}

/// Changes one of our limits.
pub(super) fn change(world: &mut World<'_>, number: usize) -> Result<(), Stop> {
    let change = &world.scenario.faults.changes[number];
    dispatch_due(world)?;
    let now = world.now();
    let Some(engine) = &mut world.process.engine else { return Ok(()) };
    let changed = match change.to {
        NewLimit::InFlight(bound) => engine.set_in_flight(&change.limit, bound, now),
        NewLimit::Rate(rate) => {
            let known = world.routes.find(&change.limit);
            let algorithm = known.and_then(|limit| match world.routes.terms(limit) {
                Terms::TokenBucket { .. } => Some(Algorithm::TokenBucket),
                Terms::FixedWindow { .. } => Some(Algorithm::FixedWindow),
                _ => None,
            });
            let plain = RateLimit::plain(dimension_in(&change.limit), rate);
            let limit = RateLimit { algorithm, ..plain };
            engine.set_rate(&change.limit, &limit, now)
        }
    };
    changed.map_err(Stop::Wrong)?;
    world.limits_changed();
    world.note(Line::Changed);
    collect(world, Happening { unsettled: true, current: true, ..Happening::default() })
}

/// Opens or ends a backoff window by hand.
pub(super) fn window_by_hand(world: &mut World<'_>, number: usize) -> Result<(), Stop> {
    let window = &world.scenario.faults.windows[number];
    dispatch_due(world)?;
    let now = world.now();
    if let Some(judge) = &mut world.process.judge {
        judge.window_by_hand(&window.key, window.lasts, now);
    }
    let Some(engine) = &mut world.process.engine else { return Ok(()) };
    match window.lasts {
        Some(lasts) => engine.set_backoff(&window.key, lasts, now).map_err(Stop::Wrong)?,
        None => drop(engine.clear_backoff(&window.key, now)),
    }
    world.note(Line::Window);
    match window.lasts {
        Some(_) => world.note_trouble(),
        None => world.trouble.window_ended(&window.key, &world.services, &mut world.tally, now),
    }
    collect(world, Happening { unsettled: true, current: true, ..Happening::default() })
}

/// Lends units to a limit.
pub(super) fn lend(world: &mut World<'_>, lender: usize, units: u64) -> Result<(), Stop> {
    let (spec, now) = (&world.scenario.faults.lenders[lender], world.now());
    world.note(Line::Lent { units });
    if let Some(engine) = &mut world.process.engine {
        let loan = Loan { units, from: now, until: now.after(spec.usable) };
        engine.lend(&spec.limit, loan, now);
    }
    collect(world, Happening { unsettled: true, ..Happening::default() })
}

/// Tells a limit that its lender failed.
pub(super) fn lend_fails(world: &mut World<'_>, lender: usize) -> Result<(), Stop> {
    let (spec, now) = (&world.scenario.faults.lenders[lender], world.now());
    world.note(Line::NotLent);
    if let Some(engine) = &mut world.process.engine {
        engine.loan_failed(&spec.limit, now.after(ASK_AGAIN), now);
    }
    collect(world, Happening { unsettled: true, ..Happening::default() })
}
