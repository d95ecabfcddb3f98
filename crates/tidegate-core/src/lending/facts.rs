//! What is kept beside the limits: windows, breakers, what was learned.

use crate::limits::snapshot::is_zero;
use crate::model::time::Nanos;
use crate::upstream::learned::LearnedLimit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is kept beside the limits. Times are those of the engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    pub(crate) windows: Vec<KeptWindow>,
    pub(crate) breakers: Vec<KeptBreaker>,
    pub(crate) learned: Vec<LearnedLimit>,
    /// How long nearly all calls are in flight, by service.
    pub(crate) in_flight_ns: BTreeMap<Arc<str>, u64>,
    /// What every limit of a loop or key may spend before it has a page.
    pub(crate) seeds: BTreeMap<Arc<str>, u64>,
    /// When a crash was last found: until a window later some loops may have spent their seed before it.
    pub(crate) crashed_ns: Option<u64>,
    /// When it was found that what was spent is not known: until a window later a limit that is made begins as spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unknown_ns: Option<u64>,
    /// The same of limits that each API key has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unknown_keys_ns: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptWindow {
    pub(crate) key: Arc<str>,
    pub(crate) until_ns: u64,
    /// Until when calls go throttled.
    pub(crate) tail_ns: u64,
    /// Until when an operator set it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) by_hand_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptBreaker {
    pub(crate) name: Arc<str>,
    pub(crate) failures: u32,
    pub(crate) openings: u32,
    pub(crate) open_until_ns: Option<u64>,
}

impl Facts {
    pub(crate) fn crashed_at(&self) -> Option<Nanos> {
        self.crashed_ns.map(Nanos)
    }

    /// Since when it is not known what was spent: of any limit, and of those of keys.
    pub(crate) fn unknown_at(&self) -> (Option<Nanos>, Option<Nanos>) {
        (self.unknown_ns.map(Nanos), self.unknown_keys_ns.map(Nanos))
    }
}
