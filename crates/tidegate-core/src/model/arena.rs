//! Entries by id, with a list of free places.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use super::Id;

/// Entries that stay where they are until they are freed. The place that was freed last is used first, so the same
/// operations give the same ids.
#[derive(Clone, Debug)]
pub(crate) struct Arena<I, T> {
    entries: Vec<T>,
    free: Vec<I>,
    ids: PhantomData<I>,
}

impl<I, T> Default for Arena<I, T> {
    fn default() -> Self {
        Arena { entries: Vec::new(), free: Vec::new(), ids: PhantomData }
    }
}

impl<I: Id, T> Arena<I, T> {
    /// Puts an entry into a free place.
    #[inline]
    pub fn insert(&mut self, entry: T) -> I {
        self.replace_free(entry).0
    }

    /// Puts an entry into a free place. Also returns the freed entry that was left there, if there was one.
    #[inline(always)]
    pub fn replace_free(&mut self, entry: T) -> (I, Option<T>) {
        match self.free.pop() {
            Some(id) => (id, Some(std::mem::replace(&mut self.entries[id.index()], entry))),
            None => {
                self.entries.push(entry);
                (I::at(self.entries.len() - 1), None)
            }
        }
    }

    /// Returns a place that was freed, with the entry that was left there.
    #[inline]
    pub fn reuse(&mut self) -> Option<I> {
        self.free.pop()
    }

    /// Puts an entry into a free place. A large arena grows by a sixteenth and not to twice its size: doubling would leave
    /// up to half of the memory of a million loops unused.
    pub fn insert_lean(&mut self, entry: T) -> I {
        if self.free.is_empty() && self.entries.len() == self.entries.capacity() && self.entries.len() >= 1024
        {
            self.entries.reserve_exact(self.entries.len() / 16);
        }
        self.insert(entry)
    }

    /// Frees the place of an entry. The entry can be read until another one takes its place.
    #[inline(always)]
    pub fn free(&mut self, id: I) {
        debug_assert!(id.index() < self.entries.len(), "an entry of this arena");
        self.free.push(id);
    }

    /// Frees several places. They are used again from the last one on.
    pub fn free_all(&mut self, ids: impl IntoIterator<Item = I>) {
        self.free.extend(ids);
    }

    /// Takes those free places into use again of which `stays_free` says no. Their entries are as they were left.
    pub fn retain_free(&mut self, stays_free: impl Fn(I) -> bool) {
        self.free.retain(|id| stays_free(*id));
    }

    /// Sorts the free places, so that what comes next does not depend on the order in which they were freed.
    pub fn sort_free(&mut self) {
        self.free.sort_unstable();
    }

    /// Returns whether the place of an entry is free. Takes as long as there are free places.
    pub fn is_free(&self, id: I) -> bool {
        self.free.contains(&id)
    }

    #[inline(always)]
    pub fn get(&self, id: I) -> Option<&T> {
        self.entries.get(id.index())
    }

    #[inline(always)]
    pub fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.entries.get_mut(id.index())
    }

    /// Returns how many places there are, free ones included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the ids of all places, free ones included.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + use<I, T> {
        (0..self.entries.len()).map(I::at)
    }

    /// Returns all entries, those in free places included.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.entries.iter()
    }

    /// Returns all entries, those in free places included.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.entries.iter_mut()
    }
}

impl<I: Id + std::hash::Hash, T> Arena<I, T> {
    /// Returns the ids of all entries that are not freed.
    pub fn live(&self) -> impl Iterator<Item = I> + use<I, T> {
        let free: hashbrown::HashSet<I> = self.free.iter().copied().collect();
        self.ids().filter(move |id| !free.contains(id))
    }
}

impl<I: Id, T> Index<I> for Arena<I, T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, id: I) -> &T {
        &self.entries[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Arena<I, T> {
    #[inline(always)]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.entries[id.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::super::LaneId;
    use super::*;

    #[test]
    fn the_place_that_was_freed_last_is_used_first() {
        let mut arena: Arena<LaneId, char> = Arena::default();
        let [a, b, c] = ['a', 'b', 'c'].map(|entry| arena.insert(entry));
        arena.free(a);
        arena.free(c);
        assert_eq!(arena.live().collect::<Vec<_>>(), [b]);
        assert_eq!(arena.replace_free('d'), (c, Some('c')));
        assert_eq!(arena.replace_free('e'), (a, Some('a')));
        assert_eq!(arena.iter().collect::<String>(), "ebd");
        assert!(arena.get(LaneId::NIL).is_none());
    }
}
