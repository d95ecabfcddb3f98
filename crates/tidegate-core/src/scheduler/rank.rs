//! Rank: which lane is first at a limit, and who goes before whom.
//!
//! Between base priorities the higher one is first, unless the lower one's first call has waited so long
//! that its level (base plus one for every `aging` waited) is above the other's; and such passing by age
//! alone is paid from a credit that grows by `aging_share` of what others are granted here, in turn or at
//! once as they come. Inside a base
//! priority age plays no part: there it is start tag, then arrival.

use crate::limits::queue::LaneKey;
use crate::model::time::{Nanos, whole_nanos};
use crate::model::{LaneId, LimitId, RouteId};
use crate::routing::state::Base;
use crate::scheduler::state::Scheduler;
use crate::scheduler::{lanes, queue};

/// Shares are kept in millionths.
pub(crate) const MILLION: i128 = 1_000_000;

/// The first-ranked lane at a limit.
pub(crate) fn first(s: &Scheduler, base: &Base, limit: LimitId, now: Nanos) -> Option<LaneId> {
    let queue = base.limits[limit].queue.as_ref()?;
    if queue.bound == 0 {
        return None;
    }
    let mut best: Option<LaneId> = None;
    for class in queue.classes.iter().rev().flatten() {
        let Some((_, _, lane)) = s.order.first(class.root) else { continue };
        best = match best {
            Some(higher) if !passes_by_age(s, base, limit, lane, higher, now) => Some(higher),
            _ => Some(lane),
        };
    }
    best
}

/// Whether `low`, of a lower base priority, goes before `high` at this limit because of its age.
pub(crate) fn passes_by_age(
    s: &Scheduler,
    base: &Base,
    limit: LimitId,
    low: LaneId,
    high: LaneId,
    now: Nanos,
) -> bool {
    level(s, base, low, now) > level(s, base, high, now) && has_credit(s, base, limit, low)
}

pub(crate) fn has_credit(s: &Scheduler, base: &Base, limit: LimitId, lane: LaneId) -> bool {
    let (cap, _) = credit_rule(base, limit, s.lanes[lane].route_id);
    let cost = lanes::head_cost(s, lane, limit);
    let credit = base.limits[limit].queue.as_ref().map_or(0, |held| held.credit);
    credit >= i128::from(cost.min(cap)) * MILLION
}

/// The most credit that is saved up at a limit, in units, and the share that each grant adds, in
/// millionths.
fn credit_rule(base: &Base, limit: LimitId, route_id: RouteId) -> (u64, i128) {
    let service = base.routing.routes[route_id].service;
    let share = base.routing.services[service].queue.aging_share;
    let whole = base.limits.specs[base.limits[limit].spec].definition.whole();
    let cap = (whole as u128 * share as u128 / MILLION as u128) as u64;
    (cap.max(1), share)
}

/// Base priority plus one level for every `aging` that its first call has waited.
pub(crate) fn level(s: &Scheduler, base: &Base, lane: LaneId, now: Nanos) -> u64 {
    let held = &s.lanes[lane];
    let aging = aging_of(s, base, lane);
    let waited = lanes::head(s, lane).map_or(0, |head| whole_nanos(now.since(s.waiters[head].enqueued)));
    held.class as u64 + waited / aging
}

fn aging_of(s: &Scheduler, base: &Base, lane: LaneId) -> u64 {
    let route_id = &base.routing.routes[s.lanes[lane].route_id];
    base.routing.services[route_id.service].queue.aging
}

/// When the order at a limit changes by age alone, the lanes staying as they are.
pub(crate) fn next_aging(s: &Scheduler, base: &Base, limit: LimitId, now: Nanos) -> Nanos {
    let Some(queue) = base.limits[limit].queue.as_ref() else { return Nanos::NEVER };
    let classes = queue.classes.iter().flatten();
    let firsts = classes.filter_map(|class| s.order.first(class.root)).map(|(_, _, lane)| lane);
    if firsts.clone().nth(1).is_none() {
        return Nanos::NEVER;
    }
    firsts.map(|lane| next_level(s, base, lane, now)).min().unwrap_or(Nanos::NEVER)
}

/// When the lane's first call has waited long enough for the next level.
pub(crate) fn next_level(s: &Scheduler, base: &Base, lane: LaneId, now: Nanos) -> Nanos {
    let aging = aging_of(s, base, lane);
    let enqueued = lanes::head(s, lane).map_or(now, |head| s.waiters[head].enqueued);
    let waited = whole_nanos(now.since(enqueued));
    Nanos(enqueued.0.saturating_add((waited / aging + 1).saturating_mul(aging)))
}

/// Whether lane `a` goes before lane `b` at `limit`, where `b` need not be bound there.
pub(crate) fn precedes(s: &Scheduler, base: &Base, limit: LimitId, a: LaneId, b: LaneId, now: Nanos) -> bool {
    let (class_a, class_b) = (s.lanes[a].class, s.lanes[b].class);
    if class_a == class_b {
        return key_at(s, base, limit, a) < key_at(s, base, limit, b);
    }
    if class_a > class_b {
        !passes_by_age(s, base, limit, b, a, now)
    } else {
        passes_by_age(s, base, limit, a, b, now)
    }
}

/// Between lanes that are bound at different limits: level, base priority, arrival.
pub(crate) fn standing(
    s: &Scheduler,
    base: &Base,
    lane: LaneId,
    now: Nanos,
) -> (std::cmp::Reverse<(u64, u8)>, u64) {
    let seq = lanes::head(s, lane).map_or(u64::MAX, |head| s.waiters[head].seq);
    (std::cmp::Reverse((level(s, base, lane, now), s.lanes[lane].class as u8)), seq)
}

fn key_at(s: &Scheduler, base: &Base, limit: LimitId, lane: LaneId) -> LaneKey {
    let held = &s.lanes[lane];
    let tag = queue::class(&base.limits, limit, held.class as u8).map_or(0, |class| class.tag(held.loop_));
    let seq = lanes::head(s, lane).map_or(u64::MAX, |head| s.waiters[head].seq);
    (tag, seq, lane)
}

/// What is granted at a limit earns those who wait there the right to pass by age.
pub(crate) fn earn_credit(base: &mut Base, limit: LimitId, route_id: RouteId, cost: u64) {
    let (cap, share) = credit_rule(base, limit, route_id);
    let Some(queue) = base.limits[limit].queue.as_mut() else { return };
    if queue.passing != [0; 4] {
        let earned = queue.credit + i128::from(cost) * share;
        queue.credit = earned.min(i128::from(cap) * MILLION);
    }
}
