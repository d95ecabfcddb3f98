//! The scheduler: calls that wait, in lanes, ranked at limits, granted by dispatch.

pub(crate) mod batch;
pub(crate) mod bind;
pub(crate) mod block_history;
pub(crate) mod deadlines;
pub(crate) mod decision;
pub(crate) mod dispatch;
pub(crate) mod eligibility;
pub(crate) mod forecast;
pub(crate) mod lane;
pub(crate) mod lanes;
pub(crate) mod marks;
pub(crate) mod placement;
pub(crate) mod queue;
pub(crate) mod rank;
pub(crate) mod rebind;
pub(crate) mod refuse;
pub(crate) mod shed_order;
pub(crate) mod state;
pub(crate) mod watch;
