//! The fixed window: N per window, aligned to an anchor or to the calendar.
//!
//! What was spent beyond N (debt of calls that settled higher than they reserved) is carried into the next
//! window and paid first; what is beyond N only because N was lowered is not.
//!
//! # Calendar windows and the wall clock
//!
//! A calendar window is a stretch of the calendar: a day, an hour, a minute of a time zone, named by the wall time at which
//! it ends. Its end is kept as a monotonic time too, so a decision needs no wall clock. When the wall clock is found to
//! differ from what was assumed ([`FixedWindow::follow`]: it was set, or the monotonic counter stood still while the
//! machine slept), the same wall time is another monotonic time, and the end moves there. Then
//!
//! * the wall still shows the open stretch: only its end moves;
//! * it shows a later one: the window turns. Nothing tells a clock that was put right from one that was put wrong, and
//!   after a sleep over midnight it must turn;
//! * it shows an earlier one: that stretch had its allowance already. What was spent in it and everything spent since
//!   counts in it, and the stretch that was open goes on, with what was spent in it, when its turn comes again. If
//!   it is not known what was spent in it, it counts as spent.
//!
//! So of every stretch of the calendar there is one allowance, however often the clock goes over it. What was spent in
//! which (`stretches`) is part of what is kept of a limit, so a restart changes nothing.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::stretches::{Range, Stretches};
use crate::limits::meters::{MOST_DEBT, UNBOUNDED};
use crate::model::rate::Rate;
use crate::model::time::{Nanos, whole_nanos};

/// Where windows begin.
#[derive(Clone, Debug)]
pub enum Boundary {
    /// Every W from this time on.
    Anchor(Nanos),
    /// At the turns of the calendar in a time zone. `offset` is the Unix time of [`Nanos::ZERO`].
    Calendar {
        /// Whose calendar.
        zone: TimeZone,
        /// Unix nanoseconds at the driver's origin.
        offset: i128,
    },
}

/// So many turns of a calendar are looked up one by one; those after them lie a window apart, give or take
/// the hour by which clocks change. Only a debt of as many windows looks that far.
const NEAR: u64 = 100;

/// Where windows begin, and for a calendar which of them were opened.
#[derive(Clone, Debug)]
enum Turns {
    Anchor(Nanos),
    Calendar {
        zone: TimeZone,
        offset: i128,
        /// When the open stretch ends, in Unix nanoseconds.
        ends: i128,
        /// Stretches that were open before.
        before: Stretches,
    },
}

/// A fixed window.
#[derive(Clone, Debug)]
pub struct FixedWindow {
    units: u64,
    window: u64,
    used: u64,
    /// The part of `used` that was beyond N when it was spent.
    debt: u64,
    opened: Nanos,
    closes: Nanos,
    turns: Box<Turns>,
}

impl FixedWindow {
    /// An untouched window that contains `now`.
    #[must_use]
    pub fn new(rate: Rate, boundary: Boundary, now: Nanos) -> FixedWindow {
        let mut this = FixedWindow {
            units: rate.units(),
            window: whole_nanos(rate.window()),
            used: 0,
            debt: 0,
            opened: Nanos::ZERO,
            closes: Nanos::ZERO,
            turns: Box::new(match boundary {
                Boundary::Anchor(anchor) => Turns::Anchor(anchor),
                Boundary::Calendar { zone, offset } => {
                    Turns::Calendar { zone, offset, ends: 0, before: Stretches::default() }
                }
            }),
        };
        this.open(now);
        this
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
        self.fits_after(self.used, cost, withheld)
    }

    /// When `cost` could go: in this window, or after as many as debt takes to pay.
    #[must_use]
    pub fn earliest(&self, cost: u64, withheld: u64) -> Nanos {
        if cost.saturating_add(withheld) > self.units {
            return Nanos::NEVER;
        }
        if self.fits_after(self.used, cost, withheld) {
            return self.opened;
        }
        let room = self.units - cost - withheld;
        self.boundary_after(1 + self.owed().saturating_sub(room).div_ceil(self.units))
    }

    /// The largest cost that fits now.
    pub fn room(&mut self, withheld: u64, now: Nanos) -> u64 {
        self.advance(now);
        self.units.saturating_sub(withheld).saturating_sub(self.used)
    }

