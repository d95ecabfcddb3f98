//! Judges a world by what its upstreams and clients saw.

mod calls;
mod limits;
mod rest;

use super::delays::Delays;
use super::limits::Written;
use super::records::{Arrival, CallEnd, Seen};
use super::world::{Kind, World};

pub use rest::{Rest, held, memory};

/// Everything that is wrong.
pub fn faults(world: &World, seen: &Seen) -> Vec<String> {
    let delays = Delays::of(seen);
    let mut faults = seen.faults.clone();
    for limit in &world.limits {
        let mut covered: Vec<&Arrival> = seen
            .arrivals
            .iter()
            .filter(|arrival| !arrival.given_back && covers(limit, arrival, seen))
            .collect();
        covered.sort_by_key(|arrival| arrival.at);
        faults.extend(limits::passed(limit, &covered, seen, &delays));
    }
    let unmarked =
        seen.arrivals.iter().filter(|arrival| arrival.call.is_none_or(|call| call >= seen.calls.len()));
    faults.extend(unmarked.map(|arrival| format!("an arrival that no client sent: {arrival:?}")));
    let wrong = |call| {
        let late = calls::unanswered(world, seen, &delays, call);
        late.or_else(|| calls::spoiled(seen, &delays, call))
    };
    let mut wrong = (0..seen.calls.len()).filter_map(wrong);
    faults.extend(wrong.by_ref().take(5));
    match wrong.count() {
        0 => {}
        more => faults.push(format!("and {more} more calls without a whole answer in time")),
    }
    faults
}

fn covers(limit: &Written, arrival: &Arrival, seen: &Seen) -> bool {
    let meant = arrival.call.and_then(|call| seen.calls.get(call)).map(|call| &call.meant);
    meant.is_some_and(|meant| limit.covers(meant))
}

/// What a world has come to, in one line.
pub fn summary(world: &World, seen: &Seen) -> String {
    let answered = |of: std::ops::Range<u16>| {
        let ends = seen.calls.iter().filter_map(|call| call.ended);
        ends.filter(|end| matches!(end, CallEnd::Answered(_, status) if of.contains(status))).count()
    };
    let permits =
        seen.arrivals.iter().filter(|arrival| world.services[arrival.service].kind == Kind::Permits);
    format!(
        "{} calls, {} arrivals and {} permits; {} answered 2xx, {} 4xx, {} 5xx; {} pauses, {} kills; longest probe {:?}",
        seen.calls.len(),
        seen.arrivals.len() - permits.clone().count(),
        permits.count(),
        answered(200..300),
        answered(400..500),
        answered(500..600),
        seen.pauses.len(),
        seen.kills.len(),
        Delays::of(seen).longest(),
    )
}
