//! The deadline of a window as one atomic word.
//!
//! It is a trait so that a model checker's word can stand in its place.

use std::sync::atomic::{AtomicU64, Ordering};

/// A deadline that threads raise and lower without a lock.
pub(super) trait AtomicDeadline: Default {
    fn load(&self) -> u64;
    /// Raises the deadline to `at` if it was earlier. Returns whether it was.
    fn raise(&self, at: u64) -> bool;
    /// Lowers the deadline to `at` if it was later. Returns whether it was.
    fn lower(&self, at: u64) -> bool;
}

impl AtomicDeadline for AtomicU64 {
    #[inline]
    fn load(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    fn raise(&self, at: u64) -> bool {
        self.fetch_max(at, Ordering::AcqRel) < at
    }

    fn lower(&self, at: u64) -> bool {
        self.fetch_min(at, Ordering::AcqRel) > at
    }
}
