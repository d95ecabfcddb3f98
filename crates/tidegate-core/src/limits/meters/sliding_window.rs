//! The sliding window: never more than N in any half-open stretch of W; short ones are paced as well.
//!
//! Time is cut into slots of W/256. What is taken is remembered by slot and counts until W after the *end*
//! of its slot: against us by at most W/256, never against the upstream. Only slots in which something was
//! taken are kept, at most 257 of them, and a window that counts few units has few bytes for each: see `slots`.
//!
//! A *pacer* is a small bucket in front: units flow at N/W, `burst` may go at once. A cost above `burst`
//! goes when the pacer is full and leaves it in debt, so nothing up to N is impossible. The pacer counts a
//! queued call from the time it was booked for, not from the late timer: what a timer rounds costs no quota.
//!
//! A window without a pacer lets N go at once, and N more as soon as they count no longer. The upstream counts each from
//! when it arrives: what arrives late the first time and in time the second is one too many. So where calls go over a
//! network its slots *linger*, for as many slots longer as calls may lie apart.

use std::time::Duration;

use super::bins::Slots;
use crate::limits::meters::{Bucket, MOST_DEBT, UNBOUNDED};
use crate::model::rate::Rate;
use crate::model::time::{Nanos, whole_nanos};

/// A sliding window, paced or not.
#[derive(Clone, Debug)]
// In this order: what a call looks at that goes the shortest way comes first, and lies together.
#[repr(C)]
pub struct SlidingWindow {
    /// When the current slot ends or the oldest units that count are forgotten: nothing changes before.
    turn: u64,
    units: u64,
    used: u64,
    /// Units taken in the current slot.
    current: u64,
    /// Behind a pointer: a million loops have a window each, and those have none.
    pacer: Option<Box<Bucket>>,
    /// Where the current slot ends.
    slot_end: u64,
    /// W, and above it for how many slots longer they count: no window of 31 days needs its upper bits.
    span: u64,
    /// Units taken in slots before the current one.
    slots: Slots,
}

const PARTS: u64 = 256;
/// Where in a span the slots that linger begin, and how many may.
const LINGER: u32 = 56;
const MOST_LINGER: u64 = 64;
/// Who has more than this part of the window left makes up for lost time rather than step aside for others.
const BEHIND: u64 = 50;

impl SlidingWindow {
    /// An untouched window without a pacer.
    #[must_use]
    pub fn new(rate: Rate) -> SlidingWindow {
        SlidingWindow {
            units: rate.units(),
            span: whole_nanos(rate.window()),
            used: 0,
            current: 0,
            slot_end: 0,
            turn: 0,
            slots: Slots::new(),
            pacer: None,
        }
    }

    /// The same, with units flowing at `pace`, which is N/W or a little less, and `burst` at once.
    #[must_use]
    pub fn paced(rate: Rate, pace: Rate, burst: u64, now: Nanos) -> SlidingWindow {
        SlidingWindow { pacer: Some(Box::new(Bucket::full(pace, burst, now))), ..SlidingWindow::new(rate) }
    }

    /// What is taken counts for about that much longer, in whole slots.
    pub fn linger(&mut self, slack: Duration) {
        let grain = self.grain();
        let slots = (whole_nanos(slack).saturating_add(grain / 2) / grain).min(MOST_LINGER);
        if slots > 0 {
            // More of them count than the short entries can tell apart.
            self.slots.widen(self.current_slot());
        }
        self.span = self.window() | slots << LINGER;
        self.turn = 0;
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
            && self.pacer().is_none_or(|pacer| pacer.fits(cost.min(pacer.capacity()), 0, now))
    }

    /// Spends `cost` if it fits, for a call that goes at this very moment.
    #[inline]
    pub fn try_take(&mut self, cost: u64, withheld: u64, now: Nanos) -> bool {
        self.advance(now);
        // What is left is judged without sums that could overflow: `used` may be above N, `withheld` is not.
        let free = (self.units - withheld).saturating_sub(self.used);
        if cost > free {
            return false;
        }
        if let Some(pacer) = &mut self.pacer
            && !pacer.try_pace(cost, now)
        {
            return false;
        }
        self.used += cost;
        self.current += cost;
        true
    }

