//! Backoff windows as routes see them: a limit that joins the routes of a scope.

use crate::model::time::Nanos;
use crate::model::{LimitId, ServiceId};
use std::cmp::Reverse;
use std::sync::Arc;

/// Whose calls a window concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Everything,
    Service(ServiceId),
    /// An API key that has limits of its own.
    Key(ServiceId, Box<str>),
    /// A pattern of the config.
    Endpoint(ServiceId, Box<str>),
    /// A pattern of the config.
    Model(ServiceId, Box<str>),
    /// A model that no pattern names.
    OtherModel(ServiceId, Arc<str>),
    LoopType(Box<str>),
    /// Those that pay at this limit.
    Limit(LimitId),
}

/// A backoff window as routes see it.
#[derive(Clone, Debug)]
pub(crate) struct Overlay {
    pub key: Arc<str>,
    pub scope: Scope,
    /// The limit that holds calls.
    pub limit: LimitId,
    /// Calls go throttled until then.
    pub tail: Nanos,
}

/// Orders levels by how narrow they are, the narrowest first: those below the service have a part more in their name.
pub(crate) fn depth(level: &str) -> Reverse<u8> {
    Reverse(level.contains("/model:") as u8 * 2 + level.contains("/endpoint:") as u8)
}