    /// How much may be taken now without moving a booking of `cost` at `at`.
    pub fn spare(&mut self, now: Nanos, cost: u64, withheld: u64, at: Nanos) -> u64 {
        self.advance(now);
        let room = self.units.saturating_sub(withheld).saturating_sub(cost);
        if at < self.closes {
            return room.saturating_sub(self.used);
        }
        // Nobody may take more than fits, so nothing is carried over: the rest of this window is free.
        UNBOUNDED
    }

    /// The upstream's window ends at this time or a little before: replies take their time, and say so in whole
    /// seconds. So the earliest of what they say counts, until one lies so much later that it is about another window.
    /// A calendar knows its own ends. Says whether it ends at another time now.
    pub fn ends_by(&mut self, end: Nanos, now: Nanos) -> bool {
        self.advance(now);
        let later = self.window / 16;
        let moves = end < self.closes || end.0 > self.closes.0.saturating_add(later);
        if let Turns::Anchor(anchor) = &mut *self.turns
            && moves
            && end > now
            && end.0 <= now.0.saturating_add(self.window).saturating_add(later)
        {
            *anchor = end;
            self.closes = end;
            return true;
        }
        false
    }

    /// Spends `cost`.
    #[inline]
    pub fn take(&mut self, cost: u64, now: Nanos) {
        self.advance(now);
        let spent = self.used.saturating_add(cost);
        self.debt = self.debt.saturating_add(spent.saturating_sub(self.used.max(self.units)));
        self.used = spent;
    }

    /// Charges `units` up to the bound on debt. Returns how many count.
    pub fn charge(&mut self, units: u64, now: Nanos) -> u64 {
        self.advance(now);
        let counted = units.min(self.most_used().saturating_sub(self.used));
        self.take(counted, now);
        counted
    }

    /// Drops debt above the bound.
    pub fn bound_debt(&mut self, now: Nanos) {
        self.advance(now);
        self.debt = self.owed();
        self.used = self.used.min(self.most_used());
    }

    /// Forgets everything that was spent; the window stays where it is.
    pub fn reset(&mut self, now: Nanos) {
        self.advance(now);
        (self.used, self.debt) = (0, 0);
        if let Turns::Calendar { before, .. } = &mut *self.turns {
            before.clear();
        }
    }

    /// Gives back what was taken in the window that is still open.
    pub fn refund(&mut self, units: u64, taken: Nanos, now: Nanos) {
        self.advance(now);
        if taken >= self.opened {
            self.used = self.used.saturating_sub(units);
            self.debt = self.debt.saturating_sub(units);
        }
    }

    /// Units spent in this window, carried debt included.
    pub fn used(&mut self, now: Nanos) -> u64 {
        self.advance(now);
        self.used
    }

    /// When the window that it counts in opened, and when it closes.
    #[must_use]
    pub fn bounds(&self) -> (Nanos, Nanos) {
        (self.opened, self.closes)
    }

    /// When all is available again.
    #[must_use]
    pub fn full_at(&self) -> Nanos {
        if self.used == 0 { self.opened } else { self.boundary_after(1 + self.owed().div_ceil(self.units)) }
    }

    /// When `units` in all have been let through.
    pub fn flows_by(&mut self, units: u128, withheld: u64, now: Nanos) -> Nanos {
        self.advance(now);
        let per_window = self.units.saturating_sub(withheld).max(1);
        let free = u128::from(self.units.saturating_sub(withheld).saturating_sub(self.used));
        let later = match units.saturating_sub(free) {
            0 => 0,
            rest => {
                // Debt is paid by N a window: first by windows that it leaves no room in, then in part.
                let paying = self.owed().checked_sub(per_window).map_or(0, |over| over / self.units + 1);
                let owed = self.owed().saturating_sub(paying.saturating_mul(self.units));
                let windows = rest.saturating_add(owed.into()).div_ceil(per_window.into());
                windows.saturating_add(paying.into())
            }
        };
        self.boundary_after(u64::try_from(later).unwrap_or(u64::MAX)).max(now)
    }

    /// Changes the number of units; the window and what is spent in it stay.
    pub fn change(&mut self, units: u64, now: Nanos) {
        self.advance(now);
        self.units = units;
    }

    /// Units that may be spent at most: N, and the bound on debt.
    fn most_used(&self) -> u64 {
        self.units.saturating_mul(1 + MOST_DEBT)
    }

