//! The upstream: backoff windows, breakers, and what replies teach.

pub(crate) mod adaptive_concurrency;
pub(crate) mod announce;
pub(crate) mod attribution;
pub(crate) mod backoff;
pub(crate) mod bounds;
pub(crate) mod breakers;
pub(crate) mod call_marks;
pub(crate) mod due;
pub(crate) mod ended;
pub(crate) mod event;
pub(crate) mod external_usage;
pub(crate) mod header_sync;
pub(crate) mod inference;
pub(crate) mod learned;
pub(crate) mod learning;
pub(crate) mod observe;
pub(crate) mod review;
pub(crate) mod slowdown;
pub(crate) mod state;
pub(crate) mod throttle;
pub(crate) mod window;
