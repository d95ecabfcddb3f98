//! Which limits are to be looked at: marked to be looked at now, or armed for a time.

use crate::funding::loans;
use crate::model::route_limit::RouteLimit;
use crate::model::time::Nanos;
use crate::model::{LaneId, LimitId, Units};
use crate::routing::state::Base;
use crate::scheduler::state::Scheduler;
use std::cmp::Reverse;

/// Asks the lender on behalf of the call that is first at a limit, which is looked at again when it is time to ask again.
pub(crate) fn want_loan_and_wake(s: &mut Scheduler, base: &mut Base, limit: LimitId, need: u64, now: Nanos) {
    let again = loans::want_loan(&mut base.funding, &mut base.limits, limit, need, now);
    if need > 0 && again > now {
        arm_sooner(s, base, limit, again);
    }
}

/// A call that will not wait found too little: asks on behalf of the next one.
pub(crate) fn want_loans(
    s: &mut Scheduler,
    base: &mut Base,
    route: &[RouteLimit],
    units: &Units,
    now: Nanos,
) {
    for &(limit, slot) in route {
        want_loan_and_wake(s, base, limit, units[slot as usize], now);
    }
}

/// Drops what is remembered about waiting at a limit when nothing does.
pub(crate) fn tidy(s: &mut Scheduler, base: &mut Base, limit: LimitId) {
    let held = base.limits[limit].queue.as_ref();
    if held.is_some_and(|held| held.is_over()) {
        arm(s, base, limit, Nanos::NEVER);
        base.limits[limit].queue = None;
        base.limits.see_if_plain(limit);
    }
}

/// Marks a limit to be looked at.
pub(crate) fn mark(s: &mut Scheduler, base: &mut Base, limit: LimitId) {
    if base.limits[limit].queue.is_some() {
        s.dirty.push(Reverse(limit));
    }
}

/// Marks every limit of a route, and the limits whose first lanes depend on what is left there.
pub(crate) fn mark_route(s: &mut Scheduler, base: &mut Base, route: &[RouteLimit]) {
    for &(limit, _) in route {
        touched(s, base, limit);
    }
}

/// Something changed at a limit: looks again there and wherever that decides.
pub(crate) fn touched(s: &mut Scheduler, base: &mut Base, limit: LimitId) {
    let Some(queue) = base.limits[limit].queue.as_mut() else { return };
    s.dirty.push(Reverse(limit));
    if !queue.watchers.is_empty() {
        s.dirty.extend(queue.watchers.drain(..).map(Reverse));
    }
    if (1..=crate::scheduler::queue::MANY).contains(&queue.through.len()) {
        s.dirty.extend(queue.through.keys().copied().map(Reverse));
    }
}

/// Marks the other limits of a lane's route at which calls wait.
pub(crate) fn mark_others(s: &mut Scheduler, base: &mut Base, limit: LimitId, lane: LaneId) {
    for &(other, _) in s.lanes[lane].route.iter().filter(|(other, _)| *other != limit) {
        let waiting = base.limits[other].queue.as_ref().is_some_and(|held| held.bound > 0);
        if waiting {
            s.dirty.push(Reverse(other));
        }
    }
}

/// Sets when a limit is looked at next.
pub(crate) fn arm(s: &mut Scheduler, base: &mut Base, limit: LimitId, wake: Nanos) {
    let Some(queue) = base.limits[limit].queue.as_mut() else { return };
    let before = std::mem::replace(&mut queue.wake, wake);
    if before == wake {
        return;
    }
    if !before.is_never() {
        s.timers.remove((before, limit));
    }
    if !wake.is_never() {
        s.timers.insert((wake, limit));
    }
}

pub(crate) fn arm_sooner(s: &mut Scheduler, base: &mut Base, limit: LimitId, wake: Nanos) {
    if base.limits[limit].queue.as_ref().is_some_and(|held| wake < held.wake) {
        arm(s, base, limit, wake);
    }
}
