//! The state of routing: services, loops, routes, overlays; and the base that the machines above build on.

use crate::funding::book::Funding;
use crate::limits::store::Limits;
use crate::model::call::Shape;
use crate::model::effects::Effects;
use crate::model::fingerprint::Salt;
use crate::model::time::Nanos;
use crate::model::{Arena, LimitId, LoopId, RouteId, RouteTag, ServiceId, SpecId};
use crate::routing::loop_index::LoopIndex;
use crate::routing::loop_name::LoopName;
use crate::routing::overlay::Overlay;
use crate::routing::route::{Route, RouteKey};
use crate::routing::service::{LoopType, Service};
use hashbrown::{DefaultHashBuilder, HashMap};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The loop of calls that name none.
pub(crate) const NO_LOOP: LoopId = LoopId::NIL;

/// One loop.
#[derive(Clone, Debug)]
pub(crate) struct LoopRecord {
    /// None in a free place.
    pub(crate) name: Option<LoopName>,
    /// Its first limit; the others follow as siblings, in the order of the config.
    pub first: LimitId,
    /// Calls in flight, lanes, and limits that remember what it was served.
    pub pins: u32,
}

/// Skeletons remembered before those of idle API keys are dropped.
pub(crate) const MAX_KEY_ROUTES: usize = 4096;

/// Which limits a call passes.
#[derive(Debug)]
pub(crate) struct Routing {
    /// Marks routes found under this config by this engine; no other has the same.
    pub tag: RouteTag,
    pub global: Vec<SpecId>,
    pub services: Arena<ServiceId, Service>,
    pub service_index: HashMap<Box<str>, ServiceId>,
    pub loop_types: HashMap<Box<str>, LoopType>,
    pub loop_specs: Vec<SpecId>,
    pub customs: Vec<Arc<str>>,
    pub routes: Arena<RouteId, Route>,
    pub key_gc_at: usize,
    pub route_index: HashMap<RouteKey, RouteId>,
    pub shapes: HashMap<Arc<Shape>, RouteId>,
    pub loops: Loops,
    /// The salt of the fingerprints that API keys are named by.
    pub salt: Salt,
    /// Backoff windows as routes see them: a limit that joins the routes of a scope.
    pub overlays: Vec<Overlay>,
    /// How many calls may be in flight at once while calls go throttled, by the definition of the rate that they share.
    pub throttle_bounds: BTreeMap<SpecId, u64>,
}

impl Default for Routing {
    fn default() -> Self {
        Routing {
            tag: RouteTag::fresh(),
            global: Vec::new(),
            services: Arena::default(),
            service_index: HashMap::new(),
            loop_types: HashMap::new(),
            loop_specs: Vec::new(),
            customs: Vec::new(),
            routes: Arena::default(),
            key_gc_at: MAX_KEY_ROUTES,
            route_index: HashMap::new(),
            shapes: HashMap::new(),
            loops: Loops::default(),
            salt: Salt::default(),
            overlays: Vec::new(),
            throttle_bounds: BTreeMap::new(),
        }
    }
}

/// Loops by id and by name.
#[derive(Debug, Default)]
pub(crate) struct Loops {
    pub all: Arena<LoopId, LoopRecord>,
    pub index: LoopIndex,
    pub hasher: DefaultHashBuilder,
    /// The loop at which the sweep for idle loops goes on.
    pub hand: usize,
}

/// Limits, funding and routing, with the effects that wait to be applied: all that the machines above build on.
#[derive(Debug)]
pub(crate) struct Base {
    /// The latest time that the engine has seen.
    pub now: Nanos,
    pub limits: Limits,
    pub funding: Funding,
    pub routing: Routing,
    pub effects: Effects,
}
