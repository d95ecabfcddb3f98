//! The sliding window: never more than N in any half-open stretch of W; short ones are paced as well.
//!
//! Time is cut into slots of W/256. What is taken is remembered by slot and counts until W after the *end*
//! of its slot: against us by at most W/256, never against the upstream. Only slots in which something was
//! taken are kept, so a quiet window costs a few bytes and a busy one at most 258 entries.
//!
//! A *pacer* is a small bucket in front: units flow at N/W, `burst` may go at once. A cost above `burst`
//! goes when the pacer is full and leaves it in debt, so nothing up to N is impossible. The pacer counts a
//! queued call from the time it was booked for, not from the late timer: what a timer rounds costs no quota.

use std::collections::VecDeque;

use crate::algorithm::{Bucket, UNBOUNDED};
use crate::rate::Rate;
use crate::time::{Nanos, whole_nanos};

/// A sliding window, paced or not.
#[derive(Clone, Debug)]
pub struct SlidingWindow {
    units: u64,
    window: u64,
    used: u64,
    /// The slot of the newest entry.
    newest: u64,
    slots: Slots,
    pacer: Option<Box<Bucket>>,
}

/// Units taken, oldest slot first. Most windows count few units in all: those fit in four bytes an entry,
/// which matters when every one of a million loops has a window of its own.
#[derive(Clone, Debug)]
enum Slots {
    /// The low 16 bits of the slot, and its units. Live slots span far less than 2¹⁶.
    Small(VecDeque<(u16, u16)>),
    Large(VecDeque<(u64, u64)>),
}

const PARTS: u64 = 256;

impl SlidingWindow {
    /// An untouched window without a pacer.
    #[must_use]
    pub fn new(rate: Rate) -> SlidingWindow {
        let slots = match rate.units() {
            // Half the range: a debt may go above N before entries are widened.
            0..=0x7fff => Slots::Small(VecDeque::new()),
            _ => Slots::Large(VecDeque::new()),
        };
        let window = whole_nanos(rate.window());
        SlidingWindow { units: rate.units(), window, used: 0, newest: 0, slots, pacer: None }
    }

    /// The same, with units flowing at N/W and `burst` at once.
    #[must_use]
    pub fn paced(rate: Rate, burst: u64, now: Nanos) -> SlidingWindow {
        SlidingWindow { pacer: Some(Box::new(Bucket::full(rate, burst, now))), ..SlidingWindow::new(rate) }
    }

