//! One limit's book: every unit with its time, and the limit's definition read out over them.
//!
//! Written from what limits promise and not from how the engine counts, so that the two can disagree. It is
//! kept as events come: what left the window leaves the book, so a book is as long as its window is full.
//!
//! - A *window's* units stand in a log. A unit counts for W from its time; the engine may count it up to W/256
//!   longer. So there are two sums, the least and the most that may be said to be used. A long log is kept in coarse
//!   lines, which widens that gap by W/4096.
//! - A *bucket*, or the pacer in front of a window, is what is missing from it: it grows by what is taken and
//!   shrinks by N in every W. Counted in units × W, so that nothing is rounded.
//! - What is *in flight* is a sum.
//!
//! After a change to another kind of limit only a lower bound is known: the book is *loose*.

use std::collections::VecDeque;

use tidegate_core::engine::{Stand, Terms};
use tidegate_core::{Nanos, Rate, whole_nanos};

/// A slot of a sliding window is this part of it.
const PARTS: u64 = 256;

/// Above this many lines, those that are closer together than the window's part by this number become one.
/// It counts from its first unit on, so it leaves a little early: too little is seen, never too much.
const MANY: u64 = 4096;

/// The debt of a limit is at most this many times N.
const MOST_DEBT: u64 = 4;

/// A call whose turn was up to this long ago is paced from that time.
const LATE: i128 = 20_000_000;

/// Where a call's units stand in a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u64);

/// The book of one limit.
#[derive(Clone, Debug)]
pub(crate) struct Book {
    pub terms: Terms,
    held: u64,
    log: VecDeque<(Nanos, u64)>,
    /// The number of the log's first line.
    first: u64,
    /// Lines that are older than W, but may still count.
    fading: usize,
    /// Units in the whole log, and in the fading lines.
    logged: u64,
    faded: u64,
    log_is_long: bool,
    /// What is missing from the bucket or the pacer, in units × W.
    missing: i128,
    missing_at: Nanos,
    /// The fixed window that is open, what is spent in it, and what of that was beyond N.
    window: Option<(Nanos, Nanos)>,
    spent: u64,
    debt: u64,
    /// Only a lower bound is known.
    loose: bool,
    /// The largest cost at the present instant: one above the burst may go when the pacer is full.
    largest: (Nanos, u64),
}

impl Book {
    pub fn new(terms: Terms, now: Nanos) -> Book {
        Book {
            terms,
            held: 0,
            log: VecDeque::new(),
            first: 0,
            fading: 0,
            logged: 0,
            faded: 0,
            log_is_long: false,
            missing: 0,
            missing_at: now,
            window: None,
            spent: 0,
            debt: 0,
            loose: false,
            largest: (now, 0),
        }
    }

    /// Brings the book to `now`; `stand` is what the engine says, of which only the bounds of a fixed window
    /// are believed, and these not blindly.
    pub fn turn(&mut self, stand: Stand, now: Nanos) -> Result<(), String> {
        self.pass(now);
        match self.terms {
            Terms::FixedWindow { rate } => self.open(rate, stand.window, now),
            _ => Ok(()),
        }
    }

    /// Lets time pass, as far as that needs no word of the engine's.
    pub fn pass(&mut self, now: Nanos) {
        match self.terms {
            Terms::SlidingWindow { rate, .. } => {
                self.age(rate, now);
                self.flow(rate, now);
            }
            Terms::TokenBucket { rate, .. } => self.flow(rate, now),
            _ => {}
        }
    }

    /// A call takes its units.
    pub fn take(&mut self, units: u64, now: Nanos) -> Mark {
        self.held += units;
        if self.largest.0 < now {
            self.largest = (now, 0);
        }
        self.largest.1 = self.largest.1.max(units);
        self.charge(units, now)
    }