    /// The same in the middle of a slot. If it says no, it has changed nothing, and `cost` may fit all the same.
    #[inline(always)]
    pub(super) fn try_take_quickly(&mut self, cost: u64, now: Nanos) -> bool {
        if now.0 >= self.turn {
            return false;
        }
        let used = match self.used.checked_add(cost) {
            Some(used) if used <= self.units => used,
            _ => return false,
        };
        if let Some(pacer) = &mut self.pacer
            && !pacer.try_take_quickly(cost, now)
        {
            return false;
        }
        self.used = used;
        self.current += cost;
        true
    }

    /// When `cost` could go.
    #[must_use]
    pub fn earliest(&self, cost: u64, withheld: u64) -> Nanos {
        let Some(allowed) = self.units.checked_sub(cost).and_then(|rest| rest.checked_sub(withheld)) else {
            return Nanos::NEVER;
        };
        let counted = self.drops_to(allowed);
        let paced = self.pacer().map(|pacer| pacer.earliest(cost.min(pacer.capacity()), 0));
        counted.max(paced.unwrap_or(Nanos::ZERO))
    }

    /// The largest cost that fits now.
    pub fn room(&mut self, withheld: u64, now: Nanos) -> u64 {
        self.advance(now);
        let counted = self.units.saturating_sub(withheld).saturating_sub(self.used);
        counted.min(self.pacer().map_or(UNBOUNDED, |pacer| paced_room(pacer, pacer.room(0, now))))
    }

    /// How much may be taken now without moving a booking of `cost` at `at`.
    pub fn spare(&mut self, now: Nanos, cost: u64, withheld: u64, at: Nanos) -> u64 {
        self.advance(now);
        let counted = if at.0 >= self.slot_end.saturating_add(self.counts_for()) {
            UNBOUNDED
        } else {
            self.units.saturating_sub(withheld).saturating_sub(cost).saturating_sub(self.used_at(at))
        };
        let paced = self.pacer().map_or(UNBOUNDED, |p| p.spare(now, cost.min(p.capacity()), 0, at));
        counted.min(paced)
    }

    /// Spends `cost`; the pacer counts it from `stamp`.
    #[inline]
    pub fn take(&mut self, cost: u64, stamp: Nanos, now: Nanos) {
        self.advance(now);
        if let Some(pacer) = self.pacer_mut() {
            pacer.take(cost, stamp);
        }
        self.used = self.used.saturating_add(cost);
        self.current = self.current.saturating_add(cost);
    }

    /// Charges `units` up to the bound on debt. Returns how many count.
    pub fn charge(&mut self, units: u64, now: Nanos) -> u64 {
        self.advance(now);
        let counted = units.min(self.most_used().saturating_sub(self.used));
        if let Some(pacer) = self.pacer_mut() {
            // The pacer pays N in a window and forgets nothing: it has a bound of its own.
            pacer.charge(counted, now);
        }
        self.used = self.used.saturating_add(counted);
        self.current = self.current.saturating_add(counted);
        counted
    }

    /// Drops the pacer's debt above the bound. What the window counts expires by itself.
    pub fn bound_debt(&mut self, now: Nanos) {
        if let Some(pacer) = self.pacer_mut() {
            pacer.bound_debt(now);
        }
    }

    /// Forgets everything that was spent.
    pub fn reset(&mut self, now: Nanos) {
        self.advance(now);
        (self.used, self.current, self.slots) = (0, 0, Slots::new());
        if self.span >> LINGER > 0 {
            self.slots.widen(self.current_slot());
        }
        self.turn = 0;
        if let Some(pacer) = self.pacer_mut() {
            pacer.reset(now);
        }
    }

    /// Charges `units` that others took, some of them long ago: they count, but hold up no more than what may go at
    /// once. Returns how many count.
    pub fn charge_others(&mut self, units: u64, now: Nanos) -> u64 {
        self.advance(now);
        let units = units.min(self.most_used().saturating_sub(self.used));
        let behind = self.units.saturating_sub(self.used) > self.units / BEHIND;
        if let Some(pacer) = self.pacer_mut().filter(|_| !behind) {
            pacer.charge(units.min(pacer.capacity()), now);
        }
        self.used = self.used.saturating_add(units);
        self.current = self.current.saturating_add(units);
        units
    }

