//! Limits: what may be spent, and what was.

pub(crate) mod adjustment;
pub mod allowance;
pub mod breaker;
pub(crate) mod keys;
pub(crate) mod limit;
pub mod meters;
pub(crate) mod queue;
pub(crate) mod retired;
pub mod snapshot;
pub(crate) mod store;
