//! The ways of counting, one file each.
//!
//! Every algorithm is a small state machine over integers that answers the same few questions, always about
//! a cost in whole units and a number of units *withheld* (the share that is reserved for higher
//! priorities):
//!
//! * `fits(cost, withheld, now)`: may it go now?
//! * `earliest(cost, withheld)`: when could it go, if nobody else took anything meanwhile? The answer depends
//!   on the state alone and not on when one asks, so a booking stays put until something changes.
//! * `room(withheld, now)`: the largest cost that fits now.
//! * `spare(now, cost, withheld, at)`: how much may be taken now without moving a booking of `cost` at `at`.
//! * `take`, `refund`, `charge`: spend, give back to where it came from, and add debt.

mod bins;
mod circuit;
mod fixed_window;
mod hold;
mod in_flight;
mod sliding_window;
mod stretches;
mod token_bucket;

pub use circuit::Circuit;
pub use fixed_window::{Boundary, FixedWindow};
pub use hold::Hold;
pub use in_flight::InFlight;
pub use sliding_window::SlidingWindow;
pub use token_bucket::Bucket;

use crate::model::time::Nanos;

/// The debt of a limit is at most this many times N. What a call costs above that is dropped.
pub const MOST_DEBT: u64 = 4;

/// A cost that may go without moving any booking: no bound at all.
pub const UNBOUNDED: u64 = u64::MAX;

/// One limit's counting state, whatever the algorithm.
// With a tag of its own: one hidden in a field takes eight instructions more to find, at every limit.
#[derive(Clone, Debug)]
#[repr(u8)]
pub enum Meter {
    /// Sliding window, paced if short.
    Sliding(SlidingWindow),
    /// Calls or bytes in flight.
    InFlight(InFlight),
    /// Token bucket.
    Bucket(Bucket),
    /// Fixed or calendar window.
    Fixed(FixedWindow),
    /// Shut until a time.
    Hold(Hold),
    /// Shut while the upstream is not well.
    Circuit(Circuit),
}

/// Calls the same function of whichever algorithm it is.
macro_rules! each {
    ($self:expr, $meter:ident => $body:expr) => {
        match $self {
            Meter::Bucket($meter) => $body,
            Meter::Sliding($meter) => $body,
            Meter::Fixed($meter) => $body,
            Meter::InFlight($meter) => $body,
            Meter::Hold($meter) => $body,
            Meter::Circuit($meter) => $body,
        }
    };
}

