//! The sliding window: never more than N in any stretch of W.
//!
//! The counting is the engine's own, in `tidegate_core`: what was taken is remembered by slots of W/256 and
//! counts until W after the *end* of its slot. So a unit may come back up to W/256 late, and never early. This
//! is a lock and a clock around it; the clock is read inside the lock, so that the window sees time in order.
//!
//! It is not paced: all N may go at once. In front of an upstream that counts in another way, a paced limit of
//! a gate is the better choice.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use parking_lot::Mutex;
use tidegate_core::limits::meters::SlidingWindow as Counter;
use tidegate_core::{Nanos, Rate, RateError};

use crate::clock::ClockSource;
use crate::limiter::{InvalidLimit, RateLimitError, RateLimiter};

/// At most `limit` units in any stretch of `window`, all of them at once if wanted.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{ManualClock, SlidingWindow};
///
/// let clock = ManualClock::new();
/// let window = SlidingWindow::new(5, Duration::from_secs(1))?.with_clock(clock.clone());
/// assert!(window.try_take(5));
/// assert!(!window.try_take(1));
/// clock.advance(window.wait_for(1).unwrap());
/// assert!(window.try_take(1));
/// # Ok::<(), tidegate::InvalidLimit>(())
/// ```
pub struct SlidingWindow {
    counter: Mutex<Counter>,
    clock: ClockSource,
    rate: Rate,
    name: Arc<str>,
}

impl SlidingWindow {
    /// An untouched window.
    ///
    /// # Errors
    /// If the limit is zero or above 2⁶³, or if the window is shorter than 1 ms or longer than 31 days. The
    /// error names which.
    pub fn new(limit: u64, window: Duration) -> Result<SlidingWindow, InvalidLimit> {
        let rate = Rate::new(limit, window).map_err(|error| match error {
            RateError::NoUnits => {
                InvalidLimit::new("limit", limit, "nothing could ever pass: use at least 1")
            }
            RateError::TooManyUnits(_) => InvalidLimit::new("limit", limit, "use at most 2^63 units"),
            _ => InvalidLimit::new("window", format!("{window:?}"), "use 1ms to 31 days"),
        })?;
        Ok(SlidingWindow {
            counter: Mutex::new(Counter::new(rate)),
            clock: ClockSource::cheap(),
            rate,
            name: "sliding window".into(),
        })
    }

    /// The same window, untouched, on another clock.
    #[must_use]
    pub fn with_clock(self, clock: impl Into<ClockSource>) -> SlidingWindow {
        SlidingWindow { clock: clock.into(), counter: Mutex::new(Counter::new(self.rate)), ..self }
    }

    /// The same window under a name of your own, which refusals then give.
    #[must_use]
    pub fn named(self, name: impl Into<Arc<str>>) -> SlidingWindow {
        SlidingWindow { name: name.into(), ..self }
    }

    /// The name that refusals give.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The most that one take can ever get.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.rate.units()
    }

    /// Takes `units` if all of them are there, and says whether it did. Nothing is always there.
    #[must_use = "`false` means that nothing was taken"]
    pub fn try_take(&self, units: u64) -> bool {
        self.with(|counter, now| take(counter, units, now))
    }

    /// How many units are there now.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.with(|counter, now| counter.room(0, now))
    }

    /// How long until `units` are there, if nobody else takes any: zero if they are, `None` if they never will be.
    #[must_use]
    pub fn wait_for(&self, units: u64) -> Option<Duration> {
        self.with(|counter, now| wait(counter, units, now))
    }

    /// The one place where the lock is taken; no call inside takes it again.
    fn with<T>(&self, ask: impl FnOnce(&mut Counter, Nanos) -> T) -> T {
        let mut counter = self.counter.lock();
        let now = self.clock.now();
        ask(&mut counter, now)
    }

    fn on_the_wall(&self, wait: Duration) -> Option<SystemTime> {
        (wait > Duration::ZERO).then(|| self.clock.wall().checked_add(wait)).flatten()
    }
}

fn take(counter: &mut Counter, units: u64, now: Nanos) -> bool {
    let fits = counter.fits(units, 0, now);
    if fits {
        counter.take(units, now, now);
    }
    fits
}

fn wait(counter: &mut Counter, units: u64, now: Nanos) -> Option<Duration> {
    if units > counter.capacity() {
        return None;
    }
    let fits = counter.fits(units, 0, now);
    Some(if fits { Duration::ZERO } else { counter.earliest(units, 0).since(now) })
}

#[async_trait]
impl RateLimiter for SlidingWindow {
    async fn check_and_consume(&self, tokens: u64) -> Result<(), RateLimitError> {
        // Refusal, wait and reset are of one moment: taken under one lock.
        let refused = self.with(|counter, now| {
            (!take(counter, tokens, now)).then(|| (wait(counter, tokens, now), counter.full_at().since(now)))
        });
        match refused {
            None => Ok(()),
            Some((Some(wait), reset)) => {
                let reset = self.on_the_wall(reset);
                Err(RateLimitError::exhausted(self.name.clone(), tokens, wait, reset))
            }
            Some((None, _)) => Err(RateLimitError::too_large(self.name.clone(), tokens, self.limit())),
        }
    }

    async fn try_consume(&self, tokens: u64) -> bool {
        self.try_take(tokens)
    }

    fn available_tokens(&self) -> u64 {
        self.available()
    }

    fn reset_time(&self) -> Option<SystemTime> {
        let reset = self.with(|counter, now| {
            let nothing_counts = counter.used(now) == 0;
            if nothing_counts { Duration::ZERO } else { counter.full_at().since(now) }
        });
        self.on_the_wall(reset)
    }
}

impl fmt::Debug for SlidingWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlidingWindow")
            .field("name", &self.name)
            .field("available", &self.available())
            .field("limit", &self.rate.units())
            .field("window", &self.rate.window())
            .finish_non_exhaustive()
    }
}
