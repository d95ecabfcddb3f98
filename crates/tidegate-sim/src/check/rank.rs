//! The order of calls: ranks, bookings, age and shares, at every grant.

use tidegate_core::engine::FirstInLine;
use tidegate_core::{Engine, Priority, Ticket};

use super::aging::Passes;
use super::calls::Calls;
use super::desks::Desks;
use super::happening::{Broken, Moment};
use super::holds::Holds;
use super::roll::Waiting;
use crate::report::Invariant;
use crate::routes::Kind;

/// Checks that no call went past one of the same route that ranks before it and costs no more. Each is struck off the
/// roll in its turn; when the newcomer went among them is not known, so it comes last.
pub(super) fn check(
    calls: &mut Calls,
    desks: &mut Desks,
    holds: &mut Holds,
    moment: &Moment<'_>,
) -> Result<(), Broken> {
    let Moment { event, routes, now } = *moment;
    let (own, others): (Vec<u32>, Vec<u32>) =
        event.granted.iter().partition(|call| Some(**call) == event.newcomer);
    for call in others.into_iter().chain(own) {
        calls.leaves(call, routes, desks);
        let record = &calls[call];
        let kind = routes.kind(record.kind);
        if kind.observed {
            continue;
        }
        if let Some(older) = calls.roll.oldest_in_lane(kind)
            && older.no < record.no
            // Those whose time had come went before it came back.
            && Some(older.call) != event.newcomer
            && !calls.is_out_of_time(older.call, now)
            && calls.costs_no_more(older.call, call)
            && !holds.hold_besides(&calls[older.call], &calls[call], routes, now)
        {
            let record = &calls[call];
            let (its, others) = (&record.costs, &calls[older.call].costs);
            let message = format!(
                "call {}, which takes {its:?}, went past {}, which takes {others:?} and came before it",
                record.no, older.no
            );
            return Err((Invariant::Rank, message));
        }
        let (mut by_age, mut in_front) = (false, false);
        for class in Priority::ALL.into_iter().filter(|class| *class > kind.class) {
            let Some(higher) = calls.roll.oldest_in_class(kind.group, class) else { continue };
            in_front = true;
            if Some(higher.call) == event.newcomer
                || calls.is_out_of_time(higher.call, now)
                || !calls.costs_no_more(higher.call, call)
            {
                continue;
            }
            // A newcomer may go at once if it moves no booking, and only the first in line has one.
            if Some(call) == event.newcomer && !was_first(calls, desks, higher.call, kind) {
                continue;
            }
            // A class is as old as its first in turn, which may be a fresh one.
            if holds.hold_besides(&calls[higher.call], &calls[call], routes, now) {
                continue;
            }
            if calls.level(call, routes, now) <= class as u64 {
                let record = &calls[call];
                let message = format!("call {} went past {} of a higher priority", record.no, higher.no);
                return Err((Invariant::Rank, message));
            }
            by_age = true;
        }
        let passes = match (by_age, in_front) {
            (true, _) => Passes::ByAge,
            (false, true) => Passes::Somehow,
            (false, false) => Passes::Nobody,
        };
        check_age(calls, desks, call, passes, moment)?;
    }
    Ok(())
}

/// Returns whether a call was the first in line before this event.
fn was_first(calls: &Calls, desks: &Desks, call: u32, kind: &Kind) -> bool {
    let ticket = calls[call].ticket;
    kind.limits.iter().any(|used| {
        let first = desks[used.limit].first.map(|(ticket, _)| ticket);
        first.is_some() && first == ticket
    })
}

