//! Routes: which limits a call must pass.
//!
//! A route is found once for each distinct shape of call (service, endpoint, model, loop type, key). It lists the limits that
//! all loops share. A loop's own limits are added when the call comes. Shapes carry any text that callers send, so the map
//! from shapes is bounded. Routes are made from the patterns of the config, so their number is bounded too.

use crate::model::priority::Priority;
use crate::model::route_limit::RouteLimit;
use crate::model::{LimitId, ServiceId};
use crate::routing::layout::Layout;
use std::sync::Arc;

/// Identifies a route: by the patterns of the config, not by what callers wrote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RouteKey {
    pub(crate) service: ServiceId,
    pub endpoint: Option<Box<str>>,
    pub model: Option<Box<str>>,
    /// The pattern of another model that calls name. At most one, so that there are only so many routes.
    pub second_model: Option<Box<str>>,
    /// A model that no pattern names, if a window sets it apart.
    pub other_model: Option<Arc<str>>,
    pub loop_type: Option<Box<str>>,
    pub key: Option<Box<str>>,
}

/// The part of a route that all loops share.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub key: RouteKey,
    pub service: ServiceId,
    pub uses: Vec<RouteLimit>,
    /// Which units each limit of a loop counts, in the order of the config.
    pub loop_slots: Vec<u8>,
    pub layout: Layout,
    /// The limits that count what is in flight, those on throttled calls apart.
    pub slots: Vec<RouteLimit>,
    /// How many times bytes count in flight, if calls go throttled and that makes a difference; else zero.
    pub penalty: u16,
    /// The limit that is a breaker, if there is one.
    pub breaker: LimitId,
    /// The limits of which replies have told.
    pub mirrored: Vec<RouteLimit>,
    /// Whether something is to be remembered of each call: a breaker or such a limit is on its way.
    pub noted: bool,
    pub in_flight: u32,
    pub lanes: u32,
    /// How many calls went this way. They are of its service's count even when it is used for another.
    pub granted: u64,
    pub terms: RouteTerms,
    pub throttle: Throttle,
}

/// What the config says about calls of a route.
#[derive(Clone, Debug)]
pub(crate) struct RouteTerms {
    pub priority: Priority,
    /// 2³² divided by the weight.
    pub inverse: u64,
    pub observe: bool,
    pub keep: bool,
}

/// What calls of a route pass in addition while they go throttled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Throttle {
    /// The limits on throttled calls; part of `uses` while calls go throttled.
    pub limits: Vec<RouteLimit>,
    /// Whether calls go throttled.
    pub active: bool,
}
