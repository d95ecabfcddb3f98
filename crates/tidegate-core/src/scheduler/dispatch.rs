//! Dispatch: grants waiting calls after every change.
//!
//! A limit is looked at again when its units changed, when its queue changed, when a booking that passes through it changed, or
//! when its time has come. To look at a limit is to take the first-ranked lane. If that lane may go, it is a candidate. If
//! another limit blocks it, it moves there. If this limit blocks it, the limit is armed for its time, and a call further back
//! may go instead if it fits and moves no booking (*backfill*). Of all candidates the best goes, first-ranked lanes before
//! backfill. This repeats until no call may go.
//!
//! Each look either yields a candidate or moves a lane to a limit that blocks it in the present state, where it stays until the
//! state changes. Hence the loop ends: between two grants a lane moves at most once.

use crate::admission::resources::Resources;
use crate::admission::{settle, spend};
use crate::calls::{Arrival, Grant};
use crate::limits::queue::LaneKey;
use crate::model::priority::Priority;
use crate::model::route_limit::RouteLimit;
use crate::model::time::Nanos;
use crate::model::tree::NIL;
use crate::model::{LaneId, LimitId, Units, WaiterId};
use crate::routing::find;
use crate::routing::state::Base;
use crate::scheduler::decision::{Ticket, Verdict};
use crate::scheduler::eligibility::Role;
use crate::scheduler::lane::{Candidate, Lane};
use crate::scheduler::rank::MILLION;
use crate::scheduler::state::Scheduler;
use crate::scheduler::{batch, bind, eligibility, lanes, marks, placement, queue, rank, watch};
use std::cmp::Reverse;
use std::sync::Arc;

/// Grants every waiting call that may go.
pub(crate) fn dispatch(s: &mut Scheduler, res: &mut Resources, now: Nanos) {
    while let Some((wake, limit)) = s.timers.first() {
        if wake > now {
            break;
        }
        marks::arm(s, &mut res.base, limit, Nanos::NEVER);
        marks::mark(s, &mut res.base, limit);
    }
    let mut candidates = std::mem::take(&mut s.candidates);
    loop {
        while let Some(limit) = next_marked(s) {
            candidates.retain(|(at, _)| *at != limit);
            if let Some(candidate) = look(s, &mut res.base, limit, now) {
                candidates.push((limit, candidate));
            }
        }
        let chosen = match candidates[..] {
            [] => break,
            [(_, only)] => only,
            _ => best(s, &res.base, &candidates, now),
        };
        let alone =
            candidates.len() == 1 && chosen.in_turn && batch::waits_alone_on_route(s, &res.base, chosen.lane);
        match alone {
            true => batch::grant_batch(s, res, chosen.lane, now),
            false => grant(s, res, chosen, now),
        }
        s.dirty.extend(candidates.drain(..).map(|(limit, _)| Reverse(limit)));
    }
    s.candidates = candidates;
}

/// Grants a call at once although other calls wait.
pub(crate) fn go(s: &mut Scheduler, res: &mut Resources, arrival: &Arrival, now: Nanos) -> Grant {
    let Arrival { route_id, loop_, class, units } = *arrival;
    let route = find::route_of(&res.base, route_id, loop_);
    let grant = spend::spend(res, route_id, loop_, class, units, &route, now, now);
    for &(limit, slot) in &route {
        // Else a stream of urgent calls that fit as they come would starve an old one for ever.
        rank::earn_credit(&mut res.base, limit, route_id, units[slot as usize]);
        let units = i128::from(units[slot as usize]);
        bind::charge_flow(s, &mut res.base, limit, (loop_, route_id, class as u8), units, false, LaneId::NIL);
    }
    marks::mark_route(s, &mut res.base, &route);
    grant
}

/// The best by standing of those that need not let another go first.
pub(crate) fn best(s: &Scheduler, base: &Base, candidates: &[(LimitId, Candidate)], now: Nanos) -> Candidate {
    let rank = |(at, candidate): &&(LimitId, Candidate)| {
        (!candidate.in_turn, rank::standing(s, base, candidate.lane, now), *at)
    };
    let yields = |one: &(LimitId, Candidate)| candidates.iter().any(|other| yields(s, base, one, other, now));
    let best = candidates.iter().min_by_key(rank).expect("there are several");
    if !yields(best) {
        return best.1;
    }
    // Each of them may have to let the next one go first, in a circle.
    candidates.iter().filter(|one| !yields(one)).min_by_key(rank).unwrap_or(best).1
}

