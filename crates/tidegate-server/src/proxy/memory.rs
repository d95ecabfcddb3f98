//! How much memory the bodies of waiting requests may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What all of them share.
#[derive(Debug)]
pub(crate) struct Memory {
    used: AtomicU64,
    most: AtomicU64,
}

/// A part of it; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Memory {
    pub fn new(most: u64) -> Memory {
        Memory { used: AtomicU64::new(0), most: AtomicU64::new(most) }
    }

    pub fn resize(&self, most: u64) {
        self.most.store(most, Ordering::Relaxed);
    }

    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn share(self: &Arc<Memory>) -> Share {
        Share { memory: self.clone(), bytes: 0 }
    }
}

impl Share {
    /// Makes it larger; says whether there was room.
    pub fn grow(&mut self, bytes: u64) -> bool {
        let most = self.memory.most.load(Ordering::Relaxed);
        let add = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= most);
        let grown = self.memory.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok();
        self.bytes += if grown { bytes } else { 0 };
        grown
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_given_out_than_there_is_and_all_comes_back() {
        let memory = Arc::new(Memory::new(100));
        let (mut one, mut two) = (memory.share(), memory.share());
        assert!(one.grow(60) && two.grow(40) && !two.grow(1) && !one.grow(u64::MAX));
        drop(two);
        assert!(one.grow(40));
        drop(one);
        assert_eq!(memory.used(), 0);
    }
}
