//! Typed ids: which entry of which arena is meant.
//!
//! An id is a `u32`. Ids of different things are different types, so that they cannot be swapped. `NIL` stands for no
//! entry: it saves the tag that an `Option` would take, and a look-up with it fails by the bounds check alone.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

/// An index into an [`Arena`](super::Arena).
pub(crate) trait Id: Copy + Eq + Ord {
    /// Returns the id of the entry at `index`. Arenas have fewer than 2³² entries.
    fn at(index: usize) -> Self;

    /// Returns the place of the entry.
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub(crate) struct $name(u32);

        #[allow(dead_code, reason = "not every kind of id is used in every way")]
        impl $name {
            /// No entry.
            pub const NIL: $name = $name(u32::MAX);

            /// Returns the id that [`Self::number`] gave this number.
            #[inline(always)]
            pub const fn from_number(number: u32) -> $name {
                $name(number)
            }

            #[inline(always)]
            pub const fn number(self) -> u32 {
                self.0
            }

            #[inline(always)]
            pub const fn is_nil(self) -> bool {
                self.0 == u32::MAX
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name::NIL
            }
        }

        impl Id for $name {
            #[inline(always)]
            fn at(index: usize) -> $name {
                $name(index as u32)
            }

            #[inline(always)]
            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.is_nil() {
                    true => write!(f, "{}(nil)", stringify!($name)),
                    false => write!(f, "{}({})", stringify!($name), self.0),
                }
            }
        }
    )*};
}

ids! {
    /// A limit at work.
    LimitId
    /// A definition of limits, which all instances made from it share.
    SpecId
    /// A route: the limits that calls of one shape pass.
    RouteId
    /// A loop that makes calls.
    LoopId
    /// Calls of one route, loop and priority that wait.
    LaneId
    /// A call that waits.
    WaiterId
    /// Equal calls of one lane that wait one behind the other.
    BatchId
    /// A call in flight.
    CallId
    /// A service of the config.
    ServiceId
}

/// Marks routes that were found by one engine under one config. No other engine and no other config has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct RouteTag(u32);

impl RouteTag {
    pub fn fresh() -> RouteTag {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        RouteTag(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns a word with a route and this tag in it.
    #[inline(always)]
    pub const fn mark(self, route: RouteId) -> u64 {
        (self.0 as u64) << 32 | route.number() as u64
    }

    /// Returns the route in a word, if this tag is in it too.
    #[inline(always)]
    pub fn route(self, marked: u64) -> Option<RouteId> {
        ((marked >> 32) as u32 == self.0).then_some(RouteId::from_number(marked as u32))
    }
}