    /// Units are spent, whoever asked.
    pub fn charge(&mut self, units: u64, now: Nanos) -> Mark {
        match self.terms {
            Terms::SlidingWindow { rate, .. } => {
                self.write(rate, units, now);
                self.missing += i128::from(units) * window(rate);
            }
            Terms::TokenBucket { rate, .. } => self.missing += i128::from(units) * window(rate),
            Terms::FixedWindow { rate } => {
                let spent = self.spent + units;
                self.debt += spent.saturating_sub(self.spent.max(rate.units()));
                self.spent = spent;
            }
            _ => {}
        }
        match self.terms {
            // A window is known by when it opened.
            Terms::FixedWindow { .. } => Mark(self.window.map_or(0, |(opened, _)| opened.0)),
            _ => Mark((self.first + self.log.len() as u64).saturating_sub(1)),
        }
    }

    /// A call cost so many units more than it reserved. What is above the bound on debt does not count; where it is not
    /// known how much that is, only a lower bound is known from then on.
    pub fn owe(&mut self, units: u64, now: Nanos) {
        let (least, most) = self.used();
        let bound = self.most_used();
        let room = |used: u64| units.min(bound.saturating_sub(used));
        let (counted, perhaps) = if self.loose { (0, 1) } else { (room(most), room(least)) };
        self.loose |= counted != perhaps;
        self.charge(counted, now);
        self.bound_flow();
    }

    /// Units that may be used at most: all, and the bound on debt.
    fn most_used(&self) -> u64 {
        match self.terms {
            Terms::TokenBucket { rate, burst } => {
                burst.saturating_add(rate.units().saturating_mul(MOST_DEBT))
            }
            Terms::SlidingWindow { rate, .. } | Terms::FixedWindow { rate } => {
                rate.units().saturating_mul(1 + MOST_DEBT)
            }
            Terms::Concurrency(_) | Terms::ByteBudget(_) => u64::MAX,
        }
    }

    /// Bounds what is missing from a bucket or a pacer. Returns whether something was above the bound.
    fn bound_flow(&mut self) -> bool {
        let (Terms::TokenBucket { rate, burst } | Terms::SlidingWindow { rate, burst: Some(burst) }) =
            self.terms
        else {
            return false;
        };
        let most = burst.saturating_add(rate.units().saturating_mul(MOST_DEBT));
        let most = i128::from(most) * window(rate);
        let above = self.missing > most;
        self.missing = self.missing.min(most);
        above
    }

    /// Others took units, which the engine need not pace itself for.
    pub fn charge_others(&mut self, units: u64, now: Nanos) -> Mark {
        let before = self.missing;
        let mark = self.charge(units, now);
        match self.terms {
            Terms::SlidingWindow { burst: Some(_), .. } => self.missing = before,
            // It may have been charged before N was lowered, which then forgave a part of it.
            Terms::TokenBucket { .. } => self.loose |= self.bound_flow(),
            _ => {}
        }
        mark
    }

    /// A call ends: nothing of it is in flight any more, and `back` units return to where they came from.
    pub fn end(&mut self, mark: Mark, reserved: u64, back: u64) -> Result<(), String> {
        self.give_back(reserved)?;
        if back == 0 {
            return Ok(());
        }
        match self.terms {
            Terms::TokenBucket { rate, .. } => {
                self.missing = (self.missing - i128::from(back) * window(rate)).max(0);
            }
            Terms::SlidingWindow { rate, .. } => {
                let place = match mark.0.checked_sub(self.first) {
                    Some(place) => Some(place as usize),
                    // It was carried over into the first line.
                    None if self.loose => Some(0),
                    None => None,
                };
                if let Some(line) = place.and_then(|place| self.log.get_mut(place)) {
                    let back = back.min(line.1);
                    line.1 -= back;
                    self.logged -= back;
                    if place.is_some_and(|place| place < self.fading) {
                        self.faded -= back;
                    }
                    self.missing = (self.missing - i128::from(back) * window(rate)).max(0);
                }
            }
            Terms::FixedWindow { .. }
                if self.loose || self.window.is_some_and(|(opened, _)| opened.0 == mark.0) =>
            {
                self.spent = self.spent.saturating_sub(back);
                self.debt = self.debt.saturating_sub(back);
            }
            _ => {}
        }
        Ok(())
    }

