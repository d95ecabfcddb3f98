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

use super::lane::Lane;
use super::{Engine, Units};
use crate::algorithm::UNBOUNDED;
use crate::config::Reserve;
use crate::model::priority::Priority;
use crate::model::time::Nanos;
use crate::model::{LaneId, LimitId};

/// Above this many limits whose first lanes pass through one limit, only those whose time comes soon enough
/// to matter are looked at. Below it all are, so that a small world is judged exactly.
pub(super) const MANY: usize = 64;

/// What holds a call back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Obstacle {
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

impl Engine {
    /// What keeps a call of `lane` from going now.
    pub(super) fn obstacle(
        &mut self,
        lane: LaneId,
        units: &Units,
        role: Role,
        now: Nanos,
    ) -> Option<Obstacle> {
        let uses = self.scheduler.lanes[lane].route.len();
        let mut worst: Option<Obstacle> = None;
        for index in 0..uses {
            let (limit, slot) = self.scheduler.lanes[lane].route[index];
            let cost = units[slot as usize];
            if cost == 0 && !self.limits[limit].meter.is_in_flight() {
                continue;
            }
            let withheld = self.withheld(limit, lane, now);
            let held = &mut self.limits[limit];
            if !held.fits(cost, withheld, now) {
                let until = held.earliest(cost, withheld, now);
                if worst.is_none_or(|worst| until > worst.until) {
                    worst = Some(Obstacle { limit, until, by_rank: false });
                }
            }
        }
        if worst.is_some() {
            return worst;
        }
        // A lane stays where it is as long as that limit holds it.
        let Lane { bound, ref route, .. } = self.scheduler.lanes[lane];
        let here = route.iter().position(|(limit, _)| *limit == bound);
        let empties = self.is_first_after_window(route);
        for index in here.into_iter().chain((0..uses).filter(|index| Some(*index) != here)) {
            let (limit, slot) = self.scheduler.lanes[lane].route[index];
            let cost = units[slot as usize];
            if cost > 0 && !self.limits[limit].meter.is_in_flight() {
                let (spare, until) = self.spare_for(limit, lane, role, cost, now);
                if cost > spare {
                    return Some(Obstacle { limit, until, by_rank: true });
                }
                if empties && let Some(until) = self.emptying_moves(limit, lane, role, now) {
                    return Some(Obstacle { limit, until, by_rank: true });
                }
            }
        }
        None
    }

    /// How much a call of `lane` may take at `limit` without moving the booking of a lane that ranks before
    /// it, and that lane's time. `cost` is what the caller wants: more need not be proven.
    pub(super) fn spare_for(
        &mut self,
        limit: LimitId,
        lane: LaneId,
        role: Role,
        cost: u64,
        now: Nanos,
    ) -> (u64, Nanos) {
        let mut least = (UNBOUNDED, Nanos::NEVER);
        for at in self.with_first_lanes(limit, cost, now) {
            let Some(first) = self.before(at, limit, lane, role, now) else { continue };
            let spare = self.limits[limit].meter.spare(now, first.cost, first.withheld, first.until);
            let spare = spare.min(first.lent);
            if spare < least.0 {
                least = (spare, first.until);
            }
        }
        least
    }

    /// The first call after a window empties the pacers that it takes from: the booking that this would move at
    /// `limit`, of a lane that ranks before it.
    fn emptying_moves(&mut self, limit: LimitId, lane: LaneId, role: Role, now: Nanos) -> Option<Nanos> {
        let saved = self.limits[limit].meter.saved(now);
        if saved == 0 {
            return None;
        }
        let mut firsts = self.with_first_lanes(limit, saved, now);
        firsts.find_map(|at| {
            let first = self.before(at, limit, lane, role, now)?;
            let moves = !self.limits[limit].meter.may_empty(now, first.cost, first.until);
            moves.then_some(first.until)
        })
    }

    /// The limits whose first lanes may have a booking that taking `cost` at `limit` could move.
    fn with_first_lanes(
        &mut self,
        limit: LimitId,
        cost: u64,
        now: Nanos,
    ) -> impl Iterator<Item = LimitId> + use<> {
        let contention = self.limits[limit].contention.as_ref();
        let (bound, through) = contention.map_or((0, 0), |held| (held.bound, held.through.len()));
        let through = match through {
            0 => Vec::new(),
            1..=MANY => self.through(limit),
            _ => self.due_soon(limit, cost, now),
        };
        (bound > 0).then_some(limit).into_iter().chain(through)
    }

    /// Other limits whose first lanes may pass through one; some of them, if they are many.
    pub(super) fn through(&self, limit: LimitId) -> Vec<LimitId> {
        let contention = self.limits[limit].contention.as_ref();
        let through = contention.filter(|held| !held.through.is_empty());
        through.map_or(Vec::new(), |held| held.through.keys().copied().take(MANY).collect())
    }

    /// What the first lane of limit `at` wants at `limit`, if it ranks before `lane`.
    fn before(&self, at: LimitId, limit: LimitId, lane: LaneId, role: Role, now: Nanos) -> Option<Before> {
        if self.limits[at].meter.is_in_flight() {
            return None;
        }
        let holder = self.first(at, now)?;
        if holder == lane && role != Role::Behind {
            return None;
        }
        let cost = self.head_cost(holder, limit);
        if cost == 0 {
            return None;
        }
        let booked = self.booking(holder, now);
        let lent = self.lent_spare(limit, cost, now);
        if (booked.is_never() && lent == UNBOUNDED) || (role == Role::Holder && booked <= now) {
            return None;
        }
        if holder != lane && !self.ranks_before(at, holder, lane, now) {
            return None;
        }
        let withheld = self.withheld(limit, holder, now);
        Some(Before { cost, withheld, lent, until: booked.max(now) })
    }