/// Whether one that is first at its limit lets another go first that is so elsewhere: by the order of the limits
/// that decide their times, where both pass them. Where these contradict each other, neither yields.
fn yields(
    s: &Scheduler,
    base: &Base,
    one: &(LimitId, Candidate),
    other: &(LimitId, Candidate),
    now: Nanos,
) -> bool {
    let ((own, one), (theirs, other)) = (one, other);
    if !one.in_turn || !other.in_turn || one.lane == other.lane {
        return false;
    }
    let passes = |lane: LaneId, limit: LimitId| lanes::head_cost(s, lane, limit) > 0;
    passes(one.lane, *theirs)
        && rank::precedes(s, base, *theirs, other.lane, one.lane, now)
        && !(passes(other.lane, *own) && rank::precedes(s, base, *own, one.lane, other.lane, now))
}

/// The first of the limits to look at; each is looked at once, however often it was marked.
pub(crate) fn next_marked(s: &mut Scheduler) -> Option<LimitId> {
    let Reverse(limit) = s.dirty.pop()?;
    while s.dirty.peek() == Some(&Reverse(limit)) {
        s.dirty.pop();
    }
    Some(limit)
}

/// Returns the call that may go at a limit, if there is one.
pub(crate) fn look(s: &mut Scheduler, base: &mut Base, limit: LimitId, now: Nanos) -> Option<Candidate> {
    loop {
        let Some(lane) = rank::first(s, base, limit, now) else {
            marks::arm(s, base, limit, Nanos::NEVER);
            marks::tidy(s, base, limit);
            return None;
        };
        note_first(s, base, limit, lane);
        let waiter = lanes::head(s, lane)?;
        let units = lanes::batch_of(s, waiter).like.units;
        match eligibility::blocker(s, base, lane, &units, Role::Holder, now) {
            None => return Some(Candidate { lane, waiter, in_turn: true }),
            Some(held) if held.limit != limit => {
                bind::unbind(s, base, lane);
                bind::bind(s, base, lane, held.limit);
            }
            Some(held) => {
                let aged =
                    rank::next_aging(s, base, limit, now).min(eligibility::next_withheld(s, base, lane, now));
                marks::arm(s, base, limit, held.until.min(aged));
                if held.by_rank {
                    marks::arm_sooner(s, base, limit, rank::next_level(s, base, lane, now));
                }
                if base.limits[limit].meter.is_in_flight() {
                    note_booking(s, base, limit, lane, Nanos::NEVER);
                    marks::want_loan_and_wake(s, base, limit, units[s.lanes[lane].slot as usize], now);
                    return None;
                }
                let booked = eligibility::booking(s, base, lane, now);
                note_booking(s, base, limit, lane, booked);
                marks::want_loan_and_wake(s, base, limit, units[s.lanes[lane].slot as usize], now);
                if waits_alone(s, base, limit, lane) {
                    return None;
                }
                return backfill(s, base, limit, lane, booked, now);
            }
        }
    }
}

/// Whether all that waits at a limit are calls like the first of them: what holds that one holds them all.
fn waits_alone(s: &Scheduler, base: &Base, limit: LimitId, first: LaneId) -> bool {
    let Lane { head, len, .. } = s.lanes[first];
    let bound = base.limits[limit].queue.as_ref().map_or(0, |held| held.bound);
    bound == 1 && lanes::batch_of(s, head).len == len
}

/// A call behind the first that fits and moves no booking.
fn backfill(
    s: &mut Scheduler,
    base: &mut Base,
    limit: LimitId,
    first: LaneId,
    booked: Nanos,
    now: Nanos,
) -> Option<Candidate> {
    let cost = lanes::head_cost(s, first, limit);
    let withheld = eligibility::withheld(s, base, limit, first, now);
    let lent = base.limits.funded_spare(limit, cost, now);
    let held = &mut base.limits[limit];
    let spare = match booked.is_never() {
        true => lent,
        false => held.meter.spare(now, cost, withheld, booked.max(now)).min(lent),
    };
    let room = held.room(0, now);
    let classes = held.queue.iter().flat_map(|held| held.classes.iter().flatten());
    if let Some(least) = classes.filter_map(|class| s.order.summary(class.root)).min() {
        let grows = watch::grows_beside(s, base, limit, first, least, now);
        marks::arm_sooner(s, base, limit, grows);
    }
    for class in Priority::ALL.into_iter().rev() {
        let root = queue::class(&base.limits, limit, class as u8).map_or(NIL, |class| class.root);
        let mut after: Option<LaneKey> = None;
        // As room grows others may fit before the first one's time.
        if spare > room && s.order.find(root, None, &mut |least| *least <= spare).is_some() {
            let grows = base.limits[limit].earliest(room.saturating_add(1), 0, now);
            if grows > now {
                marks::arm_sooner(s, base, limit, grows);
            }
        }
        let bound = room.min(spare);
        loop {
            let root = queue::class(&base.limits, limit, class as u8).map_or(NIL, |class| class.root);
            let Some(key) = s.order.find(root, after, &mut |least| *least <= bound) else {
                break;
            };
            after = Some(key);
            let lane = key.2;
            if let Some(waiter) = fitting(s, base, lane, now) {
                return Some(Candidate { lane, waiter, in_turn: false });
            }
            let units = lanes::head_units(s, lane);
            let held = if lane == first {
                None
            } else {
                eligibility::blocker(s, base, lane, &units, Role::Other, now)
            };
            match held {
                Some(held) if held.limit != limit => {
                    bind::unbind(s, base, lane);
                    bind::bind(s, base, lane, held.limit);
                }
                _ => watch::watch(s, base, limit, lane, now),
            }
        }
    }
    None
}