    /// The debt that the next window begins with. Bounded here and not where N is lowered: calls in flight may still give
    /// back what they took before.
    fn owed(&self) -> u64 {
        self.debt.min(self.units.saturating_mul(MOST_DEBT))
    }

    fn fits_after(&self, used: u64, cost: u64, withheld: u64) -> bool {
        used.saturating_add(cost).saturating_add(withheld) <= self.units
    }

    /// What is spent in this window, and what of that is debt.
    pub(crate) fn spent(&self) -> (u64, u64) {
        (self.used, self.debt)
    }

    /// The window from `opened` to `closes`, in which so much was spent. Says whether there can be such a window.
    pub(crate) fn restore(&mut self, used: u64, debt: u64, opened: Nanos, closes: Nanos) -> bool {
        if debt > used || opened >= closes {
            return false;
        }
        match &mut *self.turns {
            Turns::Anchor(anchor) => *anchor = closes,
            Turns::Calendar { offset, ends, .. } => *ends = i128::from(closes.0) + *offset,
        }
        (self.used, self.debt, self.opened, self.closes) = (used, debt, opened, closes);
        true
    }

    /// Returns the Unix time at which the open stretch of a calendar ends, in whole seconds.
    pub(crate) fn ends_unix(&self) -> Option<i64> {
        match &*self.turns {
            Turns::Anchor(_) => None,
            Turns::Calendar { ends, .. } => i64::try_from(ends.div_euclid(SECOND)).ok(),
        }
    }

    /// Returns the stretches of a calendar that were open before: the Unix times, in whole seconds, at which the first and the
    /// last of a range end, and what was spent in each of them at most.
    pub(crate) fn before(&self) -> Vec<(i64, i64, u64)> {
        let Turns::Calendar { before, .. } = &*self.turns else { return Vec::new() };
        let second = |unix: i128| i64::try_from(unix.div_euclid(SECOND)).ok();
        before
            .iter()
            .filter_map(|range| Some((second(range.first)?, second(range.last)?, range.spent)))
            .collect()
    }

    /// Adds stretches of a calendar that were open before, as they were kept. Returns whether there can be such.
    pub(crate) fn restore_before(&mut self, ranges: &[(i64, i64, u64)]) -> bool {
        let Turns::Calendar { before, .. } = &mut *self.turns else { return ranges.is_empty() };
        for (first, last, spent) in ranges {
            let [first, last] = [first, last].map(|unix| i128::from(*unix) * SECOND);
            before.add(Range { first, last, spent: *spent });
        }
        ranges.iter().all(|(first, last, _)| first <= last)
    }

    /// Sets the Unix time at which the open stretch of a calendar ends, as it was kept: the clock may have been set since.
    pub(crate) fn restore_end(&mut self, unix_seconds: i64, now: Nanos) {
        if let Turns::Calendar { ends, .. } = &mut *self.turns {
            *ends = i128::from(unix_seconds) * SECOND;
            self.reckon(now);
        }
    }

    /// Follows the wall clock: `offset` is the Unix time of [`Nanos::ZERO`] from now on. Returns whether that moves the
    /// window's end. See the module for what becomes of what was spent.
    pub fn follow(&mut self, offset: i128, now: Nanos) -> bool {
        match &mut *self.turns {
            Turns::Calendar { offset: held, .. } if *held != offset => *held = offset,
            _ => return false,
        }
        self.reckon(now);
        true
    }

    /// Finds the monotonic time of the end of the stretch that the wall shows, or of the open one if that is later.
    fn reckon(&mut self, now: Nanos) {
        let Turns::Calendar { zone, offset, ends, before } = &mut *self.turns else { return };
        let shown = calendar_turn(i128::from(now.0) + *offset, zone, self.window);
        if let Some(shown) = shown.filter(|shown| *shown < *ends) {
            let spent = before.spent(shown).unwrap_or(self.units);
            before.remember(*ends, self.used);
            *ends = shown;
            self.used = self.used.saturating_add(spent);
        }
        let closes = u64::try_from(*ends - *offset).unwrap_or(0);
        self.closes = Nanos(closes.max(self.opened.0.saturating_add(1)));
    }

