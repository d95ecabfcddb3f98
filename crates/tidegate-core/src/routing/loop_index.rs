//! Where a loop is, by the hash of its name.
//!
//! A table with one place to look at: what is there says at once whether the rest is worth a look. With a million loops a
//! decision waits for memory more than for anything else, and tables that keep their marks apart from what they mark have
//! it wait twice, the second time for where the first led to. An entry has the hash in it, so growing looks at no name.
//!
//! Entries lie at the place that their hash says or as near behind it as was free. When one is removed, those behind it
//! that were pushed aside move up: there are no gaps that a search would have to step over.

use crate::model::LoopId;

/// Loops by hash.
#[derive(Debug, Default)]
pub(crate) struct LoopIndex {
    /// The hash, and below it one more than the loop; zero where there is none. As many as a power of two, a quarter of
    /// them free.
    entries: Vec<u64>,
    len: usize,
}

/// The smallest table.
const LEAST: usize = 16;

impl LoopIndex {
    pub fn len(&self) -> usize {
        self.len
    }

    /// The loop with this hash of which `same` is true.
    #[inline]
    pub fn find(&self, hash: u32, same: impl Fn(LoopId) -> bool) -> Option<LoopId> {
        let mask = self.entries.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        loop {
            let entry = *self.entries.get(at)?;
            if entry == 0 {
                return None;
            }
            if hash_of(entry) == hash && same(loop_of(entry)) {
                return Some(loop_of(entry));
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds a loop that is not there.
    pub fn insert(&mut self, hash: u32, loop_: LoopId) {
        if (self.len + 1) * 4 > self.entries.len() * 3 {
            self.grow();
        }
        self.put(u64::from(hash) << 32 | (u64::from(loop_.number()) + 1));
        self.len += 1;
    }

    pub fn remove(&mut self, hash: u32, loop_: LoopId) {
        let mask = self.entries.len().wrapping_sub(1);
        let mut gap = hash as usize & mask;
        while self.entries.get(gap).is_some_and(|entry| *entry != 0 && loop_of(*entry) != loop_) {
            gap = (gap + 1) & mask;
        }
        if self.entries.get(gap).is_none_or(|entry| *entry == 0) {
            return;
        }
        self.len -= 1;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let entry = self.entries[at];
            if entry == 0 {
                break;
            }
            // It may move up if its own place is not behind the gap.
            let home = hash_of(entry) as usize & mask;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(gap) & mask {
                self.entries[gap] = entry;
                gap = at;
            }
        }
        self.entries[gap] = 0;
    }

    fn grow(&mut self) {
        let larger = vec![0; (self.entries.len() * 2).max(LEAST)];
        for entry in std::mem::replace(&mut self.entries, larger).into_iter().filter(|entry| *entry != 0) {
            self.put(entry);
        }
    }

    fn put(&mut self, entry: u64) {
        let mask = self.entries.len() - 1;
        let mut at = hash_of(entry) as usize & mask;
        while self.entries[at] != 0 {
            at = (at + 1) & mask;
        }
        self.entries[at] = entry;
    }
}

fn hash_of(entry: u64) -> u32 {
    (entry >> 32) as u32
}

/// Not asked of an empty place.
fn loop_of(entry: u64) -> LoopId {
    LoopId::from_number((entry as u32).wrapping_sub(1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Hashes that collide, wrap round at the end of the table, and are the same.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((any::<bool>(), 0_u32..60, 0_u32..9), 1..400)) {
            let mut index = LoopIndex::default();
            let mut map = BTreeMap::new();
            for (insert, loop_, spread) in steps {
                let hash = (loop_ % 5).wrapping_sub(2).wrapping_mul(spread * 0x0101_0101 + 1);
                let id = LoopId::from_number(loop_);
                match map.get(&loop_).copied() {
                    Some(hash) if !insert => {
                        index.remove(hash, id);
                        map.remove(&loop_);
                    }
                    None if insert => {
                        index.insert(hash, id);
                        map.insert(loop_, hash);
                    }
                    // Of one that is not there nothing goes.
                    None => index.remove(hash, id),
                    Some(_) => {}
                }
                prop_assert_eq!(index.len(), map.len());
                for loop_ in 0..60 {
                    let hash = map.get(&loop_).copied();
                    let found = index.find(hash.unwrap_or(7), |found| found.number() == loop_);
                    prop_assert_eq!(found.is_some(), hash.is_some());
                }
            }
        }
    }
}
