//! How long a waiting call will wait, and where it stands.
//!
//! A forecast adds up what ranks before the call at the limit that holds it: all that waits there with a
//! higher priority, its own loop's earlier calls, and of the other loops of its priority what their weights
//! give them meanwhile. Waits for slots are not forecast.

use std::sync::Arc;
use std::time::Duration;

use super::lane::Lane;
use super::{Engine, Ticket};
use crate::time::Nanos;
use crate::tree::NIL;

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
        let waiter = &self.waiters[ticket.index as usize];
        let (lane, units, seq) = (waiter.lane, waiter.units, waiter.seq);
        let Lane { bound, ref route, .. } = self.lanes[lane as usize];
        let route = route.clone();
        let mut when = now;
        // What its own lane takes before it is sure to be ahead of it at every limit. The call itself is
        // the last of its lane when this is asked at its arrival; else this is an upper bound.
        for &(limit, slot) in route.iter() {
            let held = &self.limits[limit as usize];
            if held.meter.is_in_flight() || units[slot as usize] == 0 {
                continue;
            }
            let mut ahead = self.ahead_in_lane(lane, seq, slot as usize);
            if limit == bound {
                ahead = ahead.saturating_add(self.ahead_of_lane(lane, ahead));
            }
            let needs = ahead.saturating_add(u128::from(units[slot as usize]));
            let withheld = self.withheld(limit, lane, now);
            let held = &mut self.limits[limit as usize];
            when = when.max(held.meter.flows_by(needs, withheld, now));
        }
        when
    }

    /// Units of earlier calls of the same lane.
    fn ahead_in_lane(&self, lane: u32, seq: u64, slot: usize) -> u128 {
        let held = &self.lanes[lane as usize];
        match self.calls.last(held.calls) {
            Some((last, waiter)) if last == seq => {
                held.demand[slot] - u128::from(self.waiters[waiter as usize].units[slot])
            }
            _ => {
                let mut sum = 0;
                self.calls.each(held.calls, &mut |(at, waiter)| {
                    if at < seq {
                        sum += u128::from(self.waiters[waiter as usize].units[slot]);
                    }
                    at < seq
                });
                sum
            }
        }
    }

    /// Units of other lanes at the limit that holds this one, which go before a call that has `own` units
    /// of its own lane before it.
    fn ahead_of_lane(&self, lane: u32, own: u128) -> u128 {
        let Lane { bound, slot, class, loop_, skeleton, .. } = self.lanes[lane as usize];
        if bound == NIL {
            return 0;
        }
        let Some(contention) = &self.limits[bound as usize].contention else { return 0 };
        let higher = contention.classes[class as usize + 1..].iter().flatten().map(|class| class.demand);
        let mut ahead = higher.fold(0_u128, u128::saturating_add);
        if let Some(held) = &contention.classes[class as usize] {
            let inverse = u128::from(self.skeletons[skeleton as usize].inverse);
            let mine = self.lanes[lane as usize].demand[slot as usize];
            let start = held.tag(loop_).saturating_add(own.saturating_mul(inverse));
            // While this loop's tag goes from the virtual time to `start`, each other loop is served its
            // weight times that stretch.
            let own_weight = (1_u128 << 64) / inverse.max(1);
            let others = held.weights.saturating_sub(own_weight);
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
        let waiter = &self.waiters[ticket.index as usize];
        let (lane, seq, enqueued) = (waiter.lane, waiter.seq, waiter.enqueued);
        let bound = self.lanes[lane as usize].bound;
        let slot_wait = self.limits[bound as usize].meter.is_in_flight();
        let when = self.forecast(ticket, now);
        Some(Place {
            position: 1 + self.ranked_before(lane, seq, now),
            limit: self.limit_name(bound),
            expected: (!slot_wait && !when.is_never()).then(|| when.since(now)),
            waited: now.since(enqueued),
        })
    }

    /// How many calls at the same limit rank before one. Looks at all of them.
    fn ranked_before(&self, lane: u32, seq: u64, now: Nanos) -> usize {
        let Lane { bound, class, .. } = self.lanes[lane as usize];
        let Some(contention) = &self.limits[bound as usize].contention else { return 0 };
        let mine = self.start_tag(lane, seq);
        let mut before = 0;
        for (index, held) in contention.classes.iter().enumerate() {
            let Some(held) = held else { continue };
            self.order.each(held.root, &mut |(_, _, other)| {
                let calls = self.lanes[other as usize].calls;
                let higher = index > class as usize && !self.passes_by_age(bound, lane, other, now);
                let older = index < class as usize && self.passes_by_age(bound, other, lane, now);
                self.calls.each(calls, &mut |(at, _)| {
                    let first = older && Some(at) == self.calls.first(calls).map(|(first, _)| first);
                    let same = index == class as usize && (self.start_tag(other, at), at) < (mine, seq);
                    before += usize::from(higher || first || same);
                    true
                });
                true
            });
        }
        before
    }

    /// The start tag that a call of a lane will have at the limit that holds the lane.
    fn start_tag(&self, lane: u32, seq: u64) -> u128 {
        let Lane { slot, skeleton, tag, .. } = self.lanes[lane as usize];
        let inverse = u128::from(self.skeletons[skeleton as usize].inverse);
        let ahead = self.ahead_in_lane(lane, seq, slot as usize);
        tag.saturating_add(ahead.saturating_mul(inverse))
    }
}
