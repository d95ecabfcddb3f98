//! How long a waiting call will wait, and where it stands.
//!
//! A forecast adds up what ranks before the call at the limit that holds it: all that waits there with a
//! higher priority, its own loop's earlier calls, and of the other loops of its priority what their weights
//! give them meanwhile. Waits for slots are not forecast.

use std::sync::Arc;
use std::time::Duration;

use super::lane::Arrived;
use super::lane::{Lane, Like, Run};
use super::{Engine, MAX_UNIT_KINDS, Ticket, Units};
use crate::model::time::Nanos;
use crate::model::{LaneId, LimitId, WaiterId};

/// Where a waiting call stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// 1 for the next to go at the limit that holds it.
    pub position: usize,
    /// The limit that decides its time.
    pub limit: Arc<str>,
    /// How long it is expected to wait from now on; unknown if it waits for a slot.
    pub expected: Option<Duration>,
    /// How long it has waited.
    pub waited: Duration,
}

impl Engine {
    /// When a waiting call is expected to go; the present time if that cannot be known.
    pub(super) fn forecast(&mut self, ticket: Ticket, now: Nanos) -> Nanos {
        let Run { lane, like: Like { units, .. }, .. } = *self.run_of(ticket.index);
        let ahead = self.ahead_in_lane(lane, ticket.index);
        self.forecast_behind(lane, &ahead, &units, self.scheduler.lanes[lane].bound, now)
    }

    /// When a call of `lane` is expected to go that has `ahead` of its own lane before it, if `bound` holds the
    /// lane.
    pub(super) fn forecast_behind(
        &mut self,
        lane: LaneId,
        ahead: &[u128; MAX_UNIT_KINDS],
        units: &Units,
        bound: LimitId,
        now: Nanos,
    ) -> Nanos {
        let mut when = now;
        // What its own lane takes before it is sure to be ahead of it at every limit.
        for index in 0..self.scheduler.lanes[lane].route.len() {
            let (limit, slot) = self.scheduler.lanes[lane].route[index];
            let cost = units[slot as usize];
            if cost == 0 || self.limits[limit].meter.is_in_flight() {
                continue;
            }
            let mut ahead = ahead[slot as usize];
            if limit == bound {
                ahead = ahead.saturating_add(self.ahead_of_lane(lane, bound, slot, ahead));
            }
            let needs = ahead.saturating_add(u128::from(cost));
            let withheld = self.withheld(limit, lane, now);
            when = when.max(self.limits[limit].meter.flows_by(needs, withheld, now));
        }
        when
    }

    /// Units of the calls of a lane that came before one that is about to wait there.
    pub(super) fn ahead_of_arrival(&self, lane: LaneId, arrived: Arrived) -> [u128; MAX_UNIT_KINDS] {
        let Lane { tail, demand, .. } = self.scheduler.lanes[lane];
        let earlier = |call: &WaiterId| self.scheduler.waiters[*call].seq < arrived.seq;
        if earlier(&tail) {
            return demand;
        }
        let mut ahead = [0; MAX_UNIT_KINDS];
        for call in self.calls_of(lane).take_while(earlier) {
            add(&mut ahead, &self.run_of(call).like.units);
        }
        ahead
    }

    /// Units of earlier calls of the same lane.
    fn ahead_in_lane(&self, lane: LaneId, waiter: WaiterId) -> [u128; MAX_UNIT_KINDS] {
        let held = &self.scheduler.lanes[lane];
        let mut ahead = [0; MAX_UNIT_KINDS];
        if held.tail == waiter {
            let own = &self.run_of(waiter).like.units;
            ahead = std::array::from_fn(|slot| held.demand[slot] - u128::from(own[slot]));
        } else {
            for earlier in self.calls_of(lane).take_while(|earlier| *earlier != waiter) {
                add(&mut ahead, &self.run_of(earlier).like.units);
            }
        }
        ahead
    }

