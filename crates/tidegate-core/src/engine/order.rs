//! Rank: which lane is first at a limit, and who goes before whom.
//!
//! Between base priorities the higher one is first, unless the lower one's first call has waited so long
//! that its level (base plus one for every `aging` waited) is above the other's; and such passing by age
//! alone is paid from a credit that grows by `aging_share` of what others are granted here, in turn or at
//! once as they come. Inside a base
//! priority age plays no part: there it is start tag, then arrival.

use super::lane::Lane;
use super::{Engine, MILLION, Units};
use crate::contention::{Class, Contention, LaneKey};
use crate::model::time::{Nanos, whole_nanos};
use crate::model::{LaneId, LimitId, LoopId, RouteId};

impl Engine {
    /// Makes `limit` the one that decides the lane's time.
    pub(super) fn bind(&mut self, lane: LaneId, limit: LimitId) {
        let Lane { ref route, loop_, class, skeleton, .. } = self.scheduler.lanes[lane];
        let route = route.clone();
        let slot = route.iter().find(|(id, _)| *id == limit).map_or(0, |(_, slot)| *slot);
        let inverse = self.routing.skeletons[skeleton].inverse;
        let demand = self.scheduler.lanes[lane].demand[slot as usize];

        self.pin_flow(limit, class as u8, loop_);
        let contention = self.contention(limit);
        contention.bound += 1;
        let held = contention.classes[class as usize].get_or_insert_default();
        held.demand += demand;
        let vtime = held.vtime;
        let flow = held.flows.entry(loop_).or_default();
        if flow.lanes.is_empty() {
            flow.finish = flow.finish.max(vtime);
            flow.weight = weight(inverse);
            held.weights += flow.weight;
            held.active += 1;
        }
        flow.lanes.push(lane);

        let target = &mut self.scheduler.lanes[lane];
        target.bound = limit;
        target.stations.note(limit, self.now);
        target.slot = slot;
        self.enter(lane);
        for (other, _) in route.iter().filter(|(other, _)| *other != limit) {
            if self.concerns(*other, limit) {
                *self.contention(*other).through.entry(limit).or_default() += 1;
            }
        }
        self.queue_changed(limit);
    }

    /// Whether what happens at a limit matters to lanes that pass through it and are bound at `bound`: by their
    /// bookings, by slots that are no longer there, or by what it reserves.
    fn concerns(&self, limit: LimitId, bound: LimitId) -> bool {
        let in_flight = |limit: LimitId| self.limits[limit].meter.is_in_flight();
        in_flight(limit) || !in_flight(bound) || self.reserves(limit)
    }

    /// Takes a lane out of the queue it stands in.
    pub(super) fn unbind(&mut self, lane: LaneId) {
        let Lane { ref route, loop_, class, bound, slot, .. } = self.scheduler.lanes[lane];
        if bound.is_nil() {
            return;
        }
        let route = route.clone();
        let demand = self.scheduler.lanes[lane].demand[slot as usize];
        self.leave(lane);
        self.scheduler.lanes[lane].bound = LimitId::NIL;
        let mut forgotten = Vec::new();
        let contention = self.contention(bound);
        contention.bound -= 1;
        let was_first = contention.first == lane;
        if was_first {
            contention.first = LaneId::NIL;
        }
        if let Some(held) = &mut contention.classes[class as usize] {
            held.demand -= demand;
            if let Some(flow) = held.flows.get_mut(&loop_) {
                flow.lanes.retain(|known| *known != lane);
                if flow.lanes.is_empty() {
                    held.weights -= flow.weight;
                    held.active -= 1;
                    forgotten = held.forget_idle();
                }
            }
        }
        let emptied = contention.bound == 0;
        for loop_ in forgotten {
            self.unpin_loop(loop_);
        }
        if emptied {
            self.forget_served(bound);
        }
        for (other, _) in route.iter().filter(|(other, _)| *other != bound) {
            if let Some(through) = self.limits[*other].contention.as_mut() {
                // Whoever else is bound there watches again when that limit is looked at, which it is
                // now. A watch that outlived its lane would keep an idle loop from being forgotten.
                through.watchers.retain(|watcher| *watcher != bound);
                if let Some(count) = through.through.get_mut(&bound) {
                    *count -= 1;
                    if *count == 0 {
                        through.through.remove(&bound);
                    }
                }
            }
            self.tidy(*other);
        }
        self.queue_changed(bound);
        if was_first {
            self.mark_route(&route);
        }
    }

