//! The token bucket, without a lock and without rounding.
//!
//! # One number
//!
//! A bucket of capacity C, refilled continuously at N units per W, is described by a single moment: the time
//! **T** at which it is full again. If T has passed, the bucket is full. If T lies ahead, the units that will
//! flow until then are the ones that are missing now. Taking `k` units moves T later by the time in which `k`
//! units flow; it is allowed if T is then not further ahead than the time in which C units flow. Nothing ever
//! has to be *refilled*: time passes, and T comes nearer by itself. So there is no refill to lose, to repeat
//! or to do twice in a race, and a decision is one compare-and-swap of one number.
//!
//! # Without rounding
//!
//! The time in which one unit flows is W/N, seldom a whole number of nanoseconds: for 7 per second it is
//! 142,857,142.857… Whoever rounds that is wrong by a little with every unit, and after 10⁹ units by a lot. So
//! T is counted in **ticks** that divide both. With g the greatest common divisor of N and W in nanoseconds,
//! a nanosecond is N/g ticks and a unit is W/g ticks, both whole. All arithmetic is on whole ticks, and there
//! is nothing to round until someone asks for a number of units (rounded down) or a wait (rounded up to the
//! nanosecond, so that whoever sleeps for it finds the units there).
//!
//! # In 64 bits, or in 128
//!
//! T reaches (the clock's reading × N/g) + (C × W/g). Where 18 years of that fit, the number is a `u64`. They
//! do for every rate whose N divides W, up to a bucket that takes 292 years to fill, and for N/g up to 16 at
//! least: 1/day, 60/min, 500/min, 450/min (N/g = 3), 7/s, 10⁹/s. After those 18 years (more for the smaller N/g)
//! the clock of such a bucket stands still and nothing refills any more.
//!
//! Anything else (997/s, a capacity of 2⁶³ at 1/day) takes a `u128`, which holds every bucket that can be
//! made: N, C and W in nanoseconds are at most 2⁶³, and the clock's reading below 2⁶⁴, so T stays below
//! 2¹²⁷ + 2¹²⁶. It is the same code over a wider word; processors with a double-word compare-and-swap (x86-64,
//! AArch64) do it without a lock as well, at half as much again.
//!
//! # Races and clocks
//!
//! The clock is read first, then T, and the swap fails if T has changed meanwhile; both are then read again.
//! So a take is judged by a time that is not later than itself: a thread that is put aside at the worst moment
//! gets too little by that much, never too much. A clock that steps back makes T seem further ahead; that too
//! can only take away, and what it took away is back when the clock has caught up.

mod ticks;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use portable_atomic::AtomicU128;
use tidegate_core::{MAX_UNITS, Nanos};

use crate::clock::ClockSource;
use crate::limiter::{InvalidLimit, RateLimitError, RateLimiter};
use ticks::{Flow, Level};

/// Up to `capacity` units at once, refilled continuously; starts full. Lock-free, and exact.
///
/// ```
/// use std::time::Duration;
/// use tidegate::TokenBucket;
///
/// // 500 a minute, up to 20 of them at once.
/// let bucket = TokenBucket::new(20, 500, Duration::from_secs(60))?;
/// assert!(bucket.try_take(20));
/// assert!(!bucket.try_take(20));
/// println!("come back in {:?}", bucket.wait_for(20));
/// # Ok::<(), tidegate::InvalidLimit>(())
/// ```
///
/// Made inside a tokio runtime whose time is paused, it follows that time:
///
/// ```
/// # use std::time::Duration;
/// # use tidegate::TokenBucket;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
/// let bucket = TokenBucket::new(1, 1, Duration::from_secs(3600)).unwrap();
/// assert!(bucket.try_take(1));
/// tokio::time::advance(Duration::from_secs(3600)).await;
/// assert!(bucket.try_take(1));
/// # }
/// ```
pub struct TokenBucket {
    level: Width,
    clock: ClockSource,
    capacity: u64,
    refill_rate: u64,
    refill_interval: Duration,
    flow: Flow,
    name: Arc<str>,
}

/// The narrowest word that holds the bucket's times; see the module.
enum Width {
    Narrow(Level<AtomicU64>),
    Wide(Level<AtomicU128>),
}

impl Width {
    fn full(flow: &Flow, now: Nanos) -> Width {
        match Level::narrow(flow, now.0) {
            Some(level) => Width::Narrow(level),
            None => Width::Wide(Level::wide(flow)),
        }
    }
}

/// Calls the same function whatever the word is.
macro_rules! either {
    ($width:expr, $level:ident => $body:expr) => {
        match $width {
            Width::Narrow($level) => $body,
            Width::Wide($level) => $body,
        }
    };
}

