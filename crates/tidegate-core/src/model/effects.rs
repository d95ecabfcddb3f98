//! Effects: what a change inside one machine means for the machines above it.
//!
//! A machine never calls a machine above it. It raises an effect, and the engine applies all effects in one place and in one
//! order: structure first (routes, definitions, refusals), then fair shares, then the limits to look at, then dispatch, and
//! last the limits that were retired. To raise an effect twice is the same as to raise it once, but for shares, which are
//! corrected in the order in which they were raised.

use crate::model::{LimitId, LoopId, RouteId, ServiceId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is to be done after a change.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// A model that no pattern names has a route of its own from now on: calls that wait for it move there.
    pub split: Vec<(ServiceId, Arc<str>)>,
    /// The limits of these routes changed: the lanes on them are bound anew.
    pub reroute: BTreeSet<RouteId>,
    /// Calls on these routes wait for longer, which may leave room for others.
    pub revisit: BTreeSet<RouteId>,
    /// A definition came into force: waiting calls that can no longer fit are refused.
    pub refit: bool,
    /// Breakers that opened, and whose waiting calls are refused.
    pub refuse: Vec<LimitId>,
    /// Corrections of fair shares, in order.
    pub served: Vec<Served>,
    /// Limits at which calls wait and whose room changed.
    pub touched: Vec<LimitId>,
    /// Limits that are no more. Their ids are used again only after all other effects were applied.
    pub retired: Vec<LimitId>,
}

/// A loop was served more or less at a limit than it was charged for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub limit: LimitId,
    pub loop_: LoopId,
    pub route: RouteId,
    pub class: u8,
    pub units: i128,
}

impl Effects {
    /// Returns whether an effect waits to be applied.
    pub fn is_pending(&self) -> bool {
        !self.touched.is_empty()
            || !self.served.is_empty()
            || !self.retired.is_empty()
            || self.is_structural()
    }

    /// Returns whether an effect changes where calls wait.
    pub fn is_structural(&self) -> bool {
        !self.split.is_empty()
            || !self.reroute.is_empty()
            || !self.revisit.is_empty()
            || self.refit
            || !self.refuse.is_empty()
    }
}
