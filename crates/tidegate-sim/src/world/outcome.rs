//! The end of a run, and what it came to.

use std::time::Duration;

use tidegate_core::{Nanos, Verdict};

use super::calls::Stage;
use super::over;
use super::state::{Stop, World};
use super::tally::Fate;
use crate::report::{Report, Violation};

/// After so long no limit remembers anything.
const LONG_AFTER: Duration = Duration::from_secs(3600 * 24 * 365 * 20);

/// Gives up what runs or waits, and checks that all is whole again.
pub(super) fn end(world: &mut World<'_>) -> Result<(), Stop> {
    give_up_everything(world)?;
    let kept = world.process.check_end(world.now().after(LONG_AFTER));
    world.keeps(kept)
}

/// Withdraws whatever waits, and finishes whatever runs.
fn give_up_everything(world: &mut World<'_>) -> Result<(), Stop> {
    let now = world.now();
    for place in world.calls.places() {
        let stage = std::mem::replace(&mut world.calls[place].stage, Stage::Over);
        match (stage, &mut world.process.engine) {
            (Stage::Over | Stage::Orphan(_), _) => continue,
            (Stage::Waiting(ticket), Some(engine)) => drop(engine.withdraw(ticket, now)),
            (Stage::Sent(grant) | Stage::Answered(grant, _), Some(engine)) => {
                engine.finish(grant, None, now);
            }
            _ => {}
        }
        // Those that a freed slot lets go at the last moment go nowhere.
        if let Some(engine) = &mut world.process.engine {
            let verdicts: Vec<_> = engine.verdicts().collect();
            for (_, verdict) in verdicts {
                if let Verdict::Granted(grant) = verdict {
                    engine.cancel(grant, now);
                }
            }
        }
        over::count(world, place, Fate::Unfinished)?;
    }
    world.keeps(world.ledger.close())
}

/// Returns what a run came to.
pub(super) fn report(mut world: World<'_>, seed: u64, violation: Option<Violation>) -> Report {
    let scenario = world.scenario;
    let names: Vec<String> = scenario.workloads.iter().map(|load| load.name.clone()).collect();
    let story = world.tell();
    let workloads = world.tally.workloads(names.iter().cloned());
    let priorities = world.tally.priorities();
    let loops = world.tally.loops(&world.routes, &names, world.callers.loop_names());
    let (loop_count, peak_waiting) = (world.tally.loop_count(), world.tally.peak);
    let end = Nanos::ZERO.after(scenario.duration);
    for (service, name) in world.services.iter().enumerate() {
        let Some(spec) = scenario.upstreams.get(name) else { continue };
        let (warm, phases) = world.wire.parts(service, spec, end);
        let counts = world.tally.service(service);
        counts.upstream = warm.map(|part| part.upstream).unwrap_or_default();
        counts.phases = phases;
    }
    let now = world.now();
    let (services, series) = world.tally.finish(&world.routes, now.min(end));
    Report {
        seed,
        duration: scenario.duration,
        events: world.plan.events(),
        peak_waiting,
        services,
        priorities,
        workloads,
        loops,
        loop_count,
        series,
        violation,
        digest: world.story.digest.value(),
        story,
    }
}