    /// So much is no longer in flight.
    pub fn give_back(&mut self, units: u64) -> Result<(), String> {
        self.held = self.held.checked_sub(units).ok_or("more came back than was in flight")?;
        Ok(())
    }

    /// Whether the definition holds now that a call of `cost` has been written down, which had to leave
    /// `withheld` alone. A byte budget is judged by [`Book::check_budget`].
    pub fn check(&self, cost: u64, withheld: u64) -> Result<(), String> {
        if cost == 0 && !self.terms.is_in_flight() {
            return Ok(());
        }
        match self.terms {
            Terms::Concurrency(bound) => within(self.held, bound, withheld, "in flight"),
            Terms::ByteBudget(_) => Ok(()),
            Terms::FixedWindow { rate } => within(self.spent, rate.units(), withheld, "in this window"),
            Terms::TokenBucket { rate, burst } => {
                let most = i128::from(burst.saturating_sub(withheld)) * window(rate);
                self.within_flow(most, rate)
            }
            Terms::SlidingWindow { rate, burst } => {
                within(self.logged - self.faded, rate.units(), withheld, "in one window")?;
                let Some(burst) = burst else { return Ok(()) };
                let most = i128::from(burst.max(self.largest.1)) * window(rate);
                self.within_flow(most + i128::from(rate.units()) * LATE, rate)
            }
        }
    }

    /// Whether what is in flight leaves no room for `cost` but for what is `withheld`.
    pub fn lacks_slots(&self, cost: u64, withheld: u64) -> bool {
        match self.terms {
            Terms::Concurrency(bound) => self.held + cost + withheld > bound,
            Terms::ByteBudget(bound) => self.held + withheld > bound,
            _ => false,
        }
    }

    /// Whether a budget had room before each of several calls that went at one instant, whatever their order.
    pub fn check_budget(&self, sum: u64, largest: u64) -> Result<(), String> {
        match self.terms {
            Terms::ByteBudget(bound) if self.held + sum - largest > bound => {
                Err(format!("{} bytes in flight and {sum} more, of {bound}", self.held))
            }
            _ => Ok(()),
        }
    }

    fn within_flow(&self, most: i128, rate: Rate) -> Result<(), String> {
        if self.missing <= most {
            return Ok(());
        }
        let units = |grains: i128| grains as f64 / window(rate) as f64;
        Err(format!("{:.3} units went at once where {:.3} may", units(self.missing), units(most)))
    }

    /// The least and the most that may be said to be used.
    pub fn used(&self) -> (u64, u64) {
        let (least, most) = match self.terms {
            Terms::TokenBucket { rate, .. } => {
                let used = self.missing.unsigned_abs().div_ceil(window(rate).unsigned_abs()) as u64;
                (used, used)
            }
            Terms::SlidingWindow { .. } => (self.logged - self.faded, self.logged),
            Terms::FixedWindow { .. } => (self.spent, self.spent),
            _ => (self.held, self.held),
        };
        if self.loose { (0, u64::MAX) } else { (least, most) }
    }

