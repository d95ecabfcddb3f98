//! What a call takes, by kind of unit.

/// Kinds of units on one route: at most seven dimensions, and the slot itself.
pub(crate) const MAX_UNIT_KINDS: usize = 8;
/// The kind that counts the call itself: one unit, independent of its cost.
pub(crate) const SLOT: u8 = 7;
/// What a call takes, by kind, in the layout of its route.
pub(crate) type Units = [u64; MAX_UNIT_KINDS];