    /// What one call may take at most.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.units
    }

    /// Whether `cost` may go now.
    #[inline]
    pub fn fits(&mut self, cost: u64, withheld: u64, now: Nanos) -> bool {
        self.advance(now);
        self.used.saturating_add(cost).saturating_add(withheld) <= self.units
            && self.pacer.as_ref().is_none_or(|pacer| pacer.fits(cost.min(pacer.capacity()), 0, now))
    }

    /// When `cost` could go.
    #[must_use]
    pub fn earliest(&self, cost: u64, withheld: u64) -> Nanos {
        let Some(allowed) = self.units.checked_sub(cost).and_then(|rest| rest.checked_sub(withheld)) else {
            return Nanos::NEVER;
        };
        let counted = self.drops_to(allowed);
        let paced = self.pacer.as_ref().map(|pacer| pacer.earliest(cost.min(pacer.capacity()), 0));
        counted.max(paced.unwrap_or(Nanos::ZERO))
    }

    /// The largest cost that fits now.
    pub fn room(&mut self, withheld: u64, now: Nanos) -> u64 {
        self.advance(now);
        let counted = self.units.saturating_sub(withheld).saturating_sub(self.used);
        counted.min(self.pacer.as_ref().map_or(UNBOUNDED, |pacer| paced_room(pacer, pacer.room(0, now))))
    }

    /// How much may be taken now without moving a booking of `cost` at `at`.
    pub fn spare(&mut self, now: Nanos, cost: u64, withheld: u64, at: Nanos) -> u64 {
        self.advance(now);
        let counted = if at >= self.expiry(self.slot(now)) {
            UNBOUNDED
        } else {
            self.units.saturating_sub(withheld).saturating_sub(cost).saturating_sub(self.used_at(at))
        };
        let paced = self.pacer.as_ref().map_or(UNBOUNDED, |p| p.spare(now, cost.min(p.capacity()), 0, at));
        counted.min(paced)
    }

    /// Spends `cost`; the pacer counts it from `stamp`.
    #[inline]
    pub fn take(&mut self, cost: u64, stamp: Nanos, now: Nanos) {
        self.advance(now);
        if let Some(pacer) = &mut self.pacer {
            pacer.take(cost, stamp);
        }
        if cost > 0 {
            self.used = self.used.saturating_add(cost);
            self.add(self.slot(now), cost);
        }
    }

    /// Gives back what was taken at `taken`, if its slot still counts. The pacer gets back what it can hold.
    pub fn refund(&mut self, units: u64, taken: Nanos, now: Nanos) {
        self.advance(now);
        let slot = self.slot(taken);
        let returned = match &mut self.slots {
            Slots::Small(ring) => ring
                .iter_mut()
                .rev()
                .find(|(low, _)| *low == slot as u16 && slot + PARTS + 2 > self.newest)
                .map_or(0, |(_, held)| {
                    let back = units.min(u64::from(*held));
                    *held -= back as u16;
                    back
                }),
            Slots::Large(ring) => match ring.binary_search_by_key(&slot, |(slot, _)| *slot) {
                Ok(index) => {
                    let back = units.min(ring[index].1);
                    ring[index].1 -= back;
                    back
                }
                Err(_) => 0,
            },
        };
        self.forget(returned);
        if let Some(pacer) = &mut self.pacer {
            pacer.refund(returned, now);
        }
    }

    /// Units that still count.
    pub fn used(&mut self, now: Nanos) -> u64 {
        self.advance(now);
        self.used
    }

    /// When all is available again.
    #[must_use]
    pub fn full_at(&self) -> Nanos {
        let paced = self.pacer.as_ref().map_or(Nanos::ZERO, |pacer| pacer.full_at());
        self.drops_to(0).max(paced)
    }

    /// When `units` in all have been let through: the rest of a window as the spent ones expire, and the same
    /// again for every whole window, as what went then expires in turn.
    pub fn flows_by(&mut self, units: u128, withheld: u64, now: Nanos) -> Nanos {
        self.advance(now);
        let per_window = u128::from(self.units.saturating_sub(withheld).max(1));
        let windows = units.saturating_sub(1) / per_window;
        let rest = u64::try_from(units - windows * per_window).unwrap_or(u64::MAX);
        let counted = self.drops_to(self.units.saturating_sub(withheld).saturating_sub(rest)).max(now);
        let counted = match windows {
            0 => counted,
            _ => {
                // From one expiry, W after a slot's end, to that of what goes then: as many whole slots.
                let period = (self.window / self.grain() + 1) * self.grain();
                let span = u64::try_from((windows - 1).saturating_mul(period.into())).unwrap_or(u64::MAX);
                Nanos(self.expiry(self.slot(counted)).0.saturating_add(span))
            }
        };
        let paced = self.pacer.as_ref().map_or(now, |pacer| pacer.flows_by(units, 0, now));
        counted.max(paced)
    }

    /// Changes N and the burst, keeping W and what is spent.
    pub fn change(&mut self, rate: Rate, burst: Option<u64>, now: Nanos) {
        self.units = rate.units();
        if self.units > 0x7fff {
            self.widen();
        }
        match (&mut self.pacer, burst) {
            (Some(pacer), Some(burst)) => pacer.change(rate, burst, now),
            (pacer, burst) => *pacer = burst.map(|burst| Box::new(Bucket::full(rate, burst, now))),
        }
    }

    fn grain(&self) -> u64 {
        self.window.div_ceil(PARTS)
    }

    fn slot(&self, t: Nanos) -> u64 {
        t.0 / self.grain()
    }

    /// When what was taken in `slot` counts no longer.
    fn expiry(&self, slot: u64) -> Nanos {
        Nanos((slot + 1).saturating_mul(self.grain()).saturating_add(self.window))
    }

    /// The first time at which at most `allowed` units count: when the newest goes that is too much with all
    /// after it. Sums from that end may saturate without harm, whatever the debt.
    fn drops_to(&self, allowed: u64) -> Nanos {
        if self.used <= allowed {
            return Nanos::ZERO;
        }
        let mut kept: u64 = 0;
        for (slot, units) in self.entries().rev() {
            kept = kept.saturating_add(units);
            if kept > allowed {
                return self.expiry(slot);
            }
        }
        Nanos::ZERO
    }

    /// Units of those that count now which still count at `t`.
    fn used_at(&self, t: Nanos) -> u64 {
        let kept = self.entries().rev().take_while(|(slot, _)| self.expiry(*slot) > t);
        kept.fold(0, |sum, (_, units)| sum.saturating_add(units))
    }

    /// Counts `units` less, after their entry has been taken away or made smaller.
    fn forget(&mut self, units: u64) {
        self.used = match self.used {
            // More than 64 bits hold: how much more only the entries know.
            u64::MAX => self.entries().fold(0, |sum, (_, units)| sum.saturating_add(units)),
            used => used.saturating_sub(units),
        };
    }

    fn front(&self) -> Option<(u64, u64)> {
        match &self.slots {
            Slots::Small(ring) => ring.front().map(|&entry| self.whole(entry)),
            Slots::Large(ring) => ring.front().copied(),
        }
    }

    /// A small entry with its slot's upper bits: it is at most a few hundred slots older than the newest.
    fn whole(&self, (low, units): (u16, u16)) -> (u64, u64) {
        (self.newest - u64::from((self.newest as u16).wrapping_sub(low)), u64::from(units))
    }

    fn entries(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        let (small, large) = match &self.slots {
            Slots::Small(ring) => (Some(ring), None),
            Slots::Large(ring) => (None, Some(ring)),
        };
        let widened = small.into_iter().flatten().map(|&entry| self.whole(entry));
        widened.chain(large.into_iter().flatten().copied())
    }

    /// Forgets what counts no longer.
    #[inline]
    fn advance(&mut self, now: Nanos) {
        if self.used == 0 {
            // Entries emptied by refunds may be left; they weigh nothing and go with the next ones.
            return;
        }
        while let Some((slot, units)) = self.front() {
            if self.expiry(slot) > now {
                break;
            }
            match &mut self.slots {
                Slots::Small(ring) => drop(ring.pop_front()),
                Slots::Large(ring) => drop(ring.pop_front()),
            }
            self.forget(units);
        }
    }

    fn add(&mut self, slot: u64, cost: u64) {
        if self.used == cost {
            // Nothing else counts: whatever is left in the ring is empty.
            match &mut self.slots {
                Slots::Small(ring) => ring.clear(),
                Slots::Large(ring) => ring.clear(),
            }
        }
        // A clock that stood still or stepped back adds to the newest slot: against us.
        let slot = slot.max(self.newest);
        if let Slots::Small(ring) = &mut self.slots {
            let units = u16::try_from(cost).ok();
            let merged = match ring.back() {
                Some((low, held)) if *low == slot as u16 => units.and_then(|u| held.checked_add(u)),
                _ => units,
            };
            match merged {
                Some(units) => {
                    match ring.back_mut() {
                        Some(back) if back.0 == slot as u16 => back.1 = units,
                        _ => ring.push_back((slot as u16, units)),
                    }
                    self.newest = slot;
                    return;
                }
                None => self.widen(),
            }
        }
        if let Slots::Large(ring) = &mut self.slots {
            match ring.back_mut() {
                Some(back) if back.0 == slot => back.1 = back.1.saturating_add(cost),
                _ => ring.push_back((slot, cost)),
            }
        }
        self.newest = slot;
    }

    fn widen(&mut self) {
        if let Slots::Small(_) = self.slots {
            self.slots = Slots::Large(self.entries().collect());
        }
    }
}

/// A full pacer lets any cost pass; else only what it holds.
fn paced_room(pacer: &Bucket, level: u64) -> u64 {
    if level >= pacer.capacity() { UNBOUNDED } else { level }
}
