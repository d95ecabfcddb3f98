//! Values of the process by key, held weakly.
//!
//! A value lives as long as it is held elsewhere, and its key is free again after that. A value that is dropped while
//! the lock is held could need the lock, so the map never drops one.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;

use crate::backoff::Key;

/// The values by key.
pub(super) struct ByKey<T>(LazyLock<Mutex<HashMap<Key, Weak<T>>>>);

impl<T> ByKey<T> {
    pub const fn new() -> ByKey<T> {
        ByKey(LazyLock::new(|| Mutex::new(HashMap::new())))
    }

    /// Returns the value of the key. If there is none, `made` becomes the value.
    pub fn enter(&self, key: &Key, made: &Arc<T>) -> Arc<T> {
        let mut known = self.0.lock();
        match known.get(key).and_then(Weak::upgrade) {
            Some(there) => there,
            None => {
                known.insert(key.clone(), Arc::downgrade(made));
                made.clone()
            }
        }
    }

    /// Returns the value of the key.
    pub fn find(&self, key: &Key) -> Option<Arc<T>> {
        self.0.lock().get(key).and_then(Weak::upgrade)
    }

    /// Removes a key whose value is gone. Another value may have the key by now; then it stays.
    pub fn forget(&self, key: &Key) {
        let mut known = self.0.lock();
        if known.get(key).is_some_and(|there| there.strong_count() == 0) {
            known.remove(key);
        }
    }
}
