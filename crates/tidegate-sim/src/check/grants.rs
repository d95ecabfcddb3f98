//! What grants take and give back: every limit's definition holds over its book, and no call goes that has to stay
//! away.

use tidegate_core::Nanos;
use tidegate_core::engine::Fate;

use super::calls::{Calls, Record};
use super::desks::Desks;
use super::end::End;
use super::happening::{Broken, Moment};
use super::holds::Holds;
use crate::report::Invariant;
use crate::routes::Routes;

/// Writes the grants of an event into the books, and checks them.
pub(super) fn note(
    calls: &mut Calls,
    desks: &mut Desks,
    holds: &mut Holds,
    moment: &Moment<'_>,
) -> Result<(), Broken> {
    let Moment { event, routes, now } = *moment;
    if event.granted.is_empty() {
        return Ok(());
    }
    for &call in &event.granted {
        holds.goes(&mut calls[call], routes, now)?;
    }
    check_budgets(calls, desks, moment)?;
    // Age may let one pass a call of a higher class that waits, and then what is kept for that.
    let highest = calls.roll.highest().max(event.newcomer.map(|call| calls.class(call, routes)));
    let mut granted = event.granted.clone();
    // Whatever their order was, the lower ones had to leave alone what is kept for the higher.
    granted.sort_by_key(|call| calls.class(*call, routes));
    for &call in &granted {
        let late = calls.is_granted_late(call, now);
        let record = &mut calls[call];
        if std::mem::replace(&mut record.in_flight, true) {
            return Err((Invariant::Conservation, format!("call {} was let go twice", record.no)));
        }
        if late {
            return Err((Invariant::NoStarvation, format!("call {} went after its timeout", record.no)));
        }
        record.granted = now;
        let kind = routes.kind(record.kind);
        let class = highest.map_or(kind.class, |highest| highest.max(kind.class));
        for (at, used) in kind.limits.iter().enumerate() {
            let book = &mut desks[used.limit].book;
            let cost = record.costs[at];
            record.marks.push(book.take(cost, now));
            if kind.observed {
                continue;
            }
            book.check(cost, used.withheld[class as usize]).map_err(|wrong| {
                let (no, name) = (record.no, routes.name(used.limit));
                (Invariant::NoOvershoot, format!("call {no} overshoots `{name}`: {wrong}"))
            })?;
        }
        take_throttled(record, desks, routes, now)?;
    }
    Ok(())
}

/// Gives back what a call holds. What it cost counts where it says so; without a reservation that is kept, what is not
/// used returns. Returns whether bookings may move: more was spent than reserved, or calls that wait may be held for
/// longer.
pub(super) fn give_back(
    record: &mut Record,
    desks: &mut Desks,
    end: &End<'_>,
    routes: &Routes,
    now: Nanos,
) -> Result<bool, Broken> {
    if !std::mem::take(&mut record.in_flight) {
        return Err((Invariant::Conservation, format!("call {} ends and was not in flight", record.no)));
    }
    let mut debt = false;
    for (at, used) in routes.kind(record.kind).limits.iter().enumerate() {
        let (reserved, mark) = (record.costs[at], record.marks[at]);
        let desk = &mut desks[used.limit];
        let actual = end.cost(used, reserved);
        let back = reserved.saturating_sub(actual);
        let ended = desk.book.end(mark, reserved, back);
        ended
            .map_err(|wrong| (Invariant::Conservation, format!("`{}`: {wrong}", routes.name(used.limit))))?;
        if end.keeps_request(used) {
            // A later reply may free it.
            desk.others.insert(record.granted, mark);
        }
        if actual > reserved {
            desk.book.owe(actual - reserved, now);
            debt = true;
        }
        if actual != reserved {
            desk.shares.settled_otherwise();
        }
    }
    give_back_throttled(record, desks, routes)?;
    Ok(debt || end.ended.fate != Fate::Answered)
}

/// Takes a slot of every limit on throttled calls, if the call went throttled.
fn take_throttled(record: &Record, desks: &mut Desks, routes: &Routes, now: Nanos) -> Result<(), Broken> {
    let kind = routes.kind(record.kind);
    if !record.throttled {
        return Ok(());
    }
    for &limit in &kind.throttles {
        let book = &mut desks[limit].book;
        book.take(1, now);
        let checked = if kind.observed { Ok(()) } else { book.check(1, 0) };
        checked.map_err(|wrong| {
            let message = format!("call {} overshoots `{}`: {wrong}", record.no, routes.name(limit));
            (Invariant::NoOvershoot, message)
        })?;
        desks.note_throttle(limit);
    }
    Ok(())
}

/// Gives back the slots of a call that went throttled, though others may no longer go so.
fn give_back_throttled(record: &mut Record, desks: &mut Desks, routes: &Routes) -> Result<(), Broken> {
    if !std::mem::take(&mut record.throttled) {
        return Ok(());
    }
    for &limit in &routes.kind(record.kind).throttles {
        let ended = desks[limit].book.give_back(1);
        ended.map_err(|wrong| (Invariant::Conservation, format!("`{}`: {wrong}", routes.name(limit))))?;
        desks.note_throttle(limit);
    }
    Ok(())
}

/// Checks that every byte budget had room before each call, whatever their order.
fn check_budgets(calls: &Calls, desks: &Desks, moment: &Moment<'_>) -> Result<(), Broken> {
    let routes = moment.routes;
    let mut batches: Vec<(u32, u64, u64)> = Vec::new();
    for &call in &moment.event.granted {
        let record = &calls[call];
        let kind = routes.kind(record.kind);
        for (used, cost) in kind.limits.iter().zip(&record.costs) {
            if used.in_flight && used.dimension.is_some() && !kind.observed {
                match batches.iter_mut().find(|batch| batch.0 == used.limit) {
                    Some(batch) => (batch.1, batch.2) = (batch.1 + cost, batch.2.max(*cost)),
                    None => batches.push((used.limit, *cost, *cost)),
                }
            }
        }
    }
    for (limit, sum, largest) in batches {
        let checked = desks[limit].book.check_budget(sum, largest);
        checked.map_err(|wrong| (Invariant::NoOvershoot, format!("`{}`: {wrong}", routes.name(limit))))?;
    }
    Ok(())
}