/// The first call of a lane that may go now.
fn fitting(s: &mut Scheduler, base: &mut Base, lane: LaneId, now: Nanos) -> Option<WaiterId> {
    let allowed = eligibility::allowance(s, base, lane, now)?;
    let fits = |units: &Units| units.iter().zip(&allowed).all(|(units, allowed)| units <= allowed);
    let run = s.batch_order.find(s.lanes[lane].batches, None, &mut |units| fits(units));
    run.map(|(_, run)| s.batches[run].first)
}

/// Grants a call: takes it out of its lane, spends its units everywhere, charges its loop.
pub(crate) fn grant(s: &mut Scheduler, res: &mut Resources, candidate: Candidate, now: Nanos) {
    let Candidate { lane, waiter, in_turn } = candidate;
    let Lane { ref route, bound, loop_, class, route_id, .. } = s.lanes[lane];
    let route: Arc<[RouteLimit]> = route.clone();
    let held = &s.waiters[waiter];
    let (units, enqueued) = (lanes::batch_of(s, waiter).like.units, held.enqueued);
    let ticket = Ticket { index: waiter, generation: held.generation };
    let held_by = s.lanes[lane].block_history.longest(enqueued, now);

    let paced = !bound.is_nil() && !res.base.limits[bound].meter.is_in_flight();
    let stamp = match paced && in_turn {
        true => batch::booked_for(s, &res.base, lane, enqueued, now),
        false => now,
    };
    keep_credit(s, &mut res.base, lane, in_turn, &units, now);
    let mut grant = spend::spend(res, route_id, loop_, class, units, &route, stamp, now);
    res.calls[&grant].held_by = held_by;
    if settle::is_of_no_concern(res, &grant) {
        grant = grant.quiet();
    }
    for &(limit, slot) in route.iter() {
        let units = i128::from(units[slot as usize]);
        bind::charge_flow(
            s,
            &mut res.base,
            limit,
            (loop_, route_id, class as u8),
            units,
            in_turn && limit == bound,
            lane,
        );
    }
    placement::pull_waiter(s, &mut res.base, waiter);
    marks::mark_route(s, &mut res.base, &route);
    s.verdicts.push((ticket, Verdict::Granted(grant)));
}

/// Books what went past a higher priority, or took what is reserved for it, by age; and what others that
/// went in turn earn those who wait.
fn keep_credit(s: &mut Scheduler, base: &mut Base, lane: LaneId, in_turn: bool, units: &Units, now: Nanos) {
    let Lane { class, route_id, bound, ref route, .. } = s.lanes[lane];
    let route = route.clone();
    for &(limit, slot) in route.iter() {
        let cost = units[slot as usize];
        let reserved = base.limits.takes_reserved(limit, class, cost, now);
        let Some(queue) = base.limits[limit].queue.as_mut() else { continue };
        let above = &queue.classes[class as usize + 1..];
        let passes = in_turn && limit == bound && above.iter().flatten().any(|class| class.active > 0);
        if passes || reserved {
            queue.credit -= i128::from(cost) * MILLION;
        } else if in_turn {
            rank::earn_credit(base, limit, route_id, cost);
        }
    }
}

fn note_first(s: &mut Scheduler, base: &mut Base, limit: LimitId, lane: LaneId) {
    let before = std::mem::replace(&mut queue::queue_at(&mut base.limits, limit).first, lane);
    if before != lane && !before.is_nil() {
        // Its booking no longer counts: calls that it held back may go.
        marks::mark_others(s, base, limit, before);
    }
}

fn note_booking(s: &mut Scheduler, base: &mut Base, limit: LimitId, lane: LaneId, booked: Nanos) {
    let before = std::mem::replace(&mut queue::queue_at(&mut base.limits, limit).booked, booked);
    if before != booked {
        marks::mark_others(s, base, limit, lane);
    }
}