    /// Another definition of the same limit comes into force.
    pub fn redefine(&mut self, terms: Terms, now: Nanos) {
        let old = std::mem::replace(&mut self.terms, terms);
        match (old, terms) {
            (Terms::Concurrency(_), Terms::Concurrency(_)) => {}
            (Terms::ByteBudget(_), Terms::ByteBudget(_)) => {}
            (
                Terms::SlidingWindow { rate: before, burst: paced },
                Terms::SlidingWindow { rate: after, burst },
            ) if before.window() == after.window() => {
                // A pacer that was not there before is full. What a late timer made good is not owed.
                let made_good = i128::from(before.units()) * LATE;
                self.missing =
                    if paced.is_some() && burst.is_some() { (self.missing - made_good).max(0) } else { 0 };
            }
            (Terms::TokenBucket { rate: before, .. }, Terms::TokenBucket { rate: after, .. })
                if before.window() == after.window() => {}
            (Terms::FixedWindow { rate: before }, Terms::FixedWindow { rate: after })
                if before.window() == after.window() => {}
            _ => {
                let held = self.held;
                let first = self.first + self.log.len() as u64;
                *self = Book { held, first, loose: true, ..Book::new(terms, now) };
            }
        }
        // What is above the bound is forgiven, and what calls in flight give back counts against that first.
        let forgiven = matches!(terms, Terms::FixedWindow { .. }) && self.spent > self.most_used();
        self.loose |= self.bound_flow() && matches!(terms, Terms::TokenBucket { .. }) || forgiven;
    }

    /// Adds a line, or to the last line where there are very many.
    fn write(&mut self, rate: Rate, units: u64, now: Nanos) {
        self.logged += units;
        match self.log.back_mut() {
            Some((at, sum)) if *at == now => *sum += units,
            Some((at, sum)) if self.log_is_long && now.0 - at.0 < whole_nanos(rate.window()) / MANY => {
                *sum += units;
            }
            _ => self.log.push_back((now, units)),
        }
        self.log_is_long = self.log.len() as u64 >= MANY;
    }

    /// Lines leave the log, by way of those that may still count.
    fn age(&mut self, rate: Rate, now: Nanos) {
        let span = whole_nanos(rate.window());
        while let Some((at, units)) = self.log.get(self.fading)
            && now.0 >= at.0.saturating_add(span)
        {
            self.faded += units;
            self.fading += 1;
        }
        let grain = span.div_ceil(PARTS) + span / MANY;
        while let Some((at, units)) = self.log.front()
            && self.fading > 0
            && now.0 >= at.0.saturating_add(span).saturating_add(grain)
        {
            self.faded -= units;
            self.logged -= units;
            self.fading -= 1;
            self.first += 1;
            self.log.pop_front();
        }
    }

    /// What flowed since is no longer missing.
    fn flow(&mut self, rate: Rate, now: Nanos) {
        let passed = now.0.saturating_sub(self.missing_at.0);
        self.missing = (self.missing - i128::from(rate.units()) * i128::from(passed)).max(0);
        self.missing_at = now;
        if self.missing == 0 {
            self.largest = (now, 0);
        }
    }

    /// A fixed window closes and the next one opens; what was beyond N is owed there.
    fn open(&mut self, rate: Rate, window: Option<(Nanos, Nanos)>, now: Nanos) -> Result<(), String> {
        let Some((opened, closes)) = window else { return Ok(()) };
        if !(opened <= now && now < closes) {
            return Err(format!("its window from {opened:?} to {closes:?} is not open at {now:?}"));
        }
        // The same window may close at another time: the upstream said when its own does.
        let Some((_, before)) = self.window.filter(|known| known.0 != opened) else {
            self.window = window;
            return Ok(());
        };
        if opened < before && !self.loose && !self.was_blank() {
            return Err(format!("a window opens at {opened:?}, before the last one closed at {before:?}"));
        }
        let span = whole_nanos(rate.window());
        let passed = opened.0.saturating_sub(before.0) / span.max(1);
        let owed = self.debt.min(rate.units().saturating_mul(MOST_DEBT));
        self.spent = owed.saturating_sub(rate.units().saturating_mul(passed));
        // Only the calendar knows how many windows passed; near enough where nothing is owed.
        self.loose |= self.debt > 0 && (opened.0.saturating_sub(before.0)) % span.max(1) != 0;
        self.debt = self.spent.saturating_sub(rate.units());
        self.window = window;
        Ok(())
    }

    /// Whether the limit may have been forgotten and made anew.
    fn was_blank(&self) -> bool {
        self.spent == 0 && self.held == 0
    }
}

