//! How often each ingredient of a world was met: a world in which nothing happens shows nothing.

use super::ingredients::Ingredient;
use super::records::{Arrival, Call, Seen};
use super::world::World;

/// Returns how often an ingredient was met: by arrivals, by calls, or by what happened to the sidecar.
pub fn met(ingredient: Ingredient, world: &World, seen: &Seen) -> usize {
    let arrivals = |of: &dyn Fn(&Arrival) -> bool| seen.arrivals.iter().filter(|arrival| of(arrival)).count();
    let reacted = |names: &[&str]| {
        arrivals(&|arrival: &Arrival| names.iter().any(|name| arrival.fate.starts_with(name)))
    };
    let told = |names: &[&str]| {
        arrivals(&|arrival: &Arrival| {
            names.iter().any(|name| arrival.fate.contains(&format!("tells {name}")))
        })
    };
    let calls = |of: &dyn Fn(&Call) -> bool| seen.calls.iter().filter(|call| of(call)).count();
    let called = |service: &str| calls(&|call: &Call| world.services[call.meant.service].name == service);
    let permits = |service: &str| arrivals(&|arrival| world.services[arrival.service].name == service);
    let by = |client: &str| calls(&|call: &Call| call.client == client);
    let arrived_by = |client: &str| {
        arrivals(&|arrival: &Arrival| {
            let call = arrival.call.and_then(|call| seen.calls.get(call));
            call.is_some_and(|call| call.client == client)
        })
    };
    match ingredient {
        Ingredient::HintsOfNothing => reacted(&["HintOfNothing"]),
        Ingredient::HintsOfYears => reacted(&["HintOfYears"]),
        Ingredient::OtherWindow => told(&["OtherWindow"]),
        Ingredient::SameWindow => told(&["Truth"]),
        Ingredient::LyingHeaders => told(&["Huge", "Negative", "Garbage", "Structured", "NothingLeft"]),
        Ingredient::ServerErrors => reacted(&["Error"]),
        Ingredient::Resets => reacted(&["Reset", "CutHead", "CutBody", "Half"]),
        Ingredient::Silence => reacted(&["Silence"]),
        Ingredient::DribbledReplies => reacted(&["Dribble"]),
        Ingredient::Gzip => reacted(&["Gzip"]),
        Ingredient::HugeReplies => reacted(&["Huge"]),
        Ingredient::FewStreams => {
            arrivals(&|arrival: &Arrival| world.services[arrival.service].max_streams.is_some())
        }
        Ingredient::RefusedStreams => reacted(&["RefusedStream"]),
        Ingredient::GoAway => reacted(&["GoAway"]),
        Ingredient::MuteTls => called("mute"),
        Ingredient::Unreachable => called("closed"),
        Ingredient::HangUps => by("hang-up"),
        Ingredient::StopReading => arrived_by("stops reading"),
        Ingredient::DribbledBodies => by("dribbled body"),
        Ingredient::SilentBodies => by("silent body"),
        Ingredient::OddBodies => arrived_by("odd body"),
        Ingredient::LargeBodies => arrived_by("large body"),
        Ingredient::PathAliases => arrived_by("alias"),
        Ingredient::IdleConnections => seen.idle,
        Ingredient::Permits => permits("git"),
        Ingredient::PermitAbuse => permits("abused"),
        Ingredient::Reloads => seen.taken_out.len(),
        Ingredient::Pauses => seen.pauses.len(),
        Ingredient::Kills => seen.kills.len(),
        Ingredient::StateRemoved => seen.removals,
    }
}