    /// What the pacer has saved up.
    #[must_use]
    pub fn saved(&self, now: Nanos) -> u64 {
        self.pacer().map_or(0, |pacer| pacer.room(0, now))
    }

    /// Whether the pacer has `cost` again by `at`, if it is emptied now.
    #[must_use]
    pub fn may_empty(&self, now: Nanos, cost: u64, at: Nanos) -> bool {
        self.pacer().is_none_or(|p| p.spare(now, cost.min(p.capacity()), 0, at) >= p.room(0, now))
    }

    /// What was saved up while nobody went does not go at once.
    pub fn empty_pacer(&mut self, now: Nanos) {
        if let Some(pacer) = self.pacer_mut() {
            let saved = pacer.room(0, now);
            pacer.take(saved, now);
        }
    }

    /// Gives back what was taken at `taken`, if its slot still counts. The pacer gets back what it can hold.
    pub fn refund(&mut self, units: u64, taken: Nanos, now: Nanos) {
        self.advance(now);
        let returned = if taken.0 >= self.current_slot() * self.grain() {
            let back = units.min(self.current);
            self.current -= back;
            back
        } else {
            self.slots.refund(self.current_slot(), taken.0 / self.grain(), units)
        };
        self.uncount(returned);
        if let Some(pacer) = self.pacer_mut() {
            pacer.refund(returned, now);
        }
    }

    /// Moves what was taken at `taken` to the current slot, or counts it again if its slot has expired. Returns whether
    /// that changed anything.
    pub fn count_from(&mut self, units: u64, taken: Nanos, now: Nanos) -> bool {
        self.advance(now);
        if taken.0 >= self.current_slot() * self.grain() {
            return false;
        }
        if expiry(taken.0 / self.grain(), self.grain(), self.counts_for()) <= now {
            self.used = self.used.saturating_add(units);
            self.current = self.current.saturating_add(units);
            return units > 0;
        }
        let moved = self.slots.refund(self.current_slot(), taken.0 / self.grain(), units);
        self.current = self.current.saturating_add(moved);
        moved > 0
    }

    /// Units that still count.
    pub fn used(&mut self, now: Nanos) -> u64 {
        self.advance(now);
        self.used
    }

