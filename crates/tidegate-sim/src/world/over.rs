//! The end of a call: it is counted and leaves its place, and its worker goes on.

use std::time::Duration;

use tidegate_core::{Nanos, Reason};

use super::plan::{Event, Worker};
use super::state::{Stop, World};
use super::tally::Fate;
use crate::scenario::Arrivals;

/// A worker whose call was refused without a word about when to come back goes on after this.
const PAUSE: Duration = Duration::from_secs(1);

/// A worker whose call was refused goes on after this at the earliest.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// A worker makes no two calls closer together than this, in nanoseconds.
const SHORTEST_ROUND: u64 = 1_000;

/// Ends a call that the gate refused.
pub(super) fn refused(
    world: &mut World<'_>,
    place: u32,
    reason: &Reason,
    wait: Option<Duration>,
) -> Result<(), Stop> {
    // Whether a refusal came at arrival or after a wait decides what it is called.
    let fate = match reason {
        Reason::Timeout => Fate::TimedOut,
        Reason::QueueFull => Fate::Shed,
        _ => Fate::Refused,
    };
    over_after(world, place, fate, wait.unwrap_or(PAUSE).max(SHORTEST_PAUSE))
}

/// Ends a call.
pub(super) fn over(world: &mut World<'_>, place: u32, fate: Fate) -> Result<(), Stop> {
    let pause = if fate == Fate::Refused { PAUSE } else { Duration::ZERO };
    over_after(world, place, fate, pause)
}

fn over_after(world: &mut World<'_>, place: u32, fate: Fate, pause: Duration) -> Result<(), Stop> {
    let state = &world.calls[place];
    let (source, worker) = (state.source, state.worker);
    count(world, place, fate)?;
    world.calls.vacate(place);
    worker_goes_on(world, source, worker, pause);
    Ok(())
}

/// Counts what became of a call, which happens once.
pub(super) fn count(world: &mut World<'_>, place: u32, fate: Fate) -> Result<(), Stop> {
    let state = &world.calls[place];
    world.tally.count(state.source, world.routes.kind(state.kind).class, fate);
    let kept = world.ledger.over(state.no);
    world.keeps(kept)
}

/// Foresees the next call of a worker, if there is a worker and it makes one.
pub(super) fn worker_goes_on(world: &mut World<'_>, source: usize, worker: Option<Worker>, pause: Duration) {
    let (Some(mut worker), Arrivals::Closed { think, calls, .. }) =
        (worker, &world.scenario.workloads[source].arrivals)
    else {
        return;
    };
    worker.made += 1;
    if calls.is_some_and(|most| worker.made >= most) {
        return;
    }
    let now = world.now();
    if let Some(next) = world.callers.sources[source].after_thinking(think, now.after(pause)) {
        // Where neither thinking nor the call takes any time, time must pass all the same.
        let next = next.max(Nanos(now.0 + SHORTEST_ROUND));
        world.foresee(next, Event::Work(source, worker));
    }
}
