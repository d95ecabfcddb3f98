//! The loop over events, from the first that is known to the end of the run.

use tidegate_core::{Engine, Nanos};

use super::decisions::{catch_up, collect};
use super::plan::{Event, Worker};
use super::source::Draft;
use super::state::{Stop, World};
use super::story::Line;
use super::{attempts, faults, outcome, replies};
use crate::check::Happening;
use crate::report::Invariant;
use crate::scenario::Arrivals;

/// Foresees what is known from the beginning.
pub(super) fn begin(world: &mut World<'_>) {
    let scenario = world.scenario;
    for (number, workload) in scenario.workloads.iter().enumerate() {
        let Some(first) = world.callers.sources[number].first(workload) else { continue };
        match workload.arrivals {
            Arrivals::Closed { workers, .. } => {
                for loop_ in 0..workload.loops.max(1) {
                    for worker in 0..workers {
                        let worker = Worker { loop_, number: worker, made: 0 };
                        world.foresee(first, Event::Work(number, worker));
                    }
                }
            }
            _ => world.foresee(first, Event::Arrive(number)),
        }
    }
    meet_limits(world);
    let faults = &scenario.faults;
    for (number, crash) in faults.crashes.iter().enumerate() {
        world.foresee(Nanos::ZERO.after(crash.at), Event::Crash(number));
    }
    for (number, step) in faults.clock_steps.iter().enumerate() {
        world.foresee(Nanos::ZERO.after(step.at), Event::StepClock(number));
    }
    for (number, change) in faults.changes.iter().enumerate() {
        world.foresee(Nanos::ZERO.after(change.at), Event::Change(number));
    }
    for (number, window) in faults.windows.iter().enumerate() {
        world.foresee(Nanos::ZERO.after(window.at), Event::Window(number));
    }
}

/// Finds the limits that calls will pass, so that they are counted from the beginning.
fn meet_limits(world: &mut World<'_>) {
    let (scenario, now) = (world.scenario, world.now());
    for workload in &scenario.workloads {
        let models = workload.models.iter().map(|(model, _)| Some(model.clone()));
        for model in models.chain([None]) {
            let call = Draft { model, ..Draft::plain(workload) }.call(workload);
            if let Some(engine) = &mut world.process.engine {
                world.routes.meet(&call, engine, now);
            }
        }
    }
    world.tally.limits_are(&world.routes, now);
}

/// Lets events happen until the time is up.
pub(super) fn play(world: &mut World<'_>) -> Result<(), Stop> {
    let end = Nanos::ZERO.after(world.scenario.duration);
    loop {
        if world.options.until_event.is_some_and(|last| world.plan.events() >= last) {
            return Ok(());
        }
        let wake = world.process.fires_at(world.scenario.faults.timer_late.as_ref());
        let next = world.plan.next();
        let wakes = wake.is_some_and(|wake| next.is_none_or(|next| wake <= next));
        let Some(at) = (if wakes { wake } else { next }).filter(|at| *at < end) else { break };
        world.plan.begin_event(at);
        if wakes {
            wake_engine(world)?;
        } else if let Some(event) = world.plan.pop() {
            happen(world, event)?;
        }
        world.process.add_to(&mut world.story.digest, &world.plan);
    }
    world.plan.finish(end);
    outcome::end(world)
}

/// Wakes the engine, whose timer has fired.
fn wake_engine(world: &mut World<'_>) -> Result<(), Stop> {
    let now = world.now();
    world.process.disarm();
    world.note(Line::Woke);
    if let Some(engine) = &mut world.process.engine {
        engine.advance(now);
    }
    collect(world, Happening { current: true, ..Happening::default() })?;
    match world.process.engine.as_ref().and_then(Engine::next_wake) {
        Some(again) if again <= now => {
            let message = "the engine is woken, and wants to be woken again at once".to_owned();
            Err(world.broken(Invariant::WorkConserving, message))
        }
        _ => Ok(()),
    }
}

fn happen(world: &mut World<'_>, event: Event) -> Result<(), Stop> {
    if matches!(event, Event::Arrive(_) | Event::Work(..) | Event::Again(_)) {
        catch_up(world)?;
    }
    match event {
        Event::Arrive(source) => {
            attempts::make_call(world, source, None)?;
            let (workload, now) = (&world.scenario.workloads[source], world.now());
            if let Some(next) = world.callers.sources[source].next(workload, now) {
                world.foresee(next, Event::Arrive(source));
            }
            Ok(())
        }
        Event::Work(source, worker) => attempts::make_call(world, source, Some(worker)),
        Event::Reach(call) => replies::reach(world, call),
        Event::Reply(call) => replies::reply(world, call),
        Event::Again(call) => attempts::again(world, call),
        Event::GiveUp(call) => attempts::give_up(world, call),
        Event::Crash(number) => faults::crash(world, number),
        Event::Restart => faults::restart(world),
        Event::StepClock(number) => faults::step_clock(world, number),
        Event::Change(number) => faults::change(world, number),
        Event::Lend(lender, units) => faults::lend(world, lender, units),
        Event::LendFails(lender) => faults::lend_fails(world, lender),
        Event::Window(number) => faults::window_by_hand(world, number),
    }
}
