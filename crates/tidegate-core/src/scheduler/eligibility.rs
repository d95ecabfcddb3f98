//! May this call go now? If not, which limit decides, and from when on?
//!
//! A call is held by a limit for one of two reasons. Either its cost does not fit there: then the limit
//! that opens last is the one that decides its time. Or it fits everywhere, but taking its units would move
//! the booking of a lane that ranks before it: then the limit where that would happen decides. Units are taken
//! in two ways: as the call's cost, and from pacers that the first call after a backoff window empties.
//!
//! A *booking* belongs to the first-ranked lane of every rate limit: the earliest time at which all its
//! rate limits have room, if nobody else took anything. Slots come back at no known time, so lanes that wait
//! for a slot hold no booking, and no slot is ever kept for one. Units that are lent come at no known time
//! either, but in parts: they are kept for the first lane until there are enough.

use crate::admission::spend;
use crate::limits::meters::UNBOUNDED;
use crate::model::priority::Priority;
use crate::model::time::Nanos;
use crate::model::{LaneId, LimitId, Units};
use crate::routing::state::Base;
use crate::scheduler::lane::Lane;
use crate::scheduler::queue::MANY;
use crate::scheduler::state::Scheduler;
use crate::scheduler::{lanes, queue, rank};

/// What holds a call back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocker {
    pub limit: LimitId,
    pub until: Nanos,
    /// It fits, but would move the booking of one that ranks before it: which its age may change.
    pub by_rank: bool,
}

/// What a lane that ranks before another wants at a limit.
#[derive(Clone, Copy, Debug)]
struct Before {
    cost: u64,
    withheld: u64,
    /// What it leaves of the units that are lent.
    lent: u64,
    /// Its booking.
    until: Nanos,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The first call of the first-ranked lane of its limit. Other first lanes that fit as well stand in
    /// nobody's way: the best of them simply goes first.
    Holder,
    /// The first call of any other lane, or of one that is not bound yet.
    Other,
    /// A call behind the first of its lane.
    Behind,
}

/// Returns whether a call may overtake the waiting calls of its own lane: only if that moves no booking.
pub(crate) fn may_overtake(
    s: &mut Scheduler,
    base: &mut Base,
    lane: LaneId,
    units: &Units,
    now: Nanos,
) -> bool {
    let allowed = allowance(s, base, lane, now);
    allowed.is_some_and(|allowed| units.iter().zip(&allowed).all(|(units, most)| units <= most))
}

/// What keeps a call of `lane` from going now.
pub(crate) fn blocker(
    s: &mut Scheduler,
    base: &mut Base,
    lane: LaneId,
    units: &Units,
    role: Role,
    now: Nanos,
) -> Option<Blocker> {
    let uses = s.lanes[lane].route.len();
    let mut worst: Option<Blocker> = None;
    for index in 0..uses {
        let (limit, slot) = s.lanes[lane].route[index];
        let cost = units[slot as usize];
        if cost == 0 && !base.limits[limit].meter.is_in_flight() {
            continue;
        }
        let withheld = withheld(s, base, limit, lane, now);
        let held = &mut base.limits[limit];
        if !held.fits(cost, withheld, now) {
            let until = held.earliest(cost, withheld, now);
            if worst.is_none_or(|worst| until > worst.until) {
                worst = Some(Blocker { limit, until, by_rank: false });
            }
        }
    }
    if worst.is_some() {
        return worst;
    }
    // A lane stays where it is as long as that limit holds it.
    let Lane { bound, ref route, .. } = s.lanes[lane];
    let here = route.iter().position(|(limit, _)| *limit == bound);
    let empties = spend::is_first_after_window(base, route);
    for index in here.into_iter().chain((0..uses).filter(|index| Some(*index) != here)) {
        let (limit, slot) = s.lanes[lane].route[index];
        let cost = units[slot as usize];
        if cost > 0 && !base.limits[limit].meter.is_in_flight() {
            let (spare, until) = spare_for(s, base, limit, lane, role, cost, now);
            if cost > spare {
                return Some(Blocker { limit, until, by_rank: true });
            }
            if empties && let Some(until) = emptying_moves(s, base, limit, lane, role, now) {
                return Some(Blocker { limit, until, by_rank: true });
            }
        }
    }
    None
}

