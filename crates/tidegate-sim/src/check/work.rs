//! No call waits that could go.

use tidegate_core::{Engine, Nanos};

use super::calls::Calls;
use super::desks::Desks;
use super::happening::{Broken, Moment};
use super::holds::Holds;
use super::roll::Waiting;
use crate::report::Invariant;
use crate::routes::Routes;

/// Waiting lanes looked at after every event, besides those that it touched.
const LOOKS: usize = 3;

/// Checks that a call waits because a limit, a window or a breaker has no room for it, or because one that has none
/// shares a limit on a rate or the pace after a window with it and would have to wait longer.
pub(super) fn check(
    calls: &mut Calls,
    desks: &Desks,
    holds: &mut Holds,
    engine: &mut Engine,
    touched: &[u32],
    moment: &Moment<'_>,
) -> Result<(), Broken> {
    let Moment { routes, now, .. } = *moment;
    let mut looks: Vec<Waiting> =
        touched.iter().filter_map(|kind| calls.roll.oldest_in_lane(routes.kind(*kind))).collect();
    looks.extend((0..LOOKS).filter_map(|_| calls.roll.next_lane()));
    for waiting in looks {
        let Some(ticket) = calls[waiting.call].ticket else { continue };
        if !engine.has_room(ticket, now) {
            check_window(calls, holds, engine, waiting, now)?;
            continue;
        }
        let others = calls.roll.firsts_of_lanes();
        let excused = others.into_iter().any(|other| {
            let shares = other.call != waiting.call
                && (share_a_rate(calls, waiting.call, other.call, routes)
                    || holds.share_a_pace(&calls[waiting.call], &calls[other.call], routes, now)
                    || share_a_reserve(calls, desks, waiting.call, other.call, routes));
            let ticket = calls[other.call].ticket;
            shares && ticket.is_some_and(|ticket| !engine.has_room(ticket, now))
        });
        if !excused {
            let message = format!("call {} fits and waits behind nobody", waiting.no);
            return Err((Invariant::WorkConserving, message));
        }
    }
    Ok(())
}

/// Checks that a call that waits for a window waits for one that is shut.
fn check_window(
    calls: &Calls,
    holds: &Holds,
    engine: &mut Engine,
    waiting: Waiting,
    now: Nanos,
) -> Result<(), Broken> {
    let ticket = calls[waiting.call].ticket;
    let Some(ticket) = ticket.filter(|_| !holds.windows.is_empty()) else { return Ok(()) };
    let Some(place) = engine.place(ticket, now) else { return Ok(()) };
    match place.limit.strip_suffix("/backoff") {
        Some(key) if !holds.windows.may_hold(key, now) => {
            let message = format!("call {} waits for the window of `{key}`, which is over", waiting.no);
            Err((Invariant::WorkConserving, message))
        }
        _ => Ok(()),
    }
}

/// Returns whether two calls both take from a limit on a rate.
fn share_a_rate(calls: &Calls, a: u32, b: u32, routes: &Routes) -> bool {
    let (a, b) = (&calls[a], &calls[b]);
    let (kind, other) = (routes.kind(a.kind), routes.kind(b.kind));
    kind.limits.iter().zip(&a.costs).any(|(used, cost)| {
        let here = other.limits.iter().zip(&b.costs).find(|(known, _)| known.limit == used.limit);
        !used.in_flight && *cost > 0 && here.is_some_and(|(_, cost)| *cost > 0)
    })
}

/// Returns whether a call would take what is reserved for others where another passes too. Only age lets it, and what
/// pays for that may be kept for one that was there before.
fn share_a_reserve(calls: &Calls, desks: &Desks, a: u32, b: u32, routes: &Routes) -> bool {
    let (a, b) = (&calls[a], &calls[b]);
    let (kind, other) = (routes.kind(a.kind), routes.kind(b.kind));
    kind.limits.iter().zip(&a.costs).any(|(used, cost)| {
        let withheld = used.withheld[kind.class as usize];
        withheld > 0
            && desks[used.limit].book.lacks_slots(*cost, withheld)
            && other.limits.iter().any(|known| known.limit == used.limit)
    })
}