    /// Nobody waits at a limit any more: whom it served is forgotten, and everybody starts equal.
    pub(super) fn forget_served(&mut self, limit: LimitId) {
        let classes = std::mem::take(&mut self.contention(limit).classes);
        for loop_ in classes.iter().flatten().flat_map(|class| class.flows.keys()) {
            self.unpin_loop(*loop_);
        }
    }

    /// A lane has that much more waiting at the limit that holds it.
    pub(super) fn change_demand(&mut self, lane: LaneId, demand: i128) {
        let Lane { bound, class, .. } = self.scheduler.lanes[lane];
        if !bound.is_nil()
            && let Some(held) = &mut self.contention(bound).classes[class as usize]
        {
            held.demand = held.demand.saturating_add_signed(demand);
        }
    }

    /// Gives a lane the place that its first call and its smallest cost deserve, after a call came or went.
    pub(super) fn replace_lane(&mut self, lane: LaneId) {
        let bound = self.scheduler.lanes[lane].bound;
        if bound.is_nil() {
            return;
        }
        self.move_up_or_down(lane);
        self.queue_changed(bound);
        if self.contention(bound).first == lane {
            let route = self.scheduler.lanes[lane].route.clone();
            self.mark_route(&route);
        }
    }

    /// Others came to be first at a limit, or may have. What a limit withholds from a lane that passes through it
    /// depends on who waits there, wherever that lane is bound.
    fn queue_changed(&mut self, limit: LimitId) {
        match self.reserves(limit) {
            true => self.touched(limit),
            false => self.mark(limit),
        }
    }

    /// Charges a loop at a limit where somebody waits. `in_turn` says that the call went because it was
    /// first here; `units` may be negative when a call settles for less than it reserved. The lane `going`
    /// is left where it is: it gets another place anyway.
    pub(super) fn charge_flow(
        &mut self,
        limit: LimitId,
        payer: (LoopId, RouteId, u8),
        units: i128,
        in_turn: bool,
        going: LaneId,
    ) {
        let (loop_, skeleton, class) = payer;
        if self.class(limit, class).is_none() {
            return;
        }
        self.pin_flow(limit, class, loop_);
        let inverse = i128::from(self.routing.skeletons[skeleton].inverse);
        let Some(contention) = self.limits[limit].contention.as_mut() else { return };
        let Some(held) = contention.classes[class as usize].as_mut() else { return };
        let vtime = held.vtime;
        let flow = held.flows.entry(loop_).or_default();
        let start = flow.finish.max(vtime);
        flow.finish = start.saturating_add_signed(units.saturating_mul(inverse));
        if in_turn {
            held.vtime = vtime.max(start);
        }
        if flow.lanes[..] != [going] {
            let lanes = flow.lanes.clone();
            for loop_ in held.forget_idle() {
                self.unpin_loop(loop_);
            }
            for lane in lanes.into_iter().filter(|lane| *lane != going) {
                self.move_up_or_down(lane);
            }
        }
        self.mark(limit);
    }

    /// A loop is about to have service at a limit: it must not be forgotten meanwhile.
    fn pin_flow(&mut self, limit: LimitId, class: u8, loop_: LoopId) {
        if self.class(limit, class).is_none_or(|class| !class.flows.contains_key(&loop_)) {
            self.pin_loop(loop_);
        }
    }

