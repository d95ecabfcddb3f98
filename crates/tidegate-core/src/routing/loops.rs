//! Loops: the parties that make calls, each with limits of its own.
//!
//! A loop is made when it first calls and dropped when nothing would be forgiven by it: nothing in flight,
//! nothing waiting, all its limits wholly available. A hand goes round over all loops, two steps for every
//! new one, so a flood of new ids neither grows without end nor stops to clean up.

use crate::limits::limit::Limit;
use crate::model::time::Nanos;
use crate::model::{LimitId, LoopId};
use crate::routing::loop_name::LoopName;
use crate::routing::state::{Base, LoopRecord, NO_LOOP};
use crate::routing::{adopt, loop_table, retire};
use std::sync::Arc;

/// The loop of that name, made if it is not there.
#[inline(always)]
pub(crate) fn loop_for(base: &mut Base, name: Option<&Arc<str>>, now: Nanos) -> LoopId {
    name.map_or(NO_LOOP, |name| loop_named(base, name, now))
}

fn loop_named(base: &mut Base, name: &Arc<str>, now: Nanos) -> LoopId {
    let hash = loop_table::loop_hash(base, name);
    if let Some(index) = loop_table::loop_found(base, name, hash) {
        return index;
    }
    sweep_loops(base, now);
    let record = LoopRecord { name: Some(LoopName::new(name)), first: LimitId::NIL, pins: 0 };
    let index = base.routing.loops.all.insert_lean(record);
    base.routing.loops.index.insert(hash, index);
    make_loop_limits(base, index, now);
    index
}

/// Gives every limit of `[loops]` an instance for this loop, keeping those it has.
pub(crate) fn make_loop_limits(base: &mut Base, loop_: LoopId, now: Nanos) {
    let mut old = Vec::new();
    let mut at = base.routing.loops.all[loop_].first;
    while !at.is_nil() {
        old.push(at);
        at = base.limits[at].sibling;
    }
    let mut previous = LimitId::NIL;
    for spec in base.routing.loop_specs.clone() {
        let kept = old.iter().position(|limit| base.limits[*limit].spec == spec);
        let limit = match kept {
            Some(position) => old.swap_remove(position),
            None => {
                let meter = base.limits.specs[spec].definition.meter(now, base.limits.unix_offset);
                let limit = base.limits.add_limit(Limit::new(
                    spec,
                    &base.limits.specs[spec],
                    meter,
                    base.limits.epoch,
                ));
                base.limits[limit].owner = loop_;
                adopt::promise_for(base, limit, now);
                limit
            }
        };
        base.limits[limit].owner = loop_;
        base.limits[limit].sibling = LimitId::NIL;
        match previous {
            LimitId::NIL => base.routing.loops.all[loop_].first = limit,
            previous => base.limits[previous].sibling = limit,
        }
        previous = limit;
    }
    if previous.is_nil() {
        base.routing.loops.all[loop_].first = LimitId::NIL;
    }
    for limit in old {
        retire::retire(base, limit, now);
    }
}

/// Looks at two loops, and drops those that are idle.
fn sweep_loops(base: &mut Base, now: Nanos) {
    for _ in 0..2.min(base.routing.loops.all.len()) {
        base.routing.loops.hand = (base.routing.loops.hand + 1) % base.routing.loops.all.len();
        drop_if_idle(base, LoopId::from_number(base.routing.loops.hand as u32), now);
    }
}

fn drop_if_idle(base: &mut Base, loop_: LoopId, now: Nanos) {
    let LoopRecord { first, pins, .. } = base.routing.loops.all[loop_];
    if pins > 0 {
        return;
    }
    let mut at = first;
    while !at.is_nil() {
        if !base.limits[at].is_idle(now) {
            return;
        }
        at = base.limits[at].sibling;
    }
    let Some(name) = loop_table::loop_name(base, loop_) else { return };
    let hash = loop_table::loop_hash(base, name);
    let mut at = first;
    while !at.is_nil() {
        let next = base.limits[at].sibling;
        // No call waits at an idle limit, and replies state nothing of a loop's: no machine above knows it.
        retire::forget_funds(base, at);
        base.limits.all.free(at);
        at = next;
    }
    base.routing.loops.index.remove(hash, loop_);
    base.routing.loops.all[loop_] = LoopRecord { name: None, first: LimitId::NIL, pins: 0 };
    base.routing.loops.all.free(loop_);
}
