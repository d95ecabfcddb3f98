//! One limit of a route.

use crate::model::LimitId;

/// One limit of a route, and which of the call's units it counts.
pub(crate) type RouteLimit = (LimitId, u8);