    /// Units of other lanes at the limit that holds this one, or will, which go before a call that has `own`
    /// units of its own lane before it.
    fn ahead_of_lane(&self, lane: LaneId, limit: LimitId, slot: u8, own: u128) -> u128 {
        let Lane { bound, class, loop_, skeleton, .. } = self.scheduler.lanes[lane];
        let Some(contention) = &self.limits[limit].contention else { return 0 };
        if bound == limit && contention.bound == 1 {
            return 0;
        }
        let higher = contention.classes[class as usize + 1..].iter().flatten().map(|class| class.demand);
        let mut ahead = higher.fold(0_u128, u128::saturating_add);
        if let Some(held) = &contention.classes[class as usize] {
            let inverse = u128::from(self.routing.skeletons[skeleton].inverse);
            let mine = if bound == limit { self.scheduler.lanes[lane].demand[slot as usize] } else { 0 };
            let start = held.tag(loop_).saturating_add(own.saturating_mul(inverse));
            // While this loop's tag goes from the virtual time to `start`, each other loop is served its
            // weight times that stretch.
            let waits = held.flows.get(&loop_).filter(|flow| !flow.lanes.is_empty());
            let others = held.weights.saturating_sub(waits.map_or(0, |flow| flow.weight));
            let stretch = start.saturating_sub(held.vtime) >> 32;
            let served = stretch.saturating_mul(others) >> 32;
            ahead = ahead.saturating_add(served.min(held.demand.saturating_sub(mine)));
        }
        ahead
    }

    /// Where a waiting call stands now.
    pub fn place(&mut self, ticket: Ticket, now: Nanos) -> Option<Place> {
        let now = self.clock(now);
        if !self.is_waiting(ticket) {
            return None;
        }
        let lane = self.run_of(ticket.index).lane;
        let enqueued = self.scheduler.waiters[ticket.index].enqueued;
        let bound = self.scheduler.lanes[lane].bound;
        let slot_wait = self.limits[bound].meter.is_in_flight();
        let when = self.forecast(ticket, now);
        Some(Place {
            position: 1 + self.ranked_before(lane, ticket.index, now),
            limit: self.limit_name(bound),
            expected: (!slot_wait && !when.is_never()).then(|| when.since(now)),
            waited: now.since(enqueued),
        })
    }

    /// How many calls at the same limit rank before one. Looks at all of them.
    fn ranked_before(&self, lane: LaneId, waiter: WaiterId, now: Nanos) -> usize {
        let ahead = self.ahead_in_lane(lane, waiter);
        let seq = self.scheduler.waiters[waiter].seq;
        self.ranked_ahead(self.scheduler.lanes[lane].bound, lane, &ahead, seq, now)
    }

    /// How many calls at `limit` rank before one of `lane` that has `ahead` of its own lane before it, whether the lane
    /// stands there or would.
    pub(super) fn ranked_ahead(
        &self,
        limit: LimitId,
        lane: LaneId,
        ahead: &[u128; MAX_UNIT_KINDS],
        seq: u64,
        now: Nanos,
    ) -> usize {
        let Lane { bound, class, key: (own_tag, ..), skeleton, loop_, ref route, .. } =
            self.scheduler.lanes[lane];
        let Some(contention) = &self.limits[limit].contention else { return 0 };
        let slot = route.iter().find(|(id, _)| *id == limit).map_or(0, |(_, slot)| *slot);
        let inverse = u128::from(self.routing.skeletons[skeleton].inverse);
        let tag = match &contention.classes[class as usize] {
            Some(held) if bound != limit => held.tag(loop_),
            _ => own_tag,
        };
        let mine = (tag.saturating_add(ahead[slot as usize].saturating_mul(inverse)), seq);
        let mut before = 0;
        for (index, held) in contention.classes.iter().enumerate() {
            let Some(held) = held else { continue };
            self.scheduler.order.each(held.root, &mut |(_, _, other)| {
                let higher = index > class as usize && !self.passes_by_age(limit, lane, other, now);
                let older = index < class as usize && self.passes_by_age(limit, other, lane, now);
                if higher {
                    before += self.scheduler.lanes[other].len as usize;
                } else if older {
                    before += 1;
                } else if index == class as usize {
                    before += self.start_tags(other).take_while(|theirs| *theirs < mine).count();
                }
                true
            });
        }
        before
    }

    /// The start tags that the calls of a lane will have at the limit that holds the lane, and their arrivals.
    fn start_tags(&self, lane: LaneId) -> impl Iterator<Item = (u128, u64)> + '_ {
        let Lane { slot, skeleton, key: (mut tag, ..), .. } = self.scheduler.lanes[lane];
        let inverse = u128::from(self.routing.skeletons[skeleton].inverse);
        self.calls_of(lane).map(move |call| {
            let cost = u128::from(self.run_of(call).like.units[slot as usize]);
            let start = tag;
            tag = tag.saturating_add(cost.saturating_mul(inverse));
            (start, self.scheduler.waiters[call].seq)
        })
    }
}

fn add(sum: &mut [u128; MAX_UNIT_KINDS], units: &Units) {
    for (sum, units) in sum.iter_mut().zip(units) {
        *sum += u128::from(*units);
    }
}
