//! Loops: whoever makes the calls, each with limits of its own.
//!
//! A loop is made when it first calls and dropped when nothing would be forgiven by it: nothing in flight,
//! nothing waiting, all its limits wholly available. A hand goes round over all loops, two steps for every
//! new one, so a flood of new ids neither grows without end nor stops to clean up.

use std::hash::BuildHasher;
use std::sync::Arc;

use super::Engine;
use super::loop_name::LoopName;
use crate::limit::Limit;
use crate::model::call::Call;
use crate::model::time::Nanos;
use crate::model::{LimitId, LoopId};

/// The loop of calls that name none.
pub(crate) const NO_LOOP: LoopId = LoopId::NIL;

/// One loop.
#[derive(Clone, Debug)]
pub(crate) struct LoopRecord {
    /// None in a free place.
    name: Option<LoopName>,
    /// Its first limit; the others follow as siblings, in the order of the config.
    pub first: LimitId,
    /// Calls in flight, lanes, and limits that remember what it was served.
    pub pins: u32,
}

impl Engine {
    /// The loop of that name, made if it is not there.
    #[inline(always)]
    pub(super) fn loop_for(&mut self, name: Option<&Arc<str>>, now: Nanos) -> LoopId {
        name.map_or(NO_LOOP, |name| self.loop_named(name, now))
    }

    fn loop_named(&mut self, name: &Arc<str>, now: Nanos) -> LoopId {
        let hash = self.loop_hash(name);
        if let Some(index) = self.loop_found(name, hash) {
            return index;
        }
        self.sweep_loops(now);
        let record = LoopRecord { name: Some(LoopName::new(name)), first: LimitId::NIL, pins: 0 };
        let index = self.routing.loops.all.insert_lean(record);
        self.routing.loops.index.insert(hash, index);
        self.make_loop_limits(index, now);
        index
    }

    #[inline]
    pub(super) fn loop_found(&self, name: &str, hash: u32) -> Option<LoopId> {
        let loops = &self.routing.loops.all;
        self.routing
            .loops
            .index
            .find(hash, |loop_| loops[loop_].name.as_ref().is_some_and(|known| known.is(name)))
    }

    #[inline]
    pub(super) fn loop_hash(&self, name: &str) -> u32 {
        (self.routing.loops.hasher.hash_one(name) >> 32) as u32
    }

    /// The loop that a call names, if it is remembered.
    pub(super) fn known_loop(&self, call: &Call) -> LoopId {
        let Some(name) = &call.said.loop_id else { return NO_LOOP };
        self.loop_found(name, self.loop_hash(name)).unwrap_or(NO_LOOP)
    }

    pub(super) fn loop_name(&self, loop_: LoopId) -> Option<&str> {
        self.routing.loops.all.get(loop_)?.name.as_ref().map(LoopName::as_str)
    }

    pub(super) fn pin_loop(&mut self, loop_: LoopId) {
        if let Some(record) = self.routing.loops.all.get_mut(loop_) {
            record.pins += 1;
        }
    }

    pub(super) fn unpin_loop(&mut self, loop_: LoopId) {
        if let Some(record) = self.routing.loops.all.get_mut(loop_) {
            record.pins -= 1;
        }
    }

    /// How many loops are remembered.
    #[must_use]
    pub fn live_loops(&self) -> usize {
        self.routing.loops.index.len()
    }

    /// Gives every limit of `[loops]` an instance for this loop, keeping those it has.
    pub(super) fn make_loop_limits(&mut self, loop_: LoopId, now: Nanos) {
        let mut old = Vec::new();
        let mut at = self.routing.loops.all[loop_].first;
        while !at.is_nil() {
            old.push(at);
            at = self.limits[at].sibling;
        }
        let mut previous = LimitId::NIL;
        for spec in self.routing.loop_specs.clone() {
            let kept = old.iter().position(|limit| self.limits[*limit].spec == spec);
            let limit = match kept {
                Some(position) => old.swap_remove(position),
                None => {
                    let meter = self.limits.specs[spec].definition.meter(now, self.limits.unix_offset);
                    let limit =
                        self.add_limit(Limit::new(spec, &self.limits.specs[spec], meter, self.limits.epoch));
                    self.limits[limit].owner = loop_;
                    self.promise_for(limit, now);
                    limit
                }
            };
            self.limits[limit].owner = loop_;
            self.limits[limit].sibling = LimitId::NIL;
            match previous {
                LimitId::NIL => self.routing.loops.all[loop_].first = limit,
                previous => self.limits[previous].sibling = limit,
            }
            previous = limit;
        }
        if previous.is_nil() {
            self.routing.loops.all[loop_].first = LimitId::NIL;
        }
        for limit in old {
            self.retire(limit, now);
        }
    }

    /// Looks at two loops, and drops those that are idle.
    fn sweep_loops(&mut self, now: Nanos) {
        for _ in 0..2.min(self.routing.loops.all.len()) {
            self.routing.loops.hand = (self.routing.loops.hand + 1) % self.routing.loops.all.len();
            self.drop_if_idle(LoopId::from_number(self.routing.loops.hand as u32), now);
        }
    }

    fn drop_if_idle(&mut self, loop_: LoopId, now: Nanos) {
        let LoopRecord { first, pins, .. } = self.routing.loops.all[loop_];
        if pins > 0 {
            return;
        }
        let mut at = first;
        while !at.is_nil() {
            if !self.limits[at].is_idle(now) {
                return;
            }
            at = self.limits[at].sibling;
        }
        let Some(name) = self.loop_name(loop_) else { return };
        let hash = self.loop_hash(name);
        let mut at = first;
        while !at.is_nil() {
            let next = self.limits[at].sibling;
            // No call waits at an idle limit, and replies state nothing of a loop's: no machine above knows it.
            self.forget_funds(at);
            self.limits.all.free(at);
            at = next;
        }
        self.routing.loops.index.remove(hash, loop_);
        self.routing.loops.all[loop_] = LoopRecord { name: None, first: LimitId::NIL, pins: 0 };
        self.routing.loops.all.free(loop_);
    }

    pub(super) fn add_limit(&mut self, limit: Limit) -> LimitId {
        self.limits.all.insert_lean(limit)
    }

    /// Retires a limit at which no call waits. Its id is free again when all machines have forgotten it.
    pub(super) fn remove_limit(&mut self, limit: LimitId) {
        self.forget_funds(limit);
        self.effects.retired.push(limit);
    }

    /// Forgets what is kept of a limit beside the limit itself.
    fn forget_funds(&mut self, limit: LimitId) {
        self.erase(limit);
        self.limits[limit].lent = None;
        self.funding.lent_limits.remove(&limit);
        self.funding.loan_requests.retain(|(known, ..)| *known != limit);
        self.limits.dropped_debt.remove(&limit);
    }
}
