//! When to look at a limit again: marked to be looked at now, or armed for a time.

use std::cmp::Reverse;

use super::layout::Use;
use super::{Engine, Units};
use crate::model::time::Nanos;
use crate::model::{LaneId, LimitId};

impl Engine {
    /// Marks a limit to be looked at.
    pub(super) fn mark(&mut self, limit: LimitId) {
        if self.limits[limit].contention.is_some() {
            self.scheduler.dirty.push(Reverse(limit));
        }
    }

    /// Marks every limit of a route, and whoever depends on what is left there.
    pub(super) fn mark_route(&mut self, route: &[Use]) {
        for &(limit, _) in route {
            self.touched(limit);
        }
    }

    /// Something changed at a limit: looks again there and wherever that decides.
    pub(super) fn touched(&mut self, limit: LimitId) {
        let Some(contention) = self.limits[limit].contention.as_mut() else { return };
        self.scheduler.dirty.push(Reverse(limit));
        if !contention.watchers.is_empty() {
            self.scheduler.dirty.extend(contention.watchers.drain(..).map(Reverse));
        }
        if (1..=super::judge::MANY).contains(&contention.through.len()) {
            self.scheduler.dirty.extend(contention.through.keys().copied().map(Reverse));
        }
    }

    /// Marks the other limits of a lane's route at which somebody waits.
    pub(super) fn mark_others(&mut self, limit: LimitId, lane: LaneId) {
        for &(other, _) in self.scheduler.lanes[lane].route.iter().filter(|(other, _)| *other != limit) {
            let waiting = self.limits[other].contention.as_ref().is_some_and(|held| held.bound > 0);
            if waiting {
                self.scheduler.dirty.push(Reverse(other));
            }
        }
    }

    /// Sets when a limit is looked at next.
    pub(super) fn arm(&mut self, limit: LimitId, wake: Nanos) {
        let Some(contention) = self.limits[limit].contention.as_mut() else { return };
        let before = std::mem::replace(&mut contention.wake, wake);
        if before == wake {
            return;
        }
        if !before.is_never() {
            self.scheduler.timers.remove((before, limit));
        }
        if !wake.is_never() {
            self.scheduler.timers.insert((wake, limit));
        }
    }

    pub(super) fn arm_sooner(&mut self, limit: LimitId, wake: Nanos) {
        if self.limits[limit].contention.as_ref().is_some_and(|held| wake < held.wake) {
            self.arm(limit, wake);
        }
    }

    /// Looks at `limit` again when a call of `lane` could go that another limit holds back.
    pub(super) fn watch(&mut self, limit: LimitId, lane: LaneId, now: Nanos) {
        let route = self.scheduler.lanes[lane].route.clone();
        for &(other, _) in route.iter().filter(|(other, _)| *other != limit) {
            let watchers = &mut self.contention(other).watchers;
            if !watchers.contains(&limit) {
                watchers.push(limit);
            }
        }
        self.arm_sooner(limit, self.next_level(lane, now).min(self.next_withheld(lane, now)));
        let Some(least) = self.scheduler.run_order.summary(self.scheduler.lanes[lane].runs) else { return };
        for &(other, slot) in route.iter() {
            for at in std::iter::once(other).chain(self.through(other)) {
                if let Some(first) = self.first(at, now) {
                    let grows = self.grows_beside(other, first, least[slot as usize], now);
                    self.arm_sooner(limit, grows);
                }
            }
        }
        let opens = self.opens(lane, &route, &least, now);
        if opens > now {
            self.arm_sooner(limit, opens);
            return;
        }
        // Each kind of unit has room for some call, but no call for all kinds: look at each.
        let mut costs = Vec::new();
        self.scheduler.run_order.each(self.scheduler.lanes[lane].runs, &mut |(_, run)| {
            costs.push(self.scheduler.runs[run].like.units);
            true
        });
        for units in costs {
            let opens = self.opens(lane, &route, &units, now);
            if opens > now {
                self.arm_sooner(limit, opens);
            }
        }
    }

    /// When every limit of a route has room for `units`, other calls apart.
    fn opens(&self, lane: LaneId, route: &[Use], units: &Units, now: Nanos) -> Nanos {
        let mut opens = Nanos::ZERO;
        for &(limit, slot) in route {
            let held = &self.limits[limit];
            let cost = units[slot as usize];
            if cost > 0 || held.meter.is_in_flight() {
                opens = opens.max(held.earliest(cost, self.withheld(limit, lane, now), now));
            }
        }
        opens
    }

    /// A first call that has room and yet does not go, since another limit holds it, leaves more beside it as room
    /// grows: when it leaves enough at `limit` for a call that costs at least `least`, or for a larger one.
    pub(super) fn grows_beside(&mut self, limit: LimitId, first: LaneId, least: u64, now: Nanos) -> Nanos {
        let cost = self.head_cost(first, limit);
        let in_flight = self.limits[limit].meter.is_in_flight();
        if in_flight || cost == 0 || self.booking(first, now) > now {
            return Nanos::NEVER;
        }
        let withheld = self.withheld(limit, first, now);
        let held = &mut self.limits[limit];
        let spare = held.meter.spare(now, cost, withheld, now);
        let grows = held.earliest(cost.saturating_add(least.max(spare.saturating_add(1))), withheld, now);
        if grows > now { grows } else { Nanos::NEVER }
    }
}
