//! The limits that single API keys have, by definition and key.

use crate::model::{LimitId, SpecId};
use hashbrown::HashMap;

/// What stands between the service and an API key.
pub(crate) const OF_KEY: &str = "/key:";

/// What calls without an API key are called, where keys have limits of their own.
pub(crate) const NO_KEY: &str = "none";

/// The limits that single API keys have, by definition and key.
#[derive(Debug, Default)]
pub(crate) struct KeyLimits {
    limits: HashMap<(SpecId, Box<str>), LimitId>,
    keys: HashMap<LimitId, Box<str>>,
}

impl KeyLimits {
    /// Returns the limit of a key; calls without one have the key "".
    pub fn get(&self, spec: SpecId, key: &str) -> Option<LimitId> {
        self.limits.get(&(spec, key.into())).copied()
    }

    pub fn insert(&mut self, spec: SpecId, key: &str, limit: LimitId) {
        self.limits.insert((spec, key.into()), limit);
        self.keys.insert(limit, key.into());
    }

    /// Returns the limits of which `is_it` says yes by definition and key, in the order of their ids.
    pub fn matching(&self, is_it: impl Fn(SpecId, &str) -> bool) -> Vec<LimitId> {
        let matching = self.limits.iter().filter(|((spec, key), _)| is_it(*spec, key));
        let mut limits: Vec<LimitId> = matching.map(|(_, limit)| *limit).collect();
        limits.sort_unstable();
        limits
    }

    /// Forgets the limits of which `is_it` says yes.
    pub fn forget(&mut self, is_it: impl Fn(SpecId, &str) -> bool) {
        let keys = &mut self.keys;
        self.limits.retain(|(spec, key), limit| {
            let gone = is_it(*spec, key);
            if gone {
                keys.remove(limit);
            }
            !gone
        });
    }

    pub(crate) fn key_of(&self, limit: LimitId) -> Option<&str> {
        self.keys.get(&limit).map(|key| if key.is_empty() { NO_KEY } else { key })
    }
}
