//! Lines: lanes of calls that are all alike, as most are.
//!
//! Who *joins* one goes after all of them, so nothing changes for anybody, and whether the line moves by now is left to
//! when it is next seen to: for many at once, and not by everybody who comes. Unless that is late: a program that is busy
//! has its timers wait, and whoever comes then sees to the line.
//!
//! A line *moves* in one step where nobody else waits for anything on its way: what one of its calls is let go for, the
//! next one is let go for too, as long as there is room. What each takes is taken call by call, as it would be if each
//! were judged anew; what they are to others, which is rank, credit and what to look at again, is seen to once for all.

use std::time::Duration;

use super::lane::{Lane, Run, Waiter};
use super::layout::Use;
use super::pass::Arrival;
use super::roster::Roster;
use super::route::Skeleton;
use super::{Engine, Ticket, Units, Verdict};
use crate::model::call::Call;
use crate::model::time::Nanos;
use crate::model::{BatchId, LaneId, WaiterId};

/// A line that should have moved so long ago is not left to its timer.
const OVERDUE: Duration = Duration::from_millis(2);

impl Engine {
    /// A call comes to a line of calls that cost what it costs. Not where more has to be known: who has left a queue that
    /// is full, how a breaker is, who goes past the line because it would wait there for too long.
    pub(super) fn join(
        &mut self,
        arrival: &mut Arrival,
        call: &Call,
        deadline: Nanos,
        now: Nanos,
    ) -> Option<Ticket> {
        let lane = self.lane_of(arrival)?;
        let Skeleton { service, breaker, observe, .. } = self.routing.skeletons[arrival.skeleton];
        let waiting = Roster::waiting(self.scheduler.rosters.of(service));
        if !breaker.is_nil() || observe || waiting >= self.routing.services[service].max_waiting {
            return None;
        }
        let Lane { tail, len, bound, ref route, .. } = self.scheduler.lanes[lane];
        let Run { len: alike, ref like, .. } = *self.run_of(tail);
        if like.units != arrival.units {
            // Those who wait may have been brought down to what fits.
            self.fit_units(&mut arrival.units, route, arrival.class, call.said.estimated);
        }
        if alike != len || like.units != arrival.units {
            return None;
        }
        let wake = self.limits.all.get(bound).and_then(|held| Some(held.contention.as_ref()?.wake));
        if wake.is_none_or(|wake| now.since(wake) > OVERDUE) {
            return None;
        }
        let same = like.estimated == call.said.estimated && like.shape == call.said.shape;
        let arrived = self.arrived(now);
        let ahead = self.ahead_of_arrival(lane, arrived);
        if self.forecast_behind(lane, &ahead, &arrival.units, bound, now) > deadline {
            return None;
        }
        let waiter = match same {
            false => self.seat(arrival, call, deadline, arrived).0,
            true => {
                let waiter = self.new_waiter(arrived);
                self.follow(waiter, lane, deadline);
                waiter
            }
        };
        Some(Ticket { index: waiter, generation: self.scheduler.waiters[waiter].generation })
    }

    /// Puts a call behind the last of a lane, which it is like.
    fn follow(&mut self, waiter: WaiterId, lane: LaneId, deadline: Nanos) {
        self.scheduler.deadlines.insert(waiter, deadline);
        self.scheduler.waiting += 1;
        self.count_waiting(lane, 1);
        let held = &mut self.scheduler.lanes[lane];
        let tail = std::mem::replace(&mut held.tail, waiter);
        let last = &mut self.scheduler.waiters[tail];
        last.behind = waiter;
        let index = last.run;
        let run = &mut self.scheduler.runs[index];
        run.len += 1;
        held.count(&run.like.units);
        let cost = run.like.units[held.slot as usize];
        let own = &mut self.scheduler.waiters[waiter];
        (own.run, own.ahead, own.behind) = (index, tail, WaiterId::NIL);
        self.change_demand(lane, cost.into());
    }

