//! An ordered tree that can answer "the first one whose cost is at most this".
//!
//! The scheduler needs an order with removal anywhere, and a search by a second property (does its cost
//! fit?) along that order. A treap does it in O(log n): a search tree by key, a heap by a mixed-up number,
//! and in every node the smallest costs of its subtree, so that whole subtrees that cannot fit are skipped.
//! The mixed-up numbers come from a counter, not from chance: the same operations give the same tree.
//!
//! Nodes of many trees live in one arena; a tree is just the index of its root.

/// A node that is not there.
pub const NIL: u32 = u32::MAX;

/// What a node knows of its whole subtree.
pub trait Summary: Copy + PartialEq {
    /// The summary of two together.
    fn join(self, other: Self) -> Self;
}

impl Summary for u64 {
    fn join(self, other: u64) -> u64 {
        self.min(other)
    }
}

impl<const N: usize> Summary for [u64; N] {
    fn join(mut self, other: [u64; N]) -> [u64; N] {
        for (mine, theirs) in self.iter_mut().zip(other) {
            *mine = (*mine).min(theirs);
        }
        self
    }
}

impl Summary for () {
    fn join(self, (): ()) {}
}

/// A sorted set that takes and gives back no memory as its keys come and go.
#[derive(Clone, Debug)]
pub struct Sorted<K> {
    nodes: Trees<K, ()>,
    root: u32,
}

impl<K: Ord + Copy> Default for Sorted<K> {
    fn default() -> Self {
        Sorted { nodes: Trees::default(), root: NIL }
    }
}

impl<K: Ord + Copy> Sorted<K> {
    /// Puts in a key that is not there.
    pub fn insert(&mut self, key: K) {
        self.nodes.insert(&mut self.root, key, ());
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: K) {
        self.nodes.remove(&mut self.root, key);
    }

    /// The first key.
    #[must_use]
    pub fn first(&self) -> Option<K> {
        self.nodes.first(self.root)
    }

    /// The first key after another, or of all.
    #[must_use]
    pub fn after(&self, key: Option<K>) -> Option<K> {
        self.nodes.find(self.root, key, &mut |()| true)
    }
}

/// The nodes of any number of trees.
#[derive(Clone, Debug)]
pub struct Trees<K, S> {
    nodes: Vec<Node<K, S>>,
    free: u32,
    made: u64,
}

#[derive(Clone, Debug)]
struct Node<K, S> {
    key: K,
    own: S,
    below: S,
    left: u32,
    right: u32,
    heat: u32,
}

impl<K: Ord + Copy, S: Summary> Default for Trees<K, S> {
    fn default() -> Self {
        Trees { nodes: Vec::new(), free: NIL, made: 0 }
    }
}

impl<K: Ord + Copy, S: Summary> Trees<K, S> {
    /// Puts `key` into the tree at `root`. A key must be in a tree at most once.
    pub fn insert(&mut self, root: &mut u32, key: K, own: S) {
        let node = self.make(key, own);
        *root = self.insert_at(*root, node);
    }

    /// Takes `key` out of the tree at `root`; says whether it was there.
    pub fn remove(&mut self, root: &mut u32, key: K) -> bool {
        let (rest, removed, _) = self.remove_at(*root, key);
        *root = rest;
        removed
    }

    /// Puts `key` in the place of `old`, which must be there.
    pub fn replace(&mut self, root: &mut u32, old: K, key: K, own: S) {
        let node = &mut self.nodes[*root as usize];
        if node.left == NIL && node.right == NIL {
            (node.key, node.own, node.below) = (key, own, own);
            return;
        }
        self.remove(root, old);
        self.insert(root, key, own);
    }

    /// The first key.
    #[must_use]
    pub fn first(&self, root: u32) -> Option<K> {
        let mut at = root;
        let mut found = None;
        while at != NIL {
            let node = &self.nodes[at as usize];
            found = Some(node.key);
            at = node.left;
        }
        found
    }

    /// The summary of the whole tree.
    #[must_use]
    pub fn summary(&self, root: u32) -> Option<S> {
        (root != NIL).then(|| self.nodes[root as usize].below)
    }

    /// The first key after `after` (or of all) whose own summary passes. `pass` must hold for a join
    /// whenever it holds for one of its parts.
    pub fn find(&self, root: u32, after: Option<K>, pass: &mut impl FnMut(&S) -> bool) -> Option<K> {
        if root == NIL || !pass(&self.nodes[root as usize].below) {
            return None;
        }
        let node = &self.nodes[root as usize];
        if after.is_none_or(|after| node.key > after) {
            if let Some(found) = self.find(node.left, after, pass) {
                return Some(found);
            }
            if pass(&node.own) {
                return Some(node.key);
            }
        }
        self.find(node.right, after, pass)
    }

    /// Visits every key in order, until `visit` says stop.
    pub fn each(&self, root: u32, visit: &mut impl FnMut(K) -> bool) -> bool {
        if root == NIL {
            return true;
        }
        let node = &self.nodes[root as usize];
        self.each(node.left, visit) && visit(node.key) && self.each(node.right, visit)
    }

