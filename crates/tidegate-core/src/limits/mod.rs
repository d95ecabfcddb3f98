//! Limits: what may be spent, and what was.

pub(crate) mod keys;
pub(crate) mod retired;
pub(crate) mod store;