fn within(used: u64, bound: u64, withheld: u64, what: &str) -> Result<(), String> {
    if used.saturating_add(withheld) <= bound {
        return Ok(());
    }
    Err(format!("{used} {what} of {bound}, {withheld} of them reserved for others"))
}

fn window(rate: Rate) -> i128 {
    i128::from(whole_nanos(rate.window()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn per_second(units: u64) -> Rate {
        Rate::new(units, Duration::from_secs(1)).expect("in range")
    }

    fn at(book: &mut Book, now: u64) {
        book.turn(Stand::default(), Nanos(now)).expect("no fixed window");
    }

    #[test]
    fn a_window_counts_for_w_and_may_be_said_to_for_a_little_longer() {
        let mut book = Book::new(Terms::SlidingWindow { rate: per_second(5), burst: None }, Nanos::ZERO);
        book.take(3, Nanos(10));
        assert_eq!(book.used(), (3, 3));
        at(&mut book, SECOND + 9);
        assert_eq!(book.used(), (3, 3));
        at(&mut book, SECOND + 10);
        assert_eq!(book.used(), (0, 3));
        at(&mut book, SECOND + 10 + SECOND.div_ceil(PARTS) + SECOND / MANY);
        assert_eq!(book.used(), (0, 0));
    }

    #[test]
    fn one_more_than_a_window_holds_is_seen() {
        let mut book = Book::new(Terms::SlidingWindow { rate: per_second(2), burst: None }, Nanos::ZERO);
        for _ in 0..2 {
            book.take(1, Nanos(10));
            assert_eq!(book.check(1, 0), Ok(()));
        }
        assert!(book.check(1, 1).is_err(), "what is reserved was taken");
        book.take(1, Nanos(20));
        assert!(book.check(1, 0).is_err());
    }

    #[test]
    fn a_refund_returns_to_the_line_it_came_from() {
        let mut book = Book::new(Terms::SlidingWindow { rate: per_second(5), burst: None }, Nanos::ZERO);
        let early = book.take(3, Nanos(0));
        at(&mut book, SECOND / 2);
        let late = book.take(2, Nanos(SECOND / 2));
        book.end(late, 2, 1).expect("in flight");
        at(&mut book, SECOND);
        assert_eq!(book.used(), (1, 4));
        book.end(early, 3, 3).expect("in flight");
        assert_eq!(book.used(), (1, 1));
        assert!(book.end(early, 3, 0).is_err(), "released twice");
    }

    #[test]
    fn a_bucket_misses_what_went_and_did_not_flow_back() {
        let mut book = Book::new(Terms::TokenBucket { rate: per_second(10), burst: 4 }, Nanos::ZERO);
        book.take(4, Nanos(0));
        assert_eq!(book.check(4, 0), Ok(()));
        at(&mut book, SECOND / 10 - 1);
        assert_eq!(book.used(), (4, 4));
        at(&mut book, SECOND / 10);
        assert_eq!(book.used(), (3, 3));
        book.take(1, Nanos(SECOND / 10));
        assert_eq!(book.check(1, 0), Ok(()));
        book.take(1, Nanos(SECOND / 10));
        assert!(book.check(1, 0).is_err());
    }

    #[test]
    fn what_is_beyond_a_fixed_window_is_owed_in_the_next() {
        let mut book = Book::new(Terms::FixedWindow { rate: per_second(5) }, Nanos::ZERO);
        let stand = |number: u64| {
            let mut stand = Stand::default();
            stand.window = Some((Nanos(number * SECOND), Nanos((number + 1) * SECOND)));
            stand
        };
        book.turn(stand(0), Nanos(1)).expect("open");
        book.take(4, Nanos(1));
        book.charge(4, Nanos(2));
        assert_eq!(book.used(), (8, 8));
        book.turn(stand(1), Nanos(SECOND)).expect("open");
        assert_eq!(book.used(), (3, 3));
        assert!(book.turn(stand(1), Nanos(2 * SECOND)).is_err(), "a window that should be closed");
    }
}