    /// Whether the first lane of limit `at` ranks before `lane`: by the order of that limit if `lane` is
    /// ranked there too, else by standing.
    fn ranks_before(&self, at: LimitId, holder: LaneId, lane: LaneId, now: Nanos) -> bool {
        if self.scheduler.lanes[lane].bound == at {
            return true;
        }
        if self.head_cost(lane, at) > 0 {
            self.precedes(at, holder, lane, now)
        } else {
            self.standing(holder, now) < self.standing(lane, now)
        }
    }

    /// The earliest time at which all rate limits of a lane's first call have room.
    pub(super) fn booking(&self, lane: LaneId, now: Nanos) -> Nanos {
        let units = self.head_units(lane);
        let held = &self.scheduler.lanes[lane];
        let mut booked = Nanos::ZERO;
        for &(limit, slot) in held.route.iter() {
            let cost = units[slot as usize];
            if cost > 0 && !self.limits[limit].meter.is_in_flight() {
                let withheld = self.withheld(limit, lane, now);
                booked = booked.max(self.limits[limit].earliest(cost, withheld, now));
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
    pub(super) fn withheld(&self, limit: LimitId, lane: LaneId, now: Nanos) -> u64 {
        let held = &self.limits[limit];
        let withheld = &self.limits.specs[held.spec].withheld;
        let class = self.scheduler.lanes[lane].class as usize;
        if withheld[class] == 0 {
            return 0;
        }
        let Some(contention) = held.contention.as_ref() else { return withheld[class] };
        let level = usize::try_from(self.level(lane, now)).unwrap_or(usize::MAX);
        let outranked = (class + 1..level.min(4)).rev().find(|higher| contention.passing[*higher] > 0);
        match outranked {
            Some(higher) if self.has_credit(limit, lane) => withheld[higher],
            _ => withheld[class],
        }
    }

    /// Whether `cost` only fits a limit because its lane's age lets it take what is reserved for others.
    pub(super) fn takes_reserved(&mut self, limit: LimitId, class: Priority, cost: u64, now: Nanos) -> bool {
        let held = &mut self.limits.all[limit];
        let withheld = self.limits.specs[held.spec].withheld[class as usize];
        withheld > 0 && cost > 0 && !held.meter.fits(cost, withheld, now)
    }

    /// When age may change what is withheld from a lane anywhere on its route.
    pub(super) fn next_withheld(&self, lane: LaneId, now: Nanos) -> Nanos {
        let Lane { class, ref route, .. } = self.scheduler.lanes[lane];
        let reserved = |limit: LimitId| {
            let held = &self.limits[limit];
            self.limits.specs[held.spec].withheld[class as usize] > 0
        };
        let may = self.level(lane, now) <= Priority::Critical as u64;
        match may && route.iter().any(|(limit, _)| reserved(*limit)) {
            true => self.next_level(lane, now),
            false => Nanos::NEVER,
        }
    }

    /// Whether a limit keeps a share for some priorities.
    pub(super) fn reserves(&self, limit: LimitId) -> bool {
        self.limits.specs[self.limits[limit].spec].definition.reserve() != Reserve::default()
    }

    /// The limits whose first lanes are booked so soon that their booking at `limit` could matter to a call
    /// of `cost`.
    fn due_soon(&mut self, limit: LimitId, cost: u64, now: Nanos) -> Vec<LimitId> {
        let largest = self.scheduler.largest;
        let mut soon = Vec::new();
        let mut last = None;
        while let Some((wake, at)) = self.scheduler.timers.after(last) {
            last = Some((wake, at));
            if self.limits[limit].meter.spare(now, largest, 0, wake.max(now)) >= cost {
                break;
            }
            let contention = self.limits[limit].contention.as_ref();
            if contention.is_some_and(|held| held.through.contains_key(&at)) {
                soon.push(at);
            }
        }
        soon
    }

    /// For each kind of unit, the most that a call of `lane` may cost to go now; nothing, if it may not
    /// whatever it costs.
    pub(super) fn allowance(&mut self, lane: LaneId, now: Nanos) -> Option<Units> {
        let route = self.scheduler.lanes[lane].route.clone();
        let role = Role::Behind;
        let empties = self.is_first_after_window(&route);
        let mut allowed = [UNBOUNDED; super::MAX_UNIT_KINDS];
        for &(limit, slot) in route.iter() {
            let withheld = self.withheld(limit, lane, now);
            let held = &mut self.limits[limit];
            let in_flight = held.meter.is_in_flight();
            let room = held.room(withheld, now);
            if in_flight && room == 0 {
                return None;
            }
            let most = &mut allowed[slot as usize];
            *most = (*most).min(room);
            if !in_flight && *most > 0 {
                let wanted = *most;
                let (spare, _) = self.spare_for(limit, lane, role, wanted, now);
                let moves = empties && self.emptying_moves(limit, lane, role, now).is_some();
                let spare = if moves { 0 } else { spare };
                let most = &mut allowed[slot as usize];
                *most = (*most).min(spare);
            }
        }
        Some(allowed)
    }
}
