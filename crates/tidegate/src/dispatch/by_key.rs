//! The dispatches of the process by key.
//!
//! Held weakly: a dispatch lives as long as somebody has it, and its key is free again after that. What is
//! dropped inside the lock may want the lock: so nothing is.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;

use super::layers::Layers;
use crate::backoff::Key;

static BY_KEY: LazyLock<Mutex<HashMap<Key, Weak<Layers>>>> = LazyLock::new(Mutex::default);

/// The one that is known by the key, which is `made` if there was none.
pub(super) fn enter(key: &Key, made: &Arc<Layers>) -> Arc<Layers> {
    let mut known = BY_KEY.lock();
    match known.get(key).and_then(Weak::upgrade) {
        Some(there) => there,
        None => {
            known.insert(key.clone(), Arc::downgrade(made));
            made.clone()
        }
    }
}

pub(super) fn find(key: &Key) -> Option<Arc<Layers>> {
    BY_KEY.lock().get(key).and_then(Weak::upgrade)
}

/// Forgets a key whose dispatch is gone.
pub(super) fn forget(key: &Key) {
    let mut known = BY_KEY.lock();
    // Another one may have it by now.
    if known.get(key).is_some_and(|there| there.strong_count() == 0) {
        known.remove(key);
    }
}