/// Checks, where one limit is all there is, that age and loops get their shares.
fn check_age(
    calls: &Calls,
    desks: &mut Desks,
    call: u32,
    passes: Passes,
    moment: &Moment<'_>,
) -> Result<(), Broken> {
    let Moment { event, routes, now } = *moment;
    let record = &calls[call];
    let (no, cost, kind) = (record.no, record.costs.first().copied().unwrap_or(0), routes.kind(record.kind));
    let Some(desk) = desks.own(kind) else { return Ok(()) };
    let level = calls.level(call, routes, now);
    // A lower priority whose turn it should have been, whichever of its loops is first.
    // What is kept for the higher one is not its turn, as long as that one need not wait for it.
    let kept = |class: Priority| kind.limits.iter().any(|used| used.withheld[class as usize] > 0);
    let lower = Priority::ALL.into_iter().filter(|class| *class < kind.class && !kept(*class));
    let denied = lower.into_iter().any(|class| {
        calls.roll.youngest_first(kind.group, class).is_some_and(|old| {
            let costs = calls[old.call].costs.first().copied().unwrap_or(0);
            costs <= cost && calls.level(old.call, routes, now) > level
        })
    });
    let aging = &mut desks[desk].aging;
    aging.went(cost, passes, denied, kind.aging_share).map_err(|wrong| {
        let name = routes.name(desk);
        (Invariant::NoStarvation, format!("`{name}`, call {no}: {wrong}"))
    })?;
    if event.newcomer != Some(call) {
        let went = desks[desk].shares.went(kind.class, kind.loop_, cost);
        went.map_err(|wrong| {
            let name = routes.name(desk);
            (Invariant::NoStarvation, format!("`{name}`, call {no}: {wrong}"))
        })?;
    }
    Ok(())
}

/// Checks that no lower rank moves the booking of the first in line. Told where the first one's only limit is the one
/// it is first at.
pub(super) fn check_bookings(
    calls: &Calls,
    desks: &mut Desks,
    holds: &Holds,
    engine: &mut Engine,
    touched: &[u32],
    moment: &Moment<'_>,
) -> Result<(), Broken> {
    let Moment { event, routes, now } = *moment;
    let mut line: Vec<FirstInLine> = Vec::new();
    for &kind in touched {
        let kind = routes.kind(kind);
        line.clear();
        engine.first_in_line(&kind.call, now, &mut line);
        for (place, used) in kind.limits.iter().enumerate() {
            let first = line.iter().find(|first| first.place == place);
            let first = first.map(|first| (first.ticket, first.booked));
            let before = std::mem::replace(&mut desks[used.limit].first, first);
            let (Some((ticket, was)), Some((still, booked))) = (before, first) else { continue };
            let moved = ticket == still && booked > was.max(now) && !event.unsettled;
            if moved && only_lower_ranks_went(calls, holds, ticket, moment) {
                let no = calls.waiting(ticket).map_or(0, |call| calls[call].no);
                let message = format!(
                    "call {no}, the first in line at `{}`, was booked for {was:?} and now is for {booked:?}",
                    routes.name(used.limit)
                );
                return Err((Invariant::Rank, message));
            }
        }
    }
    Ok(())
}

/// Returns whether all grants of an event were to calls that rank below the one with ticket `first`.
fn only_lower_ranks_went(calls: &Calls, holds: &Holds, first: Ticket, moment: &Moment<'_>) -> bool {
    let Moment { event, routes, now } = *moment;
    let Some(waiting) = calls.waiting(first) else { return false };
    let first = &calls[waiting];
    let kind = routes.kind(first.kind);
    // While one of a lower priority is old enough to pass it, it need not have been first all along.
    let level = calls.level(waiting, routes, now);
    let passed = |old: Waiting| calls.level(old.call, routes, now) > level;
    // And what is kept from it depends on which other calls wait.
    let kept = kind.limits.iter().any(|used| used.withheld[kind.class as usize] > 0);
    // Nor is a probe of a breaker kept for any call.
    let kept = kept || holds.breakers.holds(kind);
    if kept || kind.limits.len() != 1 || calls.roll.any_oldest_below(kind.class, passed) {
        return false;
    }
    !event.granted.is_empty()
        && event.granted.iter().all(|call| {
            let record = &calls[*call];
            let lower =
                routes.kind(record.kind).class < kind.class && calls.level(*call, routes, now) <= level;
            let behind = record.kind == first.kind && record.no > first.no;
            lower || behind
        })
}
