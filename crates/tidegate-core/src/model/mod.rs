//! Values that all parts of the engine share: calls and their cost, time, rates, typed ids, the arena that they
//! index, ordered trees.

mod arena;
pub(crate) mod call;
pub(crate) mod dimension;
pub(crate) mod effects;
pub(crate) mod endpoint;
pub(crate) mod fingerprint;
pub(crate) mod growth;
mod id;
pub(crate) mod invalid;
pub(crate) mod pattern;
pub(crate) mod priority;
pub(crate) mod ramp;
pub(crate) mod rate;
pub(crate) mod recent;
pub(crate) mod refusal;
pub(crate) mod route_limit;
pub(crate) mod settle_rule;
pub(crate) mod time;
pub(crate) mod tree;
mod units;

pub(crate) use arena::Arena;
pub(crate) use id::{
    BatchId, CallId, Id, LaneId, LimitId, LoopId, RouteId, RouteTag, ServiceId, SpecId, WaiterId,
};
pub(crate) use units::{MAX_UNIT_KINDS, SLOT, Units};
