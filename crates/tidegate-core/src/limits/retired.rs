//! What a config no longer has, and may have again: a limit or a backoff window that a reload removed.
//!
//! What was spent of a limit counts at the upstream for a window, whether the config names the limit or not. So it is kept
//! by the limit's name until it no longer counts, and a limit of that name that comes back takes it up. With a
//! book the limit's page stays on disk for as long, with the promise that it had: after a crash that counts as spent.
//!
//! Slots in flight are not kept: a call that ends after its limit was removed would have nowhere to give its slot back. A
//! limit on calls in flight that comes back counts those that are in flight then.

use crate::limits::snapshot::Kept;
use crate::model::time::Nanos;
use hashbrown::HashMap;
use std::sync::Arc;

/// Limits and windows that were removed and still count.
#[derive(Debug, Default)]
pub(crate) struct Retired {
    pub(crate) limits: HashMap<Arc<str>, Kept>,
    /// Their keys, and until when they hold calls back, throttle them, and were set by an operator.
    pub(crate) windows: Vec<(Arc<str>, [Nanos; 3])>,
}

impl Retired {
    pub fn has(&self, name: &str) -> bool {
        self.limits.contains_key(name)
    }

    pub fn limits(&self) -> impl Iterator<Item = (&Arc<str>, &Kept)> {
        self.limits.iter()
    }

    pub fn windows(&self) -> &[(Arc<str>, [Nanos; 3])] {
        &self.windows
    }
}
