//! Values that all parts of the engine share: typed ids, the arena that they index, units by kind.

mod arena;
mod id;
mod units;

pub(crate) use arena::Arena;
pub(crate) use id::{
    BatchId, CallId, Id, LaneId, LimitId, LoopId, RouteId, RouteTag, ServiceId, SpecId, WaiterId,
};
pub(crate) use units::{MAX_UNIT_KINDS, SLOT, Units};
