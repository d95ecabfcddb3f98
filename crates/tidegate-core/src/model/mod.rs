//! Values that all parts of the engine share: typed ids, and the arena that they index.

mod arena;
mod id;

pub(crate) use arena::Arena;
pub(crate) use id::{
    BatchId, CallId, Id, LaneId, LimitId, LoopId, RouteId, RouteTag, ServiceId, SpecId, WaiterId,
};
