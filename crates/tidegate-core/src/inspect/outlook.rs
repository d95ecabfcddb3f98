//! How long a call would wait if it came now, asked without taking anything and without a place in the queue.
//!
//! The answer comes from the same forecast and the same ranks that the call itself would meet. No waiting call goes sooner or
//! later because of the question.

use crate::calls::Arrival;
use crate::model::call::Call;
use crate::model::time::Nanos;
use crate::model::{LaneId, LimitId, MAX_UNIT_KINDS, Units};
use crate::routing::names;
use crate::routing::state::Base;
use crate::scheduler::eligibility::Role;
use crate::scheduler::lane::Arrived;
use crate::scheduler::state::Scheduler;
use crate::scheduler::{eligibility, forecast, lanes, placement};
use std::sync::Arc;
use std::time::Duration;

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
        /// 1 if no call there goes before it.
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

pub(crate) fn look_ahead(
    s: &mut Scheduler,
    base: &mut Base,
    arrival: &Arrival,
    call: &Call,
    now: Nanos,
) -> Outlook {
    let units = &arrival.units;
    let arrived = Arrived { seq: s.seq + 1, at: now };
    if let Some(lane) = lanes::lane_of(s, arrival) {
        if eligibility::may_overtake(s, base, lane, units, now) {
            return Outlook::Goes;
        }
        let ahead = forecast::ahead_of_arrival(s, lane, arrived);
        return would_wait(s, base, s.lanes[lane].bound, lane, &ahead, units, now);
    }
    // It stands in no queue and is taken out at once, so no other call is affected.
    let (waiter, lane) = placement::seat(s, base, arrival, call, Nanos::NEVER, arrived);
    let outlook = match eligibility::blocker(s, base, lane, units, Role::Other, now) {
        Some(held) => would_wait(s, base, held.limit, lane, &[0; MAX_UNIT_KINDS], units, now),
        None => Outlook::Goes,
    };
    placement::pull_waiter(s, base, waiter);
    outlook
}

/// What a call of `lane` is told that has `ahead` of its own lane before it, if `limit` holds it.
fn would_wait(
    s: &mut Scheduler,
    base: &mut Base,
    limit: LimitId,
    lane: LaneId,
    ahead: &[u128; MAX_UNIT_KINDS],
    units: &Units,
    now: Nanos,
) -> Outlook {
    let position = 1 + forecast::ranked_ahead(s, base, limit, lane, ahead, s.seq + 1, now);
    let when = match base.limits[limit].meter.is_in_flight() {
        // A slot comes back at no known time, but the next probe of a breaker goes at a known one.
        true => base.limits[limit].meter.earliest(1, 0),
        false => forecast::forecast_behind(s, base, lane, ahead, units, limit, now),
    };
    let expected = (!when.is_never() && when > now).then(|| when.since(now));
    Outlook::Waits { limit: names::limit_name(base, limit), position, expected }
}
