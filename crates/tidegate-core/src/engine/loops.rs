//! Loops: whoever makes the calls, each with limits of its own.
//!
//! A loop is made when it first calls and dropped when nothing would be forgiven by it: nothing in flight,
//! nothing waiting, all its limits wholly available. A hand goes round over all loops, two steps for every
//! new one, so a flood of new ids neither grows without end nor stops to clean up.

use std::hash::BuildHasher;
use std::sync::Arc;

use super::Engine;
use super::loop_name::LoopName;
use crate::call::Call;
use crate::limit::Limit;
use crate::time::Nanos;
use crate::tree::NIL;

/// The loop of calls that name none.
pub(crate) const NO_LOOP: u32 = NIL;

/// One loop.
#[derive(Clone, Debug)]
pub(crate) struct LoopRecord {
    /// None in a free place.
    name: Option<LoopName>,
    /// Its first limit; the others follow as siblings, in the order of the config.
    pub first: u32,
    /// Calls in flight, lanes, and limits that remember what it was served.
    pub pins: u32,
}

impl Engine {
    /// The loop of that name, made if it is not there.
    #[inline(always)]
    pub(super) fn loop_for(&mut self, name: Option<&Arc<str>>, now: Nanos) -> u32 {
        name.map_or(NO_LOOP, |name| self.loop_named(name, now))
    }

    fn loop_named(&mut self, name: &Arc<str>, now: Nanos) -> u32 {
        let hash = self.loop_hash(name);
        if let Some(index) = self.loop_found(name, hash) {
            return index;
        }
        self.sweep_loops(now);
        let record = LoopRecord { name: Some(LoopName::new(name)), first: NIL, pins: 0 };
        let index = match self.free_loops.pop() {
            Some(index) => {
                self.loops[index as usize] = record;
                index
            }
            None => {
                push_lean(&mut self.loops, record);
                (self.loops.len() - 1) as u32
            }
        };
        self.loop_index.insert(hash, index);
        self.make_loop_limits(index, now);
        index
    }

    #[inline]
    fn loop_found(&self, name: &str, hash: u32) -> Option<u32> {
        let loops = &self.loops;
        self.loop_index
            .find(hash, |loop_| loops[loop_ as usize].name.as_ref().is_some_and(|known| known.is(name)))
    }

    #[inline]
    fn loop_hash(&self, name: &str) -> u32 {
        (self.loop_hasher.hash_one(name) >> 32) as u32
    }

    /// The loop that a call names, if it is remembered.
    pub(super) fn known_loop(&self, call: &Call) -> u32 {
        let Some(name) = &call.said.loop_id else { return NO_LOOP };
        self.loop_found(name, self.loop_hash(name)).unwrap_or(NO_LOOP)
    }

    pub(super) fn loop_name(&self, loop_: u32) -> Option<&str> {
        self.loops.get(loop_ as usize)?.name.as_ref().map(LoopName::as_str)
    }

    pub(super) fn pin_loop(&mut self, loop_: u32) {
        if let Some(record) = self.loops.get_mut(loop_ as usize) {
            record.pins += 1;
        }
    }

    pub(super) fn unpin_loop(&mut self, loop_: u32) {
        if let Some(record) = self.loops.get_mut(loop_ as usize) {
            record.pins -= 1;
        }
    }

    /// How many loops are remembered.
    #[must_use]
    pub fn live_loops(&self) -> usize {
        self.loop_index.len()
    }

    /// Gives every limit of `[loops]` an instance for this loop, keeping those it has.
    pub(super) fn make_loop_limits(&mut self, loop_: u32, now: Nanos) {
        let mut old = Vec::new();
        let mut at = self.loops[loop_ as usize].first;
        while at != NIL {
            old.push(at);
            at = self.limits[at as usize].sibling;
        }
        let mut previous = NIL;
        for spec in self.loop_specs.clone() {
            let kept = old.iter().position(|limit| self.limits[*limit as usize].spec == spec);
            let limit = match kept {
                Some(position) => old.swap_remove(position),
                None => {
                    let meter = self.specs[spec as usize].definition.meter(now, self.unix_offset);
                    let limit =
                        self.add_limit(Limit::new(spec, &self.specs[spec as usize], meter, self.epoch));
                    self.limits[limit as usize].owner = loop_;
                    self.promise_for(limit, now);
                    limit
                }
            };
            self.limits[limit as usize].owner = loop_;
            self.limits[limit as usize].sibling = NIL;
            match previous {
                NIL => self.loops[loop_ as usize].first = limit,
                previous => self.limits[previous as usize].sibling = limit,
            }
            previous = limit;
        }
        if previous == NIL {
            self.loops[loop_ as usize].first = NIL;
        }
        for limit in old {
            self.retire(limit, now);
        }
    }

    /// Looks at two loops, and drops those that are idle.
    fn sweep_loops(&mut self, now: Nanos) {
        for _ in 0..2.min(self.loops.len()) {
            self.hand = (self.hand + 1) % self.loops.len();
            self.drop_if_idle(self.hand as u32, now);
        }
    }

    fn drop_if_idle(&mut self, loop_: u32, now: Nanos) {
        let LoopRecord { first, pins, .. } = self.loops[loop_ as usize];
        if pins > 0 {
            return;
        }
        let mut at = first;
        while at != NIL {
            if !self.limits[at as usize].is_idle(now) {
                return;
            }
            at = self.limits[at as usize].sibling;
        }
        let Some(name) = self.loop_name(loop_) else { return };
        let hash = self.loop_hash(name);
        let mut at = first;
        while at != NIL {
            let next = self.limits[at as usize].sibling;
            self.remove_limit(at);
            at = next;
        }
        self.loop_index.remove(hash, loop_);
        self.loops[loop_ as usize] = LoopRecord { name: None, first: NIL, pins: 0 };
        self.free_loops.push(loop_);
    }

    pub(super) fn add_limit(&mut self, limit: Limit) -> u32 {
        match self.free_limits.pop() {
            Some(index) => {
                self.limits[index as usize] = limit;
                index
            }
            None => {
                push_lean(&mut self.limits, limit);
                (self.limits.len() - 1) as u32
            }
        }
    }

    /// Frees a limit's place. Nobody may be bound there.
    pub(super) fn remove_limit(&mut self, limit: u32) {
        self.erase(limit);
        self.arm(limit, Nanos::NEVER);
        self.limits[limit as usize].contention = None;
        self.limits[limit as usize].lent = None;
        self.dirty.retain(|marked| marked.0 != limit);
        self.lent_limits.remove(&limit);
        self.school.forget(limit);
        self.dropped_debt.remove(&limit);
        self.free_limits.push(limit);
    }
}

/// Doubling would leave up to half of a million loops' memory unused. A sixteenth at a time is still little to
/// move for each that is added, and an allocator that can grow large pieces in place moves nothing at all.
fn push_lean<T>(items: &mut Vec<T>, item: T) {
    if items.len() == items.capacity() && items.len() >= 1024 {
        items.reserve_exact(items.len() / 16);
    }
    items.push(item);
}