/// How much a call of `lane` may take at `limit` without moving the booking of a lane that ranks before
/// it, and that lane's time. `cost` is what the caller wants: more need not be proven.
fn spare_for(
    s: &mut Scheduler,
    base: &mut Base,
    limit: LimitId,
    lane: LaneId,
    role: Role,
    cost: u64,
    now: Nanos,
) -> (u64, Nanos) {
    let mut least = (UNBOUNDED, Nanos::NEVER);
    for at in with_first_lanes(s, base, limit, cost, now) {
        let Some(first) = before(s, base, at, limit, lane, role, now) else { continue };
        let spare = base.limits[limit].meter.spare(now, first.cost, first.withheld, first.until);
        let spare = spare.min(first.lent);
        if spare < least.0 {
            least = (spare, first.until);
        }
    }
    least
}

/// The first call after a window empties the pacers that it takes from: the booking that this would move at
/// `limit`, of a lane that ranks before it.
fn emptying_moves(
    s: &mut Scheduler,
    base: &mut Base,
    limit: LimitId,
    lane: LaneId,
    role: Role,
    now: Nanos,
) -> Option<Nanos> {
    let saved = base.limits[limit].meter.saved(now);
    if saved == 0 {
        return None;
    }
    let mut firsts = with_first_lanes(s, base, limit, saved, now);
    firsts.find_map(|at| {
        let first = before(s, base, at, limit, lane, role, now)?;
        let moves = !base.limits[limit].meter.may_empty(now, first.cost, first.until);
        moves.then_some(first.until)
    })
}

/// The limits whose first lanes may have a booking that taking `cost` at `limit` could move.
fn with_first_lanes(
    s: &mut Scheduler,
    base: &mut Base,
    limit: LimitId,
    cost: u64,
    now: Nanos,
) -> impl Iterator<Item = LimitId> + use<> {
    let queue = base.limits[limit].queue.as_ref();
    let (bound, through) = queue.map_or((0, 0), |held| (held.bound, held.through.len()));
    let through = match through {
        0 => Vec::new(),
        1..=MANY => queue::through(&base.limits, limit),
        _ => due_soon(s, base, limit, cost, now),
    };
    (bound > 0).then_some(limit).into_iter().chain(through)
}

/// What the first lane of limit `at` wants at `limit`, if it ranks before `lane`.
fn before(
    s: &Scheduler,
    base: &Base,
    at: LimitId,
    limit: LimitId,
    lane: LaneId,
    role: Role,
    now: Nanos,
) -> Option<Before> {
    if base.limits[at].meter.is_in_flight() {
        return None;
    }
    let holder = rank::first(s, base, at, now)?;
    if holder == lane && role != Role::Behind {
        return None;
    }
    let cost = lanes::head_cost(s, holder, limit);
    if cost == 0 {
        return None;
    }
    let booked = booking(s, base, holder, now);
    let lent = base.limits.funded_spare(limit, cost, now);
    if (booked.is_never() && lent == UNBOUNDED) || (role == Role::Holder && booked <= now) {
        return None;
    }
    if holder != lane && !ranks_before(s, base, at, holder, lane, now) {
        return None;
    }
    let withheld = withheld(s, base, limit, holder, now);
    Some(Before { cost, withheld, lent, until: booked.max(now) })
}

/// Whether the first lane of limit `at` ranks before `lane`: by the order of that limit if `lane` is
/// ranked there too, else by standing.
fn ranks_before(s: &Scheduler, base: &Base, at: LimitId, holder: LaneId, lane: LaneId, now: Nanos) -> bool {
    if s.lanes[lane].bound == at {
        return true;
    }
    if lanes::head_cost(s, lane, at) > 0 {
        rank::precedes(s, base, at, holder, lane, now)
    } else {
        rank::standing(s, base, holder, now) < rank::standing(s, base, lane, now)
    }
}

