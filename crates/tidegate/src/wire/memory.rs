//! How much memory the bodies of calls may take, in both directions.
//!
//! Requests are kept while they wait, so that they can be sent again; what reads a compressed reply needs its window. Both
//! take a [`Share`] of one budget. Memory is reserved as bytes arrive, never because they were announced.
//!
//! A caller gets at most as much as it leaves free. The rule holds for every group that a caller belongs to, the widest
//! first: for its token or its address, and within that for its loop. So one token alone takes half of the budget at most,
//! one loop of it a quarter, and there is always something left for another caller.

use std::hash::{BuildHasher, Hash, RandomState};
use std::num::NonZeroU64;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

/// How many groups a caller may belong to.
const GROUPS: usize = 3;

/// A budget of bytes.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::wire::{Memory, Owners};
///
/// let memory = Arc::new(Memory::new(100));
/// let mut share = memory.share(Owners::default());
/// assert!(share.grow(60) && !share.grow(60));
/// drop(share);
/// assert_eq!(memory.used(), 0);
/// ```
#[derive(Debug)]
pub struct Memory {
    taken: Mutex<Use>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Use {
    used: u64,
    most: u64,
    /// What each group has of it.
    owned: HashMap<NonZeroU64, u64>,
}

/// The groups that a caller belongs to, by their hashes. Two groups of one hash share a share. Without any, a share may
/// grow to all there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owners([Option<NonZeroU64>; GROUPS]);

/// A part of a [`Memory`]; given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    memory: Arc<Memory>,
    owners: Owners,
    bytes: u64,
}

impl Memory {
    /// A budget of so many bytes.
    #[must_use]
    pub fn new(most: u64) -> Memory {
        Memory { taken: Mutex::new(Use { most, ..Use::default() }), hasher: RandomState::new() }
    }

    /// Changes the size of the budget. What is already taken stays taken.
    pub fn resize(&self, most: u64) {
        self.taken.lock().most = most;
    }

    /// Returns how much is taken.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.taken.lock().used
    }

    /// Returns the owners that stand for these groups, the widest first. Groups after the third are not counted.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate::wire::Memory;
    ///
    /// let memory = Arc::new(Memory::new(100));
    /// let mut greedy = memory.share(memory.owners(["token a", "loop 1"]));
    /// assert!(greedy.grow(25) && !greedy.grow(1), "half of the half that its token gets");
    /// assert!(memory.share(memory.owners(["token a", "loop 2"])).grow(12));
    /// ```
    pub fn owners<G: Hash>(&self, groups: impl IntoIterator<Item = G>) -> Owners {
        let mut owners = Owners::default();
        for (owner, group) in owners.0.iter_mut().zip(groups) {
            *owner = NonZeroU64::new(self.hasher.hash_one(group)).or(Some(NonZeroU64::MIN));
        }
        owners
    }

    /// Returns a share of nothing.
    #[must_use]
    pub fn share(self: &Arc<Memory>, owners: Owners) -> Share {
        Share { memory: self.clone(), owners, bytes: 0 }
    }
}

impl Use {
    /// Returns how much more these owners may take: each as much as it then leaves free of what the one before it may.
    fn left_for(&self, owners: Owners) -> u64 {
        owners.0.iter().flatten().fold(self.most.saturating_sub(self.used), |free, owner| {
            free.saturating_sub(self.owned.get(owner).copied().unwrap_or(0)) / 2
        })
    }
}

impl Share {
    /// Makes it larger; returns whether there was room.
    #[must_use]
    pub fn grow(&mut self, bytes: u64) -> bool {
        let mut taken = self.memory.taken.lock();
        if bytes > taken.left_for(self.owners) {
            return false;
        }
        for owner in self.owners.0.iter().flatten() {
            *taken.owned.entry(*owner).or_default() += bytes;
        }
        taken.used += bytes;
        self.bytes += bytes;
        true
    }

    /// Returns whose it is.
    #[must_use]
    pub fn owners(&self) -> Owners {
        self.owners
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut taken = self.memory.taken.lock();
        taken.used -= self.bytes;
        for owner in self.owners.0.iter().flatten() {
            let left = taken.owned.get(owner).copied().unwrap_or(0).saturating_sub(self.bytes);
            match left {
                0 => drop(taken.owned.remove(owner)),
                _ => drop(taken.owned.insert(*owner, left)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_given_out_than_there_is_and_all_comes_back() {
        let memory = Arc::new(Memory::new(100));
        let (mut one, mut two) = (memory.share(Owners::default()), memory.share(Owners::default()));
        assert!(one.grow(60) && two.grow(40) && !two.grow(1) && !one.grow(u64::MAX));
        drop(two);
        assert!(one.grow(40));
        drop(one);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn an_owner_leaves_as_much_as_it_takes() {
        let memory = Arc::new(Memory::new(100));
        let share = |owner: &str| memory.share(memory.owners([owner]));
        let (mut hog, mut more, mut other) = (share("a"), share("a"), share("b"));
        assert!(hog.grow(30) && more.grow(20) && !more.grow(1), "half of it, in however many calls");
        assert!(other.grow(25) && !other.grow(1), "and another one gets half of the rest");
        drop((hog, more));
        assert!(other.grow(25));
        drop(other);
        assert_eq!(memory.used(), 0);
        assert!(memory.taken.lock().owned.is_empty());
    }

    #[test]
    fn groups_that_an_owner_makes_up_get_no_more_than_the_owner_does() {
        let memory = Arc::new(Memory::new(1 << 20));
        let share = |token: &str, name: u32| memory.share(memory.owners([token.into(), name.to_string()]));
        let mut shares: Vec<Share> = (0..1_000).map(|name| share("greedy", name)).collect();
        let taken = shares.iter_mut().filter_map(|share| share.grow(8 << 10).then_some(8 << 10)).sum::<u64>();
        assert!((1 << 18..=1 << 19).contains(&taken), "{taken}");
        assert!(share("other", 0).grow(1 << 16));
        drop(shares);
        let (mut one, mut two) = (share("greedy", 1), share("greedy", 2));
        assert!(one.grow(1 << 18) && !one.grow(1), "a quarter for one loop");
        assert!(two.grow(1 << 17), "and something is left for another one of the same token");
        drop((one, two));
        assert!(memory.taken.lock().owned.is_empty());
    }
}