    fn make(&mut self, key: K, own: S) -> u32 {
        self.made += 1;
        let node = Node { key, own, below: own, left: NIL, right: NIL, heat: mix(self.made) };
        if self.free != NIL {
            let index = self.free;
            self.free = self.nodes[index as usize].left;
            self.nodes[index as usize] = node;
            return index;
        }
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    fn insert_at(&mut self, root: u32, new: u32) -> u32 {
        if root == NIL {
            return new;
        }
        let Node { key, heat, own, .. } = self.nodes[new as usize];
        if heat > self.nodes[root as usize].heat {
            let (left, right) = self.split(root, key);
            self.nodes[new as usize].left = left;
            self.nodes[new as usize].right = right;
            self.sum_up(new);
            return new;
        }
        // What stands above a new node only gains by it: no need to look at the other branch.
        let at = &mut self.nodes[root as usize];
        at.below = at.below.join(own);
        if key < at.key {
            let left = at.left;
            let left = self.insert_at(left, new);
            self.nodes[root as usize].left = left;
        } else {
            let right = at.right;
            let right = self.insert_at(right, new);
            self.nodes[root as usize].right = right;
        }
        root
    }

    /// The rest of the tree, whether the key was there, and whether the rest has another summary for it.
    fn remove_at(&mut self, root: u32, key: K) -> (u32, bool, bool) {
        if root == NIL {
            return (NIL, false, false);
        }
        let Node { key: here, below, left, right, .. } = self.nodes[root as usize];
        if key == here {
            self.nodes[root as usize].left = self.free;
            self.free = root;
            let rest = self.merge(left, right);
            return (rest, true, self.summary(rest) != Some(below));
        }
        let (removed, changed) = if key < here {
            let (rest, removed, changed) = self.remove_at(left, key);
            self.nodes[root as usize].left = rest;
            (removed, changed)
        } else {
            let (rest, removed, changed) = self.remove_at(right, key);
            self.nodes[root as usize].right = rest;
            (removed, changed)
        };
        // Most calls cost the same, so that a branch seldom looks different without one of them.
        if changed {
            self.sum_up(root);
        }
        (root, removed, changed && self.nodes[root as usize].below != below)
    }

    /// Cuts a tree into what is below `key` and the rest.
    fn split(&mut self, root: u32, key: K) -> (u32, u32) {
        if root == NIL {
            return (NIL, NIL);
        }
        if self.nodes[root as usize].key < key {
            let (left, right) = self.split(self.nodes[root as usize].right, key);
            self.nodes[root as usize].right = left;
            self.sum_up(root);
            (root, right)
        } else {
            let (left, right) = self.split(self.nodes[root as usize].left, key);
            self.nodes[root as usize].left = right;
            self.sum_up(root);
            (left, root)
        }
    }

    fn merge(&mut self, left: u32, right: u32) -> u32 {
        if left == NIL {
            return right;
        }
        if right == NIL {
            return left;
        }
        // Whichever is above has all of the other below it.
        let below = self.nodes[left as usize].below.join(self.nodes[right as usize].below);
        if self.nodes[left as usize].heat > self.nodes[right as usize].heat {
            let joined = self.merge(self.nodes[left as usize].right, right);
            self.nodes[left as usize].right = joined;
            self.nodes[left as usize].below = below;
            left
        } else {
            let joined = self.merge(left, self.nodes[right as usize].left);
            self.nodes[right as usize].left = joined;
            self.nodes[right as usize].below = below;
            right
        }
    }

    fn sum_up(&mut self, at: u32) {
        let node = &self.nodes[at as usize];
        let mut below = node.own;
        for child in [node.left, node.right] {
            if child != NIL {
                below = below.join(self.nodes[child as usize].below);
            }
        }
        self.nodes[at as usize].below = below;
    }
}

/// A counter turned into numbers without pattern (the finalizer of a multiplicative hash).
fn mix(n: u64) -> u32 {
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    (x >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_agrees_with_a_sorted_map(steps in prop::collection::vec((0u8..4, 0u64..60, 0u64..20), 1..300)) {
            let mut arena = Trees::<u64, u64>::default();
            let mut root = NIL;
            let mut model = BTreeMap::new();
            for (kind, key, cost) in steps {
                match kind {
                    0 => {
                        if let std::collections::btree_map::Entry::Vacant(slot) = model.entry(key) {
                            slot.insert(cost);
                            arena.insert(&mut root, key, cost);
                        }
                    }
                    1 => prop_assert_eq!(arena.remove(&mut root, key), model.remove(&key).is_some()),
                    2 => {
                        if let Some((&old, _)) = model.iter().nth(cost as usize)
                            && (old == key || !model.contains_key(&key))
                        {
                            model.remove(&old);
                            model.insert(key, cost);
                            arena.replace(&mut root, old, key, cost);
                        }
                    }
                    _ => {
                        let expected = model.iter().find(|(k, c)| **k > key && **c <= cost).map(|(k, _)| *k);
                        prop_assert_eq!(arena.find(root, Some(key), &mut |least| *least <= cost), expected);
                        let expected = model.iter().find(|(_, c)| **c <= cost).map(|(k, _)| *k);
                        prop_assert_eq!(arena.find(root, None, &mut |least| *least <= cost), expected);
                    }
                }
                prop_assert_eq!(arena.first(root), model.keys().next().copied());
                prop_assert_eq!(arena.summary(root), model.values().min().copied());
            }
        }
    }
}
