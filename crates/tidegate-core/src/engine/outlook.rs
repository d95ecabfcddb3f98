//! How long a call would wait that has not come yet: asked without taking anything, and without a place in the queue.
//!
//! What is told is what the engine itself would tell the call if it came now, by the same forecast and the same ranks, and
//! not a second reckoning beside them. Nobody who waits goes sooner or later because somebody asked.

use std::sync::Arc;
use std::time::Duration;

use super::judge::Role;
use super::lane::Arrived;
use super::pass::Arrival;
use super::{Engine, MAX_UNIT_KINDS, Units};
use crate::model::call::Call;
use crate::model::refusal::{Reason, Refusal};
use crate::model::time::Nanos;
use crate::model::{LaneId, LimitId};

/// What a call would meet if it came now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outlook {
    /// It would go at once.
    Goes,
    /// It would wait.
    Waits {
        /// The limit, window or breaker that decides its time.
        limit: Arc<str>,
        /// 1 if nobody there goes before it.
        position: usize,
        /// How long it is expected to wait; unknown if it waits for a slot.
        expected: Option<Duration>,
    },
    /// It can never go.
    Never {
        /// The limit that it does not fit.
        limit: Arc<str>,
        /// The most that a call of its priority may cost there.
        capacity: u64,
    },
}

impl Engine {
    /// What a call would meet if it came now and had all the time. Nothing is taken for it.
    ///
    /// # Errors
    /// If it names what is not there.
    pub fn outlook(&mut self, call: &Call, now: Nanos) -> Result<Outlook, Refusal> {
        let now = self.clock(now);
        self.advance(now);
        let skeleton = self.route_for(call, now)?;
        let mut arrival = self.arrive(skeleton, call, now);
        if let Err(refusal) = self.fit_or_refuse(&mut arrival, call, now) {
            return match (refusal.reason, refusal.limit) {
                (Reason::TooLarge { capacity, .. }, Some(limit)) => Ok(Outlook::Never { limit, capacity }),
                (reason, limit) => Err(Refusal { reason, limit, ..refusal }),
            };
        }
        if self.routing.skeletons[skeleton].observe {
            return Ok(Outlook::Goes);
        }
        Ok(self.look_ahead(&arrival, call, now))
    }

    fn look_ahead(&mut self, arrival: &Arrival, call: &Call, now: Nanos) -> Outlook {
        let units = &arrival.units;
        let arrived = Arrived { seq: self.scheduler.seq + 1, at: now };
        if let Some(lane) = self.lane_of(arrival) {
            if self.may_pass(lane, units, now) {
                return Outlook::Goes;
            }
            let ahead = self.ahead_of_arrival(lane, arrived);
            return self.would_wait(self.scheduler.lanes[lane].bound, lane, &ahead, units, now);
        }
        // It stands in no queue, and is gone before anybody has seen it.
        let (waiter, lane) = self.seat(arrival, call, Nanos::NEVER, arrived);
        let outlook = match self.obstacle(lane, units, Role::Other, now) {
            Some(held) => self.would_wait(held.limit, lane, &[0; MAX_UNIT_KINDS], units, now),
            None => Outlook::Goes,
        };
        self.pull_waiter(waiter);
        outlook
    }

    /// What a call of `lane` is told that has `ahead` of its own lane before it, if `limit` holds it.
    fn would_wait(
        &mut self,
        limit: LimitId,
        lane: LaneId,
        ahead: &[u128; MAX_UNIT_KINDS],
        units: &Units,
        now: Nanos,
    ) -> Outlook {
        let position = 1 + self.ranked_ahead(limit, lane, ahead, self.scheduler.seq + 1, now);
        let when = match self.limits[limit].meter.is_in_flight() {
            // A slot comes back at no known time, but the next probe of a breaker goes at a known one.
            true => self.limits[limit].meter.earliest(1, 0),
            false => self.forecast_behind(lane, ahead, units, limit, now),
        };
        let expected = (!when.is_never() && when > now).then(|| when.since(now));
        Outlook::Waits { limit: self.limit_name(limit), position, expected }
    }
}
