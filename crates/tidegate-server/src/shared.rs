//! The state that the proxy and the `/v1` API share.

use std::sync::Arc;

use tidegate::Gate;
use tidegate::wire::Memory;

use crate::config_store::ConfigStore;
use crate::events::Events;
use crate::lifecycle::Lifecycle;
use crate::loop_counts::LoopCounts;
use crate::timeouts::Timeouts;

/// The state that the proxy and the `/v1` API share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub gate: Gate,
    pub config: ConfigStore,
    /// The memory for bodies that are kept.
    pub memory: Arc<Memory>,
    pub events: Events,
    pub lifecycle: Arc<Lifecycle>,
    pub loop_counts: LoopCounts,
    pub timeouts: Timeouts,
}