impl TokenBucket {
    /// A full bucket of `capacity` units into which `refill_rate` units flow per `refill_interval`.
    ///
    /// # Errors
    /// If one of them is zero or beyond 2⁶³ (units, or nanoseconds: 292 years). The error names it.
    pub fn new(
        capacity: u64,
        refill_rate: u64,
        refill_interval: Duration,
    ) -> Result<TokenBucket, InvalidLimit> {
        let nanos = refill_interval.as_nanos();
        let units = [
            ("capacity", capacity, "nothing could ever pass: use at least 1"),
            ("refill_rate", refill_rate, "nothing would ever flow back: use at least 1"),
        ];
        for (field, value, why) in units {
            if value == 0 {
                return Err(InvalidLimit::new(field, value, why));
            }
            if value > MAX_UNITS {
                return Err(InvalidLimit::new(field, value, "use at most 2^63 units"));
            }
        }
        if nanos == 0 {
            let why = "a rate needs some time to flow in: use at least 1ns";
            return Err(InvalidLimit::new("refill_interval", "0s", why));
        }
        let interval = u64::try_from(nanos).ok().filter(|nanos| *nanos <= MAX_UNITS).ok_or_else(|| {
            let value = format!("{refill_interval:?}");
            InvalidLimit::new("refill_interval", value, "use at most 2^63 ns, about 292 years")
        })?;
        let flow = Flow::new(capacity, refill_rate, interval);
        let clock = ClockSource::cheap();
        let level = Width::full(&flow, clock.now());
        Ok(TokenBucket {
            level,
            clock,
            flow,
            capacity,
            refill_rate,
            refill_interval,
            name: "token bucket".into(),
        })
    }

    /// The same bucket, full, on another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Into<ClockSource>) -> TokenBucket {
        self.clock = clock.into();
        self.level = Width::full(&self.flow, self.clock.now());
        self
    }

    /// The same bucket under a name of your own, which refusals then give.
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> TokenBucket {
        self.name = name.into();
        self
    }

    /// The name that refusals give.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The most that one take can ever get.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Takes `units` if all of them are there, and says whether it did. Nothing is always there.
    #[inline]
    #[must_use = "`false` means that nothing was taken"]
    pub fn try_take(&self, units: u64) -> bool {
        // Above capacity the product in ticks could overflow, and the answer is known.
        units <= self.capacity && either!(&self.level, level => level.take(units, || self.clock.now().0))
    }

    /// Gives `units` back that were taken and not used. The bucket never holds more than its capacity.
    pub fn put_back(&self, units: u64) {
        either!(&self.level, level => level.put_back(units.min(self.capacity), || self.clock.now().0));
    }

    /// How many whole units are there now.
    #[must_use]
    pub fn available(&self) -> u64 {
        either!(&self.level, level => level.available(|| self.clock.now().0))
    }

    /// How long until `units` are there, if nobody else takes any: zero if they are, `None` if they never will be.
    ///
    /// After this time, and not a nanosecond before, [`TokenBucket::try_take`] gets them.
    #[must_use]
    pub fn wait_for(&self, units: u64) -> Option<Duration> {
        if units > self.capacity {
            return None;
        }
        Some(either!(&self.level, level => level.wait_for(units, || self.clock.now().0)))
    }

    fn refusal(&self, units: u64) -> RateLimitError {
        match self.wait_for(units) {
            Some(wait) => RateLimitError::exhausted(self.name.clone(), units, wait, self.reset_time()),
            None => RateLimitError::too_large(self.name.clone(), units, self.capacity),
        }
    }
}

#[async_trait]
impl RateLimiter for TokenBucket {
    async fn check_and_consume(&self, tokens: u64) -> Result<(), RateLimitError> {
        if self.try_take(tokens) { Ok(()) } else { Err(self.refusal(tokens)) }
    }

    async fn try_consume(&self, tokens: u64) -> bool {
        self.try_take(tokens)
    }

    fn available_tokens(&self) -> u64 {
        self.available()
    }

    fn reset_time(&self) -> Option<SystemTime> {
        match self.wait_for(self.capacity) {
            None | Some(Duration::ZERO) => None,
            Some(wait) => self.clock.wall().checked_add(wait),
        }
    }
}

impl fmt::Debug for TokenBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenBucket")
            .field("name", &self.name)
            .field("available", &self.available())
            .field("capacity", &self.capacity)
            .field("refill_rate", &self.refill_rate)
            .field("refill_interval", &self.refill_interval)
            .finish_non_exhaustive()
    }
}