impl Meter {
    /// The largest cost that can ever fit.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        each!(self, m => m.capacity())
    }

    /// Whether `cost` may go now, leaving `withheld` units alone.
    #[inline]
    pub fn fits(&mut self, cost: u64, withheld: u64, now: Nanos) -> bool {
        each!(self, m => m.fits(cost, withheld, now))
    }

    /// Spends `cost` if it fits, for a call that goes at this very moment and for which nobody waits:
    /// [`Meter::fits`] and [`Meter::take`] in one.
    pub fn try_take(&mut self, cost: u64, withheld: u64, now: Nanos) -> bool {
        match self {
            Meter::Bucket(m) => m.try_take(cost, withheld, now),
            Meter::Sliding(m) => m.try_take(cost, withheld, now),
            // Whoever is first after a window goes the longer way, which sees to the pacers.
            Meter::Hold(m) if m.is_fresh() => false,
            other => {
                let fits = other.fits(cost, withheld, now);
                if fits {
                    other.take(cost, now, now);
                }
                fits
            }
        }
    }

    /// What [`Meter::try_take`] does for most calls, and nothing that would be in their way. If it says no, it has
    /// changed nothing, and the call may fit all the same.
    #[inline(always)]
    pub fn try_take_quickly(&mut self, cost: u64, now: Nanos) -> bool {
        match self {
            Meter::Sliding(m) => m.try_take_quickly(cost, now),
            Meter::InFlight(m) => m.try_take_quickly(cost),
            Meter::Bucket(m) => cost <= m.capacity() && m.try_take_quickly(cost, now),
            other => other.is_open(),
        }
    }

    /// Apart, since a jump to one of all is dearer than to find the few that most limits are.
    #[inline(never)]
    fn is_open(&self) -> bool {
        matches!(self, Meter::Circuit(m) if m.breaker().is_closed())
    }

    /// Undoes [`Meter::try_take`] at the same moment.
    pub fn undo(&mut self, cost: u64, now: Nanos) {
        match self {
            Meter::Hold(m) => m.undo(now),
            Meter::Circuit(m) => m.breaker_mut().undo(),
            other => other.refund(cost, now, now),
        }
    }

    /// When `cost` could go if nobody else took anything; a past time means that it fits already.
    #[must_use]
    pub fn earliest(&self, cost: u64, withheld: u64) -> Nanos {
        each!(self, m => m.earliest(cost, withheld))
    }

    /// The largest cost that fits now.
    pub fn room(&mut self, withheld: u64, now: Nanos) -> u64 {
        each!(self, m => m.room(withheld, now))
    }

    /// How much may be taken now without moving a booking of `cost` at `at`.
    pub fn spare(&mut self, now: Nanos, cost: u64, withheld: u64, at: Nanos) -> u64 {
        each!(self, m => m.spare(now, cost, withheld, at))
    }

    /// Spends `cost`. `stamp` is the time that pacing counts from, at most `now`.
    #[inline]
    pub fn take(&mut self, cost: u64, stamp: Nanos, now: Nanos) {
        match self {
            Meter::Bucket(m) => m.take(cost, now),
            Meter::Sliding(m) => m.take(cost, stamp, now),
            Meter::Fixed(m) => m.take(cost, now),
            Meter::InFlight(m) => m.take(cost),
            Meter::Hold(m) => m.take(stamp, now),
            Meter::Circuit(m) => m.breaker_mut().take(now),
        }
    }

    /// What was taken at `taken` counts from now on only. Says whether that makes a difference here.
    pub fn count_from(&mut self, units: u64, taken: Nanos, now: Nanos) -> bool {
        match self {
            Meter::Sliding(m) => m.count_from(units, taken, now),
            _ => false,
        }
    }

    /// What a cost is here if it counts so many times in flight: only a budget has a price.
    #[inline]
    #[must_use]
    pub fn dearer(&self, cost: u64, times: u16) -> u64 {
        match self {
            Meter::InFlight(m) if times > 1 && m.is_budget() => cost.saturating_mul(times.into()),
            _ => cost,
        }
    }

    /// Whether it makes a difference from when on a call is paced.
    #[must_use]
    pub fn is_paced(&self) -> bool {
        matches!(self, Meter::Sliding(m) if m.pacer().is_some())
    }

    /// What [`Meter::empty_pacer`] would take.
    #[must_use]
    pub fn saved(&self, now: Nanos) -> u64 {
        match self {
            Meter::Sliding(m) => m.saved(now),
            _ => 0,
        }
    }

    /// Whether [`Meter::empty_pacer`] would leave a booking of `cost` at `at` where it is.
    #[must_use]
    pub fn may_empty(&self, now: Nanos, cost: u64, at: Nanos) -> bool {
        match self {
            Meter::Sliding(m) => m.may_empty(now, cost, at),
            _ => true,
        }
    }

    /// What was saved up while nobody went does not go at once.
    pub fn empty_pacer(&mut self, now: Nanos) {
        if let Meter::Sliding(m) = self {
            m.empty_pacer(now);
        }
    }

    /// Gives back what is in flight; nothing where that is not what is counted.
    #[inline]
    pub fn release(&mut self, units: u64) {
        if let Meter::InFlight(m) = self {
            m.release(units);
        }
    }

    /// Returns `units` of what was taken at `taken`, if that still counts.
    pub fn refund(&mut self, units: u64, taken: Nanos, now: Nanos) {
        match self {
            Meter::Bucket(m) => m.refund(units, now),
            Meter::Sliding(m) => m.refund(units, taken, now),
            Meter::Fixed(m) => m.refund(units, taken, now),
            Meter::InFlight(m) => m.release(units),
            Meter::Hold(_) | Meter::Circuit(_) => {}
        }
    }

    /// Charges `units` now, whether they fit or not, up to a debt of [`MOST_DEBT`] times N. Returns how many count.
    pub fn charge(&mut self, units: u64, now: Nanos) -> u64 {
        match self {
            Meter::Bucket(m) => m.charge(units, now),
            Meter::Sliding(m) => m.charge(units, now),
            Meter::Fixed(m) => m.charge(units, now),
            Meter::InFlight(_) | Meter::Hold(_) | Meter::Circuit(_) => units,
        }
    }

    /// Drops debt above [`MOST_DEBT`] times N: it was kept by an older version, or N was larger.
    pub fn bound_debt(&mut self, now: Nanos) {
        match self {
            Meter::Bucket(m) => m.bound_debt(now),
            Meter::Sliding(m) => m.bound_debt(now),
            Meter::Fixed(m) => m.bound_debt(now),
            Meter::InFlight(_) | Meter::Hold(_) | Meter::Circuit(_) => {}
        }
    }

    /// Forgets what was spent and what is owed. What is in flight stays.
    pub fn reset(&mut self, now: Nanos) {
        match self {
            Meter::Bucket(m) => m.reset(now),
            Meter::Sliding(m) => m.reset(now),
            Meter::Fixed(m) => m.reset(now),
            Meter::InFlight(_) | Meter::Hold(_) | Meter::Circuit(_) => {}
        }
    }

    /// Charges `units` that others took of a shared limit. Returns how many of them count.
    pub fn charge_others(&mut self, units: u64, now: Nanos) -> u64 {
        match self {
            Meter::Sliding(m) => m.charge_others(units, now),
            // What a window does not have is not owed to the next one.
            Meter::Fixed(m) => {
                let units = units.min(m.room(0, now));
                m.take(units, now);
                units
            }
            other => other.charge(units, now),
        }
    }

    /// Units spent that still count.
    pub fn used(&mut self, now: Nanos) -> u64 {
        each!(self, m => m.used(now))
    }

    /// When all of it is available again; a past time means that it is.
    #[must_use]
    pub fn full_at(&self) -> Nanos {
        each!(self, m => m.full_at())
    }

    /// About when `units` in all, more than fit at once perhaps, have been let through.
    pub fn flows_by(&mut self, units: u128, withheld: u64, now: Nanos) -> Nanos {
        match self {
            Meter::Bucket(m) => m.flows_by(units, withheld, now),
            Meter::Sliding(m) => m.flows_by(units, withheld, now),
            Meter::Fixed(m) => m.flows_by(units, withheld, now),
            Meter::Hold(m) => m.opens().max(now),
            Meter::InFlight(_) | Meter::Circuit(_) => now,
        }
    }

    /// Whether this counts slots, which come back at no known time.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        matches!(self, Meter::InFlight(_) | Meter::Circuit(_))
    }

    /// Whether this counts units at all; a window and a breaker are open or shut.
    #[must_use]
    pub fn counts(&self) -> bool {
        !matches!(self, Meter::Hold(_) | Meter::Circuit(_))
    }
}
