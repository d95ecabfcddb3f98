//! How much memory the bodies of calls may take, in both directions.
//!
//! Requests are kept while they wait, so that they can be sent again; what reads a compressed reply needs its window. Both
//! take a [`Share`] of one budget. Memory is reserved as bytes arrive, never because they were announced.
//!
//! An owner (the holder of a token) gets at most as much as it leaves free. So one owner alone takes half of the budget at
//! most, and there is always something left for another one.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

/// A budget of bytes.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::wire::Memory;
///
/// let memory = Arc::new(Memory::new(100));
/// let mut share = memory.share(None);
/// assert!(share.grow(60) && !share.grow(60));
/// drop(share);
/// assert_eq!(memory.used(), 0);
/// ```
#[derive(Debug)]
pub struct Memory(Mutex<Use>);

#[derive(Debug, Default)]
struct Use {
    used: u64,
    most: u64,
    /// What each owner has of it.
    owned: HashMap<Arc<str>, u64>,
}

/// A part of a [`Memory`]; given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    memory: Arc<Memory>,
    owner: Option<Arc<str>>,
    bytes: u64,
}

impl Memory {
    /// A budget of so many bytes.
    #[must_use]
    pub fn new(most: u64) -> Memory {
        Memory(Mutex::new(Use { most, ..Use::default() }))
    }

    /// Changes the size of the budget. What is already taken stays taken.
    pub fn resize(&self, most: u64) {
        self.0.lock().most = most;
    }

    /// Returns how much is taken.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.0.lock().used
    }

    /// Returns a share of nothing. Without an owner it may grow to all there is.
    #[must_use]
    pub fn share(self: &Arc<Memory>, owner: Option<Arc<str>>) -> Share {
        Share { memory: self.clone(), owner, bytes: 0 }
    }
}

impl Share {
    /// Makes it larger; returns whether there was room.
    #[must_use]
    pub fn grow(&mut self, bytes: u64) -> bool {
        let mut all = self.memory.0.lock();
        let Some(used) = all.used.checked_add(bytes).filter(|used| *used <= all.most) else { return false };
        if let Some(owner) = &self.owner {
            let free = all.most - used;
            let owned = all.owned.get(owner).copied().unwrap_or(0) + bytes;
            if owned > free {
                return false;
            }
            all.owned.insert(owner.clone(), owned);
        }
        all.used = used;
        self.bytes += bytes;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut all = self.memory.0.lock();
        all.used -= self.bytes;
        let Some(owner) = &self.owner else { return };
        let left = all.owned.get(owner).copied().unwrap_or(0).saturating_sub(self.bytes);
        match left {
            0 => drop(all.owned.remove(owner)),
            _ => drop(all.owned.insert(owner.clone(), left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_given_out_than_there_is_and_all_comes_back() {
        let memory = Arc::new(Memory::new(100));
        let (mut one, mut two) = (memory.share(None), memory.share(None));
        assert!(one.grow(60) && two.grow(40) && !two.grow(1) && !one.grow(u64::MAX));
        drop(two);
        assert!(one.grow(40));
        drop(one);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn an_owner_leaves_as_much_as_it_takes() {
        let memory = Arc::new(Memory::new(100));
        let share = |owner: &str| memory.share(Some(owner.into()));
        let (mut hog, mut more, mut other) = (share("a"), share("a"), share("b"));
        assert!(hog.grow(30) && more.grow(20) && !more.grow(1), "half of it, in however many calls");
        assert!(other.grow(25) && !other.grow(1), "and another one gets half of the rest");
        drop((hog, more));
        assert!(other.grow(25));
        drop(other);
        assert_eq!(memory.used(), 0);
        assert!(memory.0.lock().owned.is_empty());
    }
}