    #[inline]
    fn advance(&mut self, now: Nanos) {
        if now >= self.closes {
            // This window's own units are gone; each whole one in between pays N of the debt.
            let passed = match *self.turns {
                Turns::Anchor(_) => (now.0 - self.closes.0) / self.window,
                Turns::Calendar { .. } => {
                    let mut passed = 0;
                    let mut close = self.next_boundary(self.closes);
                    while passed < NEAR && self.owed() / self.units >= passed && close <= now {
                        close = self.next_boundary(close);
                        passed += 1;
                    }
                    if passed == NEAR && close <= now {
                        passed += 1 + (now.0 - close.0) / self.window;
                    }
                    passed
                }
            };
            let spent = self.used;
            self.used = self.owed().saturating_sub(self.units.saturating_mul(passed));
            self.debt = self.used.saturating_sub(self.units);
            let left = match &*self.turns {
                Turns::Anchor(_) => None,
                Turns::Calendar { ends, .. } => Some(*ends),
            };
            self.open(now);
            // At the end of time a window closes when it opens: it must not hold a call that may go at once.
            if let (Turns::Calendar { ends, before, .. }, Some(left)) = (&mut *self.turns, left)
                && self.closes > now
            {
                // The clock goes over it again: what was spent in it is spent.
                if let Some(known) = before.spent(*ends) {
                    self.used = self.used.max(known);
                }
                before.remember(left, spent);
            }
        }
    }

    fn open(&mut self, now: Nanos) {
        match &*self.turns {
            Turns::Anchor(anchor) => {
                let into = if now >= *anchor {
                    (now.0 - anchor.0) % self.window
                } else {
                    (self.window - (anchor.0 - now.0) % self.window) % self.window
                };
                self.opened = Nanos(now.0.saturating_sub(into));
                self.closes = Nanos(now.0.saturating_add(self.window - into));
            }
            Turns::Calendar { .. } => {
                self.opened = now;
                self.closes = self.next_boundary(now);
                if let Turns::Calendar { offset, ends, .. } = &mut *self.turns {
                    *ends = i128::from(self.closes.0) + *offset;
                }
            }
        }
    }

    fn boundary_after(&self, windows: u64) -> Nanos {
        if windows == 0 {
            return self.opened;
        }
        match *self.turns {
            Turns::Anchor(_) => Nanos(self.closes.0.saturating_add(self.window.saturating_mul(windows - 1))),
            Turns::Calendar { .. } => {
                let mut close = self.closes;
                for _ in 1..windows.min(NEAR) {
                    close = self.next_boundary(close);
                }
                match self.window.saturating_mul(windows.saturating_sub(NEAR)) {
                    0 => close,
                    // The turn nearest to so many windows of the usual length.
                    span => self.next_boundary(Nanos(close.0.saturating_add(span - self.window / 2))),
                }
            }
        }
    }

    /// The first turn of the calendar after `t`, or a window on where the calendar ends.
    fn next_boundary(&self, t: Nanos) -> Nanos {
        let Turns::Calendar { zone, offset, .. } = &*self.turns else {
            return Nanos(t.0.saturating_add(self.window));
        };
        let wall = i128::from(t.0) + offset;
        calendar_turn(wall, zone, self.window)
            .and_then(|next| u64::try_from(next - offset).ok())
            .map_or(Nanos(t.0.saturating_add(self.window)), Nanos)
    }
}

const SECOND: i128 = 1_000_000_000;

/// The Unix time of the first turn after `wall`: of the day, the hour or the minute, by the window's length.
///
/// Local time is cut into stretches of that length. One begins when the clock reaches it, or when the clocks
/// are put forward into it. Clocks that are put back begin one again only if it was over: an hour that
/// comes twice is two, but a day whose midnight comes twice is one.
fn calendar_turn(wall: i128, zone: &TimeZone, window: u64) -> Option<i128> {
    let length = i128::from(window);
    let mut from = Timestamp::from_nanosecond(wall).ok()?;
    loop {
        let offset = i128::from(zone.to_offset(from).seconds()) * SECOND;
        let local = from.as_nanosecond() + offset;
        let next = from.as_nanosecond() + length - local.rem_euclid(length);
        let Some(change) = zone.following(from).next().filter(|it| it.timestamp().as_nanosecond() <= next)
        else {
            return Some(next);
        };
        let turn = change.timestamp().as_nanosecond();
        let (before, after) = (turn + offset, turn + i128::from(change.offset().seconds()) * SECOND);
        let begins = after.div_euclid(length) > (before - 1).div_euclid(length);
        let begins_again = after.rem_euclid(length) == 0 && before - after >= length;
        if begins || begins_again {
            return Some(turn);
        }
        from = change.timestamp();
    }
}