/// The earliest time at which all rate limits of a lane's first call have room.
pub(crate) fn booking(s: &Scheduler, base: &Base, lane: LaneId, now: Nanos) -> Nanos {
    let units = lanes::head_units(s, lane);
    let held = &s.lanes[lane];
    let mut booked = Nanos::ZERO;
    for &(limit, slot) in held.route.iter() {
        let cost = units[slot as usize];
        if cost > 0 && !base.limits[limit].meter.is_in_flight() {
            let withheld = withheld(s, base, limit, lane, now);
            booked = booked.max(base.limits[limit].earliest(cost, withheld, now));
        }
    }
    booked
}

/// The units of a limit that calls of this lane must leave alone.
///
/// A lane whose level is above a priority is not held back by what is reserved for that one while calls of
/// it wait for the same limit: else nothing would be left for it while these take all there is. Like going
/// before them it is paid from the credit. Where the others are bound does not matter: they move as this one
/// does, and the two would follow each other for ever.
pub(crate) fn withheld(s: &Scheduler, base: &Base, limit: LimitId, lane: LaneId, now: Nanos) -> u64 {
    let held = &base.limits[limit];
    let withheld = &base.limits.specs[held.spec].withheld;
    let class = s.lanes[lane].class as usize;
    if withheld[class] == 0 {
        return 0;
    }
    let Some(queue) = held.queue.as_ref() else { return withheld[class] };
    let level = usize::try_from(rank::level(s, base, lane, now)).unwrap_or(usize::MAX);
    let outranked = (class + 1..level.min(4)).rev().find(|higher| queue.passing[*higher] > 0);
    match outranked {
        Some(higher) if rank::has_credit(s, base, limit, lane) => withheld[higher],
        _ => withheld[class],
    }
}

/// When age may change what is withheld from a lane anywhere on its route.
pub(crate) fn next_withheld(s: &Scheduler, base: &Base, lane: LaneId, now: Nanos) -> Nanos {
    let Lane { class, ref route, .. } = s.lanes[lane];
    let reserved = |limit: LimitId| {
        let held = &base.limits[limit];
        base.limits.specs[held.spec].withheld[class as usize] > 0
    };
    let may = rank::level(s, base, lane, now) <= Priority::Critical as u64;
    match may && route.iter().any(|(limit, _)| reserved(*limit)) {
        true => rank::next_level(s, base, lane, now),
        false => Nanos::NEVER,
    }
}

/// The limits whose first lanes are booked so soon that their booking at `limit` could matter to a call
/// of `cost`.
fn due_soon(s: &mut Scheduler, base: &mut Base, limit: LimitId, cost: u64, now: Nanos) -> Vec<LimitId> {
    let largest = s.largest;
    let mut soon = Vec::new();
    let mut last = None;
    while let Some((wake, at)) = s.timers.after(last) {
        last = Some((wake, at));
        if base.limits[limit].meter.spare(now, largest, 0, wake.max(now)) >= cost {
            break;
        }
        let queue = base.limits[limit].queue.as_ref();
        if queue.is_some_and(|held| held.through.contains_key(&at)) {
            soon.push(at);
        }
    }
    soon
}

/// For each kind of unit, the most that a call of `lane` may cost to go now; nothing, if it may not
/// whatever it costs.
pub(crate) fn allowance(s: &mut Scheduler, base: &mut Base, lane: LaneId, now: Nanos) -> Option<Units> {
    let route = s.lanes[lane].route.clone();
    let role = Role::Behind;
    let empties = spend::is_first_after_window(base, &route);
    let mut allowed = [UNBOUNDED; crate::model::MAX_UNIT_KINDS];
    for &(limit, slot) in route.iter() {
        let withheld = withheld(s, base, limit, lane, now);
        let held = &mut base.limits[limit];
        let in_flight = held.meter.is_in_flight();
        let room = held.room(withheld, now);
        if in_flight && room == 0 {
            return None;
        }
        let most = &mut allowed[slot as usize];
        *most = (*most).min(room);
        if !in_flight && *most > 0 {
            let wanted = *most;
            let (spare, _) = spare_for(s, base, limit, lane, role, wanted, now);
            let moves = empties && emptying_moves(s, base, limit, lane, role, now).is_some();
            let spare = if moves { 0 } else { spare };
            let most = &mut allowed[slot as usize];
            *most = (*most).min(spare);
        }
    }
    Some(allowed)
}
