//! Loops by name and by id.

use crate::model::LoopId;
use crate::model::call::Call;
use crate::routing::loop_name::LoopName;
use crate::routing::state::{Base, NO_LOOP};
use std::hash::BuildHasher;

#[inline]
pub(crate) fn loop_found(base: &Base, name: &str, hash: u32) -> Option<LoopId> {
    let loops = &base.routing.loops.all;
    base.routing
        .loops
        .index
        .find(hash, |loop_| loops[loop_].name.as_ref().is_some_and(|known| known.is(name)))
}

#[inline]
pub(crate) fn loop_hash(base: &Base, name: &str) -> u32 {
    (base.routing.loops.hasher.hash_one(name) >> 32) as u32
}

/// The loop that a call names, if it is remembered.
pub(crate) fn known_loop(base: &Base, call: &Call) -> LoopId {
    let Some(name) = &call.said.loop_id else { return NO_LOOP };
    loop_found(base, name, loop_hash(base, name)).unwrap_or(NO_LOOP)
}

pub(crate) fn loop_name(base: &Base, loop_: LoopId) -> Option<&str> {
    base.routing.loops.all.get(loop_)?.name.as_ref().map(LoopName::as_str)
}

pub(crate) fn pin_loop(base: &mut Base, loop_: LoopId) {
    if let Some(record) = base.routing.loops.all.get_mut(loop_) {
        record.pins += 1;
    }
}

pub(crate) fn unpin_loop(base: &mut Base, loop_: LoopId) {
    if let Some(record) = base.routing.loops.all.get_mut(loop_) {
        record.pins -= 1;
    }
}