    /// The first-ranked lane at a limit.
    pub(super) fn first(&self, limit: LimitId, now: Nanos) -> Option<LaneId> {
        let contention = self.limits[limit].contention.as_ref()?;
        if contention.bound == 0 {
            return None;
        }
        let mut best: Option<LaneId> = None;
        for class in contention.classes.iter().rev().flatten() {
            let Some((_, _, lane)) = self.scheduler.order.first(class.root) else { continue };
            best = match best {
                Some(higher) if !self.passes_by_age(limit, lane, higher, now) => Some(higher),
                _ => Some(lane),
            };
        }
        best
    }

    /// Whether `low`, of a lower base priority, goes before `high` at this limit because of its age.
    pub(super) fn passes_by_age(&self, limit: LimitId, low: LaneId, high: LaneId, now: Nanos) -> bool {
        self.level(low, now) > self.level(high, now) && self.has_credit(limit, low)
    }

    pub(super) fn has_credit(&self, limit: LimitId, lane: LaneId) -> bool {
        let (cap, _) = self.credit_rule(limit, self.scheduler.lanes[lane].skeleton);
        let cost = self.head_cost(lane, limit);
        let credit = self.limits[limit].contention.as_ref().map_or(0, |held| held.credit);
        credit >= i128::from(cost.min(cap)) * MILLION
    }

    /// The most credit that is saved up at a limit, in units, and the share that each grant adds, in
    /// millionths.
    pub(super) fn credit_rule(&self, limit: LimitId, skeleton: RouteId) -> (u64, i128) {
        let service = self.routing.skeletons[skeleton].service;
        let share = self.routing.services[service].aging_share;
        let whole = self.limits.specs[self.limits[limit].spec].definition.whole();
        let cap = (whole as u128 * share as u128 / MILLION as u128) as u64;
        (cap.max(1), share)
    }

    /// Base priority plus one level for every `aging` that its first call has waited.
    pub(super) fn level(&self, lane: LaneId, now: Nanos) -> u64 {
        let held = &self.scheduler.lanes[lane];
        let aging = self.aging_of(lane);
        let waited =
            self.head(lane).map_or(0, |head| whole_nanos(now.since(self.scheduler.waiters[head].enqueued)));
        held.class as u64 + waited / aging
    }

    pub(super) fn aging_of(&self, lane: LaneId) -> u64 {
        let skeleton = &self.routing.skeletons[self.scheduler.lanes[lane].skeleton];
        self.routing.services[skeleton.service].aging
    }

    /// When the order at a limit changes by age alone, the lanes staying as they are.
    pub(super) fn next_aging(&self, limit: LimitId, now: Nanos) -> Nanos {
        let Some(contention) = self.limits[limit].contention.as_ref() else { return Nanos::NEVER };
        let classes = contention.classes.iter().flatten();
        let firsts =
            classes.filter_map(|class| self.scheduler.order.first(class.root)).map(|(_, _, lane)| lane);
        if firsts.clone().nth(1).is_none() {
            return Nanos::NEVER;
        }
        firsts.map(|lane| self.next_level(lane, now)).min().unwrap_or(Nanos::NEVER)
    }

    /// When the lane's first call has waited long enough for the next level.
    pub(super) fn next_level(&self, lane: LaneId, now: Nanos) -> Nanos {
        let aging = self.aging_of(lane);
        let enqueued = self.head(lane).map_or(now, |head| self.scheduler.waiters[head].enqueued);
        let waited = whole_nanos(now.since(enqueued));
        Nanos(enqueued.0.saturating_add((waited / aging + 1).saturating_mul(aging)))
    }

    /// Whether lane `a` goes before lane `b` at `limit`, where `b` need not be bound there.
    pub(super) fn precedes(&self, limit: LimitId, a: LaneId, b: LaneId, now: Nanos) -> bool {
        let (class_a, class_b) = (self.scheduler.lanes[a].class, self.scheduler.lanes[b].class);
        if class_a == class_b {
            return self.key_at(limit, a) < self.key_at(limit, b);
        }
        if class_a > class_b {
            !self.passes_by_age(limit, b, a, now)
        } else {
            self.passes_by_age(limit, a, b, now)
        }
    }

