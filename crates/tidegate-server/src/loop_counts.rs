//! How many calls each loop has sent. The URL (`/~{loop}/{service}/…`) or an acquire names the loop.
//!
//! `tidegate run` reads the count of its loop at the end, and warns if the program never used the sidecar. Calls that
//! reached the sidecar are counted, refused ones included. Memory is bounded: beyond [`MAX_LOOPS`] loops all counts are
//! dropped, and from then on the count of a loop without an entry is unknown.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;

/// The most loops that have a count.
const MAX_LOOPS: usize = 4096;
/// The longest name that has a count, in bytes.
const MAX_NAME: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct LoopCounts {
    loops: RwLock<HashMap<Box<str>, AtomicU64>>,
    dropped: AtomicBool,
}

impl LoopCounts {
    /// Counts a call of a loop.
    pub fn count(&self, loop_id: &str) {
        if loop_id.len() > MAX_NAME {
            return;
        }
        if let Some(count) = self.loops.read().get(loop_id) {
            count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut loops = self.loops.write();
        if loops.len() >= MAX_LOOPS {
            loops.clear();
            self.dropped.store(true, Ordering::Relaxed);
        }
        loops.entry(loop_id.into()).or_default().fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many calls a loop has sent, or none if that is unknown.
    pub fn calls(&self, loop_id: &str) -> Option<u64> {
        let loops = self.loops.read();
        let counted = loops.get(loop_id).map(|count| count.load(Ordering::Relaxed));
        let known = loop_id.len() <= MAX_NAME && !self.dropped.load(Ordering::Relaxed);
        counted.or(known.then_some(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_loop() {
        let counts = LoopCounts::default();
        assert_eq!(counts.calls("a"), Some(0));
        counts.count("a");
        counts.count("a");
        counts.count("b");
        assert_eq!((counts.calls("a"), counts.calls("b"), counts.calls("c")), (Some(2), Some(1), Some(0)));
    }

    #[test]
    fn what_was_dropped_is_not_known() {
        let counts = LoopCounts::default();
        counts.count("first");
        (0..MAX_LOOPS).for_each(|number| counts.count(&format!("loop-{number}")));
        assert!(counts.loops.read().len() <= MAX_LOOPS);
        assert_eq!(counts.calls("first"), None, "it is unknown, and not zero");
        let long = "x".repeat(MAX_NAME + 1);
        counts.count(&long);
        assert_eq!(counts.calls(&long), None);
    }
}