    /// Whether nobody but the calls of a lane waits for anything on its way, and room is all that matters there.
    pub(super) fn has_way_to_itself(&self, lane: LaneId) -> bool {
        let Lane { skeleton, ref route, .. } = self.scheduler.lanes[lane];
        let alone = |&(limit, _): &Use| {
            let held = &self.limits[limit];
            let passing = held.contention.as_ref().map(|contention| contention.passing.iter().sum::<u32>());
            passing == Some(1) && held.lent.is_none() && held.meter.counts() && !self.reserves(limit)
        };
        self.routing.skeletons[skeleton].penalty == 0 && route.iter().all(alone)
    }

    /// Grants the first call of a lane that has its way to itself, and those behind it that are alike and fit.
    pub(super) fn let_line_go(&mut self, lane: LaneId, now: Nanos) {
        let Lane { ref route, bound, loop_, class, skeleton, head, .. } = self.scheduler.lanes[lane];
        let route = route.clone();
        let index = self.scheduler.waiters[head].run;
        let Run { len, ref like, .. } = self.scheduler.runs[index];
        let units = like.units;
        let by_time = !bound.is_nil() && !self.limits[bound].meter.is_in_flight();
        let paced = by_time && route.iter().any(|(limit, _)| self.limits[*limit].meter.is_paced());

        let (mut next, mut went, mut quiet) = (head, 0, false);
        while went < len && (went == 0 || self.have_room(&route, &units, now)) {
            let Waiter { behind, enqueued, ref mut generation, .. } = self.scheduler.waiters[next];
            let ticket = Ticket { index: next, generation: *generation };
            *generation = generation.wrapping_add(1);
            let stamp = match paced {
                true => self.booked_for(lane, enqueued, now),
                false => now,
            };
            for &(limit, slot) in route.iter() {
                self.limits[limit].meter.take(units[slot as usize], stamp, now);
            }
            let grant = self.record(skeleton, loop_, class, &units, now);
            self.in_flight[&grant].held_by = self.scheduler.lanes[lane].stations.longest(enqueued, now);
            if went == 0 {
                quiet = self.is_of_no_concern(&grant);
            }
            let grant = if quiet { grant.quiet() } else { grant };
            self.scheduler.verdicts.push((ticket, Verdict::Granted(grant)));
            self.scheduler.deadlines.remove(next);
            self.scheduler.waiters.free(next);
            next = behind;
            went += 1;
        }

        for &(limit, slot) in route.iter() {
            let cost = units[slot as usize];
            let payer = (loop_, skeleton, class as u8);
            self.earn_credit(limit, skeleton, cost.saturating_mul(went.into()));
            // The last one by itself: the time of the others goes by when it began.
            if went > 1 {
                let before = i128::from(cost) * i128::from(went - 1);
                self.charge_flow(limit, payer, before, false, lane);
            }
            self.charge_flow(limit, payer, cost.into(), limit == bound, lane);
        }
        self.behead(lane, index, went, next);
        self.replace_lane(lane);
        if next.is_nil() {
            self.drop_lane(lane);
        }
    }

    /// The first calls of a lane, all of its first run, are gone.
    fn behead(&mut self, lane: LaneId, index: BatchId, went: u32, next: WaiterId) {
        self.scheduler.waiting -= went as usize;
        self.count_waiting(lane, -(went as i32));
        let held = &mut self.scheduler.lanes[lane];
        let run = &mut self.scheduler.runs[index];
        run.len -= went;
        run.first = next;
        held.len -= went;
        held.head = next;
        for (sum, units) in held.demand.iter_mut().zip(run.like.units) {
            *sum -= u128::from(units) * u128::from(went);
        }
        let less = i128::from(run.like.units[held.slot as usize]) * i128::from(went);
        if run.len == 0 {
            self.scheduler.run_order.remove(&mut held.runs, (run.seq, index));
            self.scheduler.runs.free(index);
        }
        match next {
            WaiterId::NIL => held.tail = WaiterId::NIL,
            next => self.scheduler.waiters[next].ahead = WaiterId::NIL,
        }
        self.change_demand(lane, -less);
    }

    /// Whether there is room for one more on a way that a lane has to itself.
    fn have_room(&mut self, route: &[Use], units: &Units, now: Nanos) -> bool {
        route.iter().all(|&(limit, slot)| {
            let (held, cost) = (&mut self.limits[limit], units[slot as usize]);
            cost == 0 && !held.meter.is_in_flight() || held.meter.fits(cost, 0, now)
        })
    }
}