    /// Between lanes that are bound at different limits: level, base priority, arrival.
    pub(super) fn standing(&self, lane: LaneId, now: Nanos) -> (std::cmp::Reverse<(u64, u8)>, u64) {
        let seq = self.head(lane).map_or(u64::MAX, |head| self.scheduler.waiters[head].seq);
        (std::cmp::Reverse((self.level(lane, now), self.scheduler.lanes[lane].class as u8)), seq)
    }

    /// What the lane's first call costs at a limit of its route.
    pub(super) fn head_cost(&self, lane: LaneId, limit: LimitId) -> u64 {
        let route = &self.scheduler.lanes[lane].route;
        let slot = route.iter().find(|(id, _)| *id == limit).map(|(_, slot)| *slot);
        match (slot, self.head(lane)) {
            (Some(slot), Some(head)) => self.run_of(head).like.units[slot as usize],
            _ => 0,
        }
    }

    pub(super) fn head_units(&self, lane: LaneId) -> Units {
        self.head(lane).map_or(Units::default(), |head| self.run_of(head).like.units)
    }

    /// Everything about waiting at a limit, made if it is not there.
    pub(super) fn contention(&mut self, limit: LimitId) -> &mut Contention {
        let limit = &mut self.limits[limit];
        (limit.plain, limit.promised) = (false, false);
        limit.contention.get_or_insert_default()
    }

    pub(super) fn class(&self, limit: LimitId, class: u8) -> Option<&Class> {
        self.limits[limit].contention.as_ref()?.classes[class as usize].as_deref()
    }

    fn key_at(&self, limit: LimitId, lane: LaneId) -> LaneKey {
        let held = &self.scheduler.lanes[lane];
        let tag = self.class(limit, held.class as u8).map_or(0, |class| class.tag(held.loop_));
        let seq = self.head(lane).map_or(u64::MAX, |head| self.scheduler.waiters[head].seq);
        (tag, seq, lane)
    }

    /// Where a lane belongs in the queue it is bound to: its key there, and the least that it costs.
    fn rank(&self, lane: LaneId) -> Option<(LaneKey, u64)> {
        let Lane { head, runs, bound, class, loop_, slot, .. } = self.scheduler.lanes[lane];
        let least = self.scheduler.run_order.summary(runs)?[slot as usize];
        let tag = self.class(bound, class as u8)?.tag(loop_);
        Some(((tag, self.scheduler.waiters[head].seq, lane), least))
    }

    fn enter(&mut self, lane: LaneId) {
        let Some((key, least)) = self.rank(lane) else { return };
        let held = &mut self.scheduler.lanes[lane];
        (held.key, held.least) = (key, least);
        if let Some(contention) = self.limits[held.bound].contention.as_mut()
            && let Some(class) = &mut contention.classes[held.class as usize]
        {
            self.scheduler.order.insert(&mut class.root, key, least);
        }
    }

    /// Moves a lane to where it now belongs.
    fn move_up_or_down(&mut self, lane: LaneId) {
        let Some((key, least)) = self.rank(lane) else { return };
        let held = &mut self.scheduler.lanes[lane];
        if (key, least) == (held.key, held.least) {
            return;
        }
        let before = std::mem::replace(&mut held.key, key);
        held.least = least;
        if let Some(contention) = self.limits[held.bound].contention.as_mut()
            && let Some(class) = &mut contention.classes[held.class as usize]
        {
            self.scheduler.order.replace(&mut class.root, before, key, least);
        }
    }

    fn leave(&mut self, lane: LaneId) {
        let Lane { key, bound, class, .. } = self.scheduler.lanes[lane];
        if let Some(contention) = self.limits[bound].contention.as_mut()
            && let Some(held) = contention.classes[class as usize].as_mut()
        {
            self.scheduler.order.remove(&mut held.root, key);
        }
    }
}

/// A weight in units of 2⁻³² from the inverse in units of 2⁻³².
fn weight(inverse: u64) -> u128 {
    (1_u128 << 64) / u128::from(inverse.max(1))
}
