//! What calls pass: all machines below the scheduler.

use crate::calls::InFlightCalls;
use crate::routing::state::Base;
use crate::upstream::state::Upstream;

/// All that a call passes and leaves its mark on, the scheduler apart.
#[derive(Debug)]
pub(crate) struct Resources {
    pub base: Base,
    pub upstream: Upstream,
    pub calls: InFlightCalls,
}