    /// When all is available again.
    #[must_use]
    pub fn full_at(&self) -> Nanos {
        let paced = self.pacer().map_or(Nanos::ZERO, |pacer| pacer.full_at());
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
                let period = (self.counts_for() / self.grain() + 1) * self.grain();
                let span = u64::try_from((windows - 1).saturating_mul(period.into())).unwrap_or(u64::MAX);
                Nanos(self.end_of(counted).saturating_add(self.counts_for()).saturating_add(span))
            }
        };
        let paced = self.pacer().map_or(now, |pacer| pacer.flows_by(units, 0, now));
        counted.max(paced)
    }

    /// Changes N, the pace and the burst, keeping W and what is spent.
    pub fn change(&mut self, rate: Rate, paced: Option<(Rate, u64)>, now: Nanos) {
        self.units = rate.units();
        match (&mut self.pacer, paced) {
            (Some(pacer), Some((pace, burst))) => pacer.change(pace, burst, now),
            (pacer, paced) => {
                *pacer = paced.map(|(pace, burst)| Box::new(Bucket::full(pace, burst, now)));
            }
        }
    }

    /// What counts, by slot, oldest first.
    pub(crate) fn spent(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.entries()
    }

    /// Counts `units` in a slot, as [`SlidingWindow::spent`] has them, one after the other. Says whether the slot is
    /// none before that of the last.
    pub(crate) fn restore(&mut self, slot: u64, units: u64) -> bool {
        let begins = slot.saturating_mul(self.grain());
        if slot > u64::MAX / self.grain() || self.slot_end > 0 && slot < self.current_slot() {
            return false;
        }
        self.advance(Nanos(begins));
        let units = units.min(self.most_used().saturating_sub(self.used));
        self.used = self.used.saturating_add(units);
        self.current = self.current.saturating_add(units);
        true
    }

    /// When the slot began that something was last taken in; zero if nothing was.
    pub(crate) fn last_slot_began(&self) -> Nanos {
        Nanos(self.slot_end.saturating_sub(self.grain()))
    }

    #[inline]
    pub(crate) fn pacer(&self) -> Option<&Bucket> {
        self.pacer.as_deref()
    }

    #[inline]
    pub(crate) fn pacer_mut(&mut self) -> Option<&mut Bucket> {
        self.pacer.as_deref_mut()
    }

    /// Units that may count at most: N, and the bound on debt.
    fn most_used(&self) -> u64 {
        self.units.saturating_mul(1 + MOST_DEBT)
    }

    fn window(&self) -> u64 {
        self.span & ((1 << LINGER) - 1)
    }

    fn grain(&self) -> u64 {
        self.window().div_ceil(PARTS)
    }

    /// How long after its end a slot counts.
    fn counts_for(&self) -> u64 {
        self.window() + (self.span >> LINGER) * self.grain()
    }

    /// The end of the slot that `t` lies in.
    fn end_of(&self, t: Nanos) -> u64 {
        (t.0 / self.grain() + 1).saturating_mul(self.grain())
    }

    fn current_slot(&self) -> u64 {
        self.slot_end.saturating_sub(1) / self.grain()
    }

    fn expiry(&self, slot: u64) -> Nanos {
        expiry(slot, self.grain(), self.counts_for())
    }

    /// The first time at which at most `allowed` units count: when the newest goes that is too much with all
    /// after it.
    fn drops_to(&self, allowed: u64) -> Nanos {
        if self.used <= allowed {
            return Nanos::ZERO;
        }
        if self.used < u64::MAX {
            // Few have to go as a rule: from the oldest.
            let mut left = self.used;
            for (slot, units) in self.entries() {
                left = left.saturating_sub(units);
                if left <= allowed {
                    return self.expiry(slot);
                }
            }
        }
        // A debt beyond 64 bits: sums from the newest may saturate without harm.
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
    fn uncount(&mut self, units: u64) {
        self.used = match self.used {
            // More than 64 bits hold: how much more only the entries know.
            u64::MAX => self.entries().fold(0, |sum, (_, units)| sum.saturating_add(units)),
            used => used.saturating_sub(units),
        };
    }

    /// What counts, by slot, the current one last.
    fn entries(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        let current = self.current_slot();
        self.slots.iter(current).chain((self.current > 0).then_some((current, self.current)))
    }

    /// Forgets what counts no longer, and sees to it that the current slot is that of `now`.
    #[inline]
    fn advance(&mut self, now: Nanos) {
        if now.0 >= self.turn {
            self.turn(now);
        }
    }

    #[cold]
    fn turn(&mut self, now: Nanos) {
        let (grain, counts_for, slot) = (self.grain(), self.counts_for(), self.current_slot());
        let expired = |slot| expiry(slot, grain, counts_for) <= now;
        let mut gone = 0;
        if self.slots.first(slot).is_some_and(expired) {
            gone = self.slots.forget(slot, expired);
        }
        let mut current = slot;
        // A slot that ends with the clock's range never ends.
        if now.0 >= self.slot_end && self.slot_end < u64::MAX {
            match std::mem::take(&mut self.current) {
                0 => {}
                units if expired(slot) => gone = gone.saturating_add(units),
                units => self.slots.push(slot, units),
            }
            current = now.0 / grain;
            self.slot_end = (current + 1).saturating_mul(grain);
        }
        if gone > 0 {
            self.uncount(gone);
        }
        let oldest = self.slots.first(current).map_or(u64::MAX, |slot| expiry(slot, grain, counts_for).0);
        self.turn = oldest.min(self.slot_end);
    }
}

/// When what was taken in `slot` counts no longer.
fn expiry(slot: u64, grain: u64, counts_for: u64) -> Nanos {
    Nanos((slot + 1).saturating_mul(grain).saturating_add(counts_for))
}

/// A full pacer lets any cost pass; else only what it holds.
fn paced_room(pacer: &Bucket, level: u64) -> u64 {
    if level >= pacer.capacity() { UNBOUNDED } else { level }
}
