//! Where the time comes from.
//!
//! Limiters and gates read a [`ClockSource`], which is one of:
//!
//! - [`ClockSource::precise`]: tokio's clock. It is the clock that timers sleep on, so a time computed from it
//!   can be slept until without error, and it follows tokio's paused time wherever that is switched on. A gate
//!   uses this one, because it arms timers.
//! - [`ClockSource::cheap`]: the processor's own counter, read in about a third of the time. The standalone
//!   limiters use it. Inside a runtime whose time is paused it is the precise one instead, so tests need nothing more.
//! - any [`Clock`] of your own, such as a [`ManualClock`] that a test moves by hand.
//!
//! # What the cheap clock costs
//!
//! The counter ticks at a rate of its own, which is measured against the system's clock when the first limiter
//! is made (that takes two milliseconds as a rule, 20 at most) and better for every later one, over all the
//! time since. The measurement knows its own error and rounds it against us: the clock is slow by 50 millionths
//! at most, and never fast, so it grants too little and never too much. (In 240 processes it was slow by 0 to 28
//! millionths. `quanta`, which reads the counter, calibrates it too, but in 3 % of 200 processes that was off
//! by 150 to 2,400.) Where the pace cannot be told, the precise clock is used.
//!
//! A difference in pace adds up: 28 millionths are 2.4 seconds in a day. So a time of this clock is never kept
//! beside a time of the system's clock, and [`ClockSource::tokio_instant`] converts only the *span* that is
//! still to pass. Over half a minute that wakes a sleeper at most a millisecond early, which is what tokio's
//! timers round up anyway; over an hour 0.1 s early, and the sleeper is told to wait for the rest. Whatever arms
//! timers in earnest uses the precise clock, where the conversion is exact and nobody wakes early.
//!
//! A few machines reset the counter when they are suspended. A limiter on it then sees a clock that stepped
//! back, and grants less until it has caught up; on machines that sleep, give it [`ClockSource::precise`].
//!
//! Whether tokio's time is paused is judged when a source is made, not at each reading: a limiter made outside
//! of the runtime, or before `tokio::time::pause`, stays on real time if its clock is the cheap one.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant as StdInstant, SystemTime};

use tidegate_core::{Nanos, whole_nanos};
use tokio::time::Instant as TokioInstant;

/// A source of time that a limiter can be given in place of the system's.
///
/// ```
/// use std::time::SystemTime;
/// use tidegate::{Clock, Nanos, TokenBucket};
///
/// /// A clock that stands still.
/// struct Frozen;
///
/// impl Clock for Frozen {
///     fn now(&self) -> Nanos {
///         Nanos::ZERO
///     }
///     fn wall(&self) -> SystemTime {
///         SystemTime::UNIX_EPOCH
///     }
/// }
///
/// let bucket = TokenBucket::new(1, 1, std::time::Duration::from_nanos(1))?.with_clock(Frozen);
/// assert!(bucket.try_take(1));
/// assert!(!bucket.try_take(1));
/// # Ok::<(), tidegate::InvalidLimit>(())
/// ```
pub trait Clock: Send + Sync + 'static {
    /// Nanoseconds since some fixed origin. Must not go backwards; where it does, limiters grant nothing for it.
    fn now(&self) -> Nanos;

    /// The same moment on the wall, for people and for headers. Never used to decide anything.
    fn wall(&self) -> SystemTime;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Nanos {
        (**self).now()
    }

    fn wall(&self) -> SystemTime {
        (**self).wall()
    }
}

/// A clock that moves only when told to.
///
/// Clones share one time. The wall starts at the Unix epoch, unless [`ManualClock::starting_at`] says otherwise.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{ManualClock, TokenBucket};
///
/// let clock = ManualClock::new();
/// let bucket = TokenBucket::new(1, 1, Duration::from_secs(1))?.with_clock(clock.clone());
/// assert!(bucket.try_take(1));
/// assert!(!bucket.try_take(1));
/// clock.advance(Duration::from_secs(1));
/// assert!(bucket.try_take(1));
/// # Ok::<(), tidegate::InvalidLimit>(())
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    now: Arc<AtomicU64>,
    wall_origin: SystemTime,
}

impl ManualClock {
    /// A clock at its origin.
    #[must_use]
    pub fn new() -> ManualClock {
        ManualClock::starting_at(SystemTime::UNIX_EPOCH)
    }

    /// A clock at its origin, where the wall shows `wall`.
    #[must_use]
    pub fn starting_at(wall: SystemTime) -> ManualClock {
        ManualClock { now: Arc::new(AtomicU64::new(0)), wall_origin: wall }
    }

    /// Lets time pass. Past the clock's range (584 years) it stops at the end.
    pub fn advance(&self, span: Duration) {
        let nanos = whole_nanos(span);
        // The update cannot fail: its function always answers.
        let _ =
            self.now.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| Some(now.saturating_add(nanos)));
    }
}

impl Default for ManualClock {
    fn default() -> ManualClock {
        ManualClock::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Nanos {
        Nanos(self.now.load(Ordering::Acquire))
    }

    fn wall(&self) -> SystemTime {
        later_wall(self.wall_origin, self.now())
    }
}

/// The system's monotonic clock as tokio shows it: paused, advanced and resumed with tokio's time.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: TokioInstant,
    /// What the wall showed at the origin, where time is virtual; the wall then moves with that time, so that
    /// what a test sees does not depend on how long it really took.
    virtual_wall: Option<SystemTime>,
}

impl SystemClock {
    /// A clock whose origin is now.
    #[must_use]
    pub fn new() -> SystemClock {
        SystemClock {
            origin: TokioInstant::now(),
            virtual_wall: tokio_time_is_virtual().then(SystemTime::now),
        }
    }

    fn instant(&self, at: Nanos) -> TokioInstant {
        far_enough(self.origin, Duration::from_nanos(at.0))
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Nanos {
        // Saturates at zero where tokio's clock goes back, as it does for a thread outside of the paused runtime.
        Nanos(whole_nanos(TokioInstant::now().saturating_duration_since(self.origin)))
    }

    fn wall(&self) -> SystemTime {
        match self.virtual_wall {
            Some(origin) => later_wall(origin, self.now()),
            None => SystemTime::now(),
        }
    }
}

/// The processor's counter, scaled to nanoseconds since the clock was made.
#[derive(Debug)]
struct CounterClock {
    counter: quanta::Clock,
    /// What the counter showed when the clock was made, or when it was [rebased](CounterClock::rebase).
    origin: AtomicU64,
    /// Nanoseconds in 2³² ticks.
    scale: u64,
}

impl Clone for CounterClock {
    fn clone(&self) -> CounterClock {
        let origin = AtomicU64::new(self.origin.load(Ordering::Relaxed));
        CounterClock { counter: self.counter.clone(), origin, scale: self.scale }
    }
}

impl CounterClock {
    /// `None` where the counter's pace cannot be told well enough.
    fn new() -> Option<CounterClock> {
        // Made once: that looks at the processor, and calibrates what is not used here.
        static FIRST: OnceLock<(quanta::Clock, Reading)> = OnceLock::new();
        let (counter, first) = FIRST.get_or_init(|| {
            let counter = quanta::Clock::new();
            let reading = Reading::of(&counter);
            (counter, reading)
        });
        let start = StdInstant::now();
        loop {
            let latest = Reading::of(counter);
            let patient = start.elapsed() < Duration::from_millis(20);
            // Where the clocks are slow to read, as in an emulator, a coarser scale must do.
            let scale = latest.scale_since(first, if patient { 50 } else { 1000 });
            if scale.is_some() || !patient {
                let origin = AtomicU64::new(latest.counter);
                let clock = |scale| CounterClock { counter: counter.clone(), origin, scale };
                return scale.map(clock);
            }
        }
    }

    #[inline]
    fn now(&self) -> Nanos {
        // The counters of two cores may differ by a little.
        let ticks = self.counter.raw().saturating_sub(self.origin.load(Ordering::Relaxed));
        Nanos(((u128::from(ticks) * u128::from(self.scale)) >> 32) as u64)
    }

    /// Counts from where the counter is, if that is before the origin: else the clock would show zero until the counter
    /// has caught up, which takes as long as the machine had been up when the clock was made.
    fn rebase(&self) {
        let raw = self.counter.raw();
        if raw < self.origin.load(Ordering::Relaxed) {
            self.origin.store(raw, Ordering::Relaxed);
        }
    }
}

/// The counter and the system's clock at one moment, as nearly as can be told.
#[derive(Debug)]
struct Reading {
    system: StdInstant,
    /// The counter was read within this time after `system`.
    within: Duration,
    counter: u64,
}

impl Reading {
    /// Of several the one that took the shortest: most are not interrupted.
    fn of(counter: &quanta::Clock) -> Reading {
        let read = || {
            let system = StdInstant::now();
            let counter = counter.raw();
            Reading { system, within: system.elapsed(), counter }
        };
        (1..16).fold(read(), |best, _| {
            let next = read();
            if next.within < best.within { next } else { best }
        })
    }

    /// Nanoseconds in 2³² ticks, if that is certain to so many `millionths`.
    ///
    /// Of the times that may have passed between the two readings of the counter it is the shortest: a clock
    /// that is slow grants too little, one that is fast grants too much.
    fn scale_since(&self, earlier: &Reading, millionths: u32) -> Option<u64> {
        let passed = self.system.saturating_duration_since(earlier.system);
        let certain = self.within + earlier.within <= passed / 1_000_000 * millionths;
        let shortest = passed.checked_sub(earlier.within).filter(|_| certain)?;
        let ticks = self.counter.checked_sub(earlier.counter)?;
        u64::try_from((shortest.as_nanos() << 32).checked_div(ticks.into())?).ok()
    }
}

/// The clock that a limiter or a gate reads: see the [module](self) for the kinds there are.
///
/// Anything that implements [`Clock`] turns into one.
#[derive(Clone)]
pub struct ClockSource(Kind);

/// Only a clock of the user's own goes through a pointer. With a tag of its own, since one hidden in a field
/// takes four instructions more to find, in every reading.
#[derive(Clone)]
#[repr(u8)]
enum Kind {
    Counter(CounterClock),
    System(SystemClock),
    Custom(Arc<dyn Clock>),
}

impl ClockSource {
    /// Tokio's clock: what timers sleep on.
    #[must_use]
    pub fn precise() -> ClockSource {
        ClockSource(Kind::System(SystemClock::new()))
    }

    /// The cheapest clock of this machine, or tokio's where its time is paused.
    #[must_use]
    pub fn cheap() -> ClockSource {
        let counter = if tokio_time_is_virtual() { None } else { CounterClock::new() };
        counter.map_or_else(ClockSource::precise, |clock| ClockSource(Kind::Counter(clock)))
    }

    /// A source on that counter, a tick a nanosecond.
    #[cfg(test)]
    pub(crate) fn counting(counter: quanta::Clock) -> ClockSource {
        let origin = AtomicU64::new(counter.raw());
        ClockSource(Kind::Counter(CounterClock { counter, origin, scale: 1 << 32 }))
    }

    /// Has the clock go on from what it shows now, if it is one that can be reset: the processor's counter starts again
    /// from zero on some machines that were suspended. The system's monotonic clock does not go back, and a clock of the
    /// user's own must not. Returns whether it is such a clock.
    ///
    /// To be called only when a reading is older than an earlier one, and the earlier one is certain to be.
    pub(crate) fn was_reset(&self) -> bool {
        let Kind::Counter(clock) = &self.0 else { return false };
        clock.rebase();
        true
    }

    /// Nanoseconds since the clock's origin.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Nanos {
        match &self.0 {
            Kind::Counter(clock) => clock.now(),
            _ => self.now_elsewhere(),
        }
    }

    /// Not inlined: it would only be in the way of the clock that is fast.
    #[inline(never)]
    fn now_elsewhere(&self) -> Nanos {
        match &self.0 {
            Kind::Counter(clock) => clock.now(),
            Kind::System(clock) => clock.now(),
            Kind::Custom(clock) => clock.now(),
        }
    }

    /// What a clock on the wall shows now.
    #[must_use]
    pub fn wall(&self) -> SystemTime {
        match &self.0 {
            Kind::Counter(_) => SystemTime::now(),
            Kind::System(clock) => clock.wall(),
            Kind::Custom(clock) => clock.wall(),
        }
    }

    /// The moment `at` on this clock as one that [`tokio::time::sleep_until`] takes.
    ///
    /// Exact for [`ClockSource::precise`]. On other clocks it is as far from tokio's now as `at` is from this
    /// clock's, which is right as long as both go on at the same pace. A time that never comes is one in the
    /// far future.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::ClockSource;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
    /// let clock = ClockSource::precise();
    /// let deadline = clock.now().after(Duration::from_secs(3600));
    /// tokio::time::sleep_until(clock.tokio_instant(deadline)).await;
    /// assert_eq!(clock.now(), deadline);
    /// # }
    /// ```
    #[must_use]
    pub fn tokio_instant(&self, at: Nanos) -> TokioInstant {
        match &self.0 {
            Kind::System(clock) => clock.instant(at),
            _ => far_enough(TokioInstant::now(), at.since(self.now())),
        }
    }
}

impl<C: Clock> From<C> for ClockSource {
    fn from(clock: C) -> ClockSource {
        ClockSource(Kind::Custom(Arc::new(clock)))
    }
}

impl fmt::Debug for ClockSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.0 {
            Kind::Counter(_) => "cheap",
            Kind::System(_) => "precise",
            Kind::Custom(_) => "custom",
        };
        write!(f, "ClockSource({kind}, {:?})", self.now())
    }
}

/// As far as tokio's timers reach; tokio's own idea of "for ever" is the same.
const FAR_FUTURE: Duration = Duration::from_secs(30 * 365 * 86_400);

fn far_enough(from: TokioInstant, span: Duration) -> TokioInstant {
    from.checked_add(span.min(FAR_FUTURE)).unwrap_or(from)
}

fn later_wall(origin: SystemTime, elapsed: Nanos) -> SystemTime {
    origin.checked_add(Duration::from_nanos(elapsed.0)).unwrap_or(origin)
}

/// Whether tokio's clock is something else than the system's: paused, or resumed after a pause.
///
/// Tokio does not tell, but real time lies between two readings of the system's clock. The brackets of the two
/// rounds share no moment, since each begins only after the system's clock was seen to move: a clock that
/// stands still cannot be in both, whatever it shows.
fn tokio_time_is_virtual() -> bool {
    (0..2).any(|_| {
        let start = StdInstant::now();
        let before = loop {
            let now = StdInstant::now();
            if now > start {
                break now;
            }
        };
        let tokio = TokioInstant::now().into_std();
        let after = StdInstant::now();
        tokio < before || tokio > after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(source: &ClockSource) -> &'static str {
        match source.0 {
            Kind::Counter(_) => "counter",
            Kind::System(_) => "system",
            Kind::Custom(_) => "custom",
        }
    }

    /// Unless this machine's counter is not to be relied on.
    fn cheap_kind() -> &'static str {
        if CounterClock::new().is_some() { "counter" } else { "system" }
    }

    #[test]
    fn without_a_runtime_the_cheap_clock_is_the_counter() {
        assert_eq!(kind(&ClockSource::cheap()), cheap_kind());
    }

    #[tokio::test]
    async fn a_runtime_on_real_time_leaves_the_counter() {
        for _ in 0..1000 {
            assert!(!tokio_time_is_virtual());
        }
        assert_eq!(kind(&ClockSource::cheap()), cheap_kind());
    }

    #[tokio::test(start_paused = true)]
    async fn paused_time_is_seen_and_followed() {
        let clock = ClockSource::cheap();
        assert_eq!(kind(&clock), "system");
        let (start, wall) = (clock.now(), clock.wall());
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(clock.now().since(start), Duration::from_secs(7));
        assert_eq!(clock.wall().duration_since(wall).unwrap(), Duration::from_secs(7));
    }

    #[tokio::test]
    async fn time_paused_this_very_moment_is_seen() {
        for _ in 0..1000 {
            tokio::time::pause();
            assert!(tokio_time_is_virtual());
            tokio::time::resume();
        }
    }

    #[tokio::test]
    async fn the_precise_clock_follows_a_pause_that_comes_later() {
        let clock = ClockSource::precise();
        tokio::time::pause();
        let start = clock.now();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(clock.now().since(start), Duration::from_secs(60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_until_a_time_of_the_precise_clock_ends_at_that_time() {
        let clock = ClockSource::precise();
        for millis in [1, 10, 999, 60_000] {
            let deadline = clock.now().after(Duration::from_millis(millis));
            tokio::time::sleep_until(clock.tokio_instant(deadline)).await;
            assert_eq!(clock.now(), deadline);
        }
    }

    #[test]
    fn a_time_of_another_clock_is_converted_by_the_span_that_is_left() {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1000));
        let source = ClockSource::from(clock);
        let before = TokioInstant::now();
        let instant = source.tokio_instant(Nanos::ZERO.after(Duration::from_secs(1005)));
        let after = TokioInstant::now();
        assert!(instant >= before + Duration::from_secs(5) && instant <= after + Duration::from_secs(5));
    }

    #[test]
    fn a_time_that_never_comes_is_no_panic() {
        for source in [ClockSource::precise(), ClockSource::cheap(), ManualClock::new().into()] {
            assert!(source.tokio_instant(Nanos::NEVER) > TokioInstant::now() + Duration::from_secs(86_400));
        }
    }

    #[test]
    fn both_real_clocks_move_at_one_pace() {
        let (precise, cheap) = (ClockSource::precise(), ClockSource::cheap());
        let start = (precise.now(), cheap.now());
        std::thread::sleep(Duration::from_millis(50));
        let passed = (precise.now().since(start.0), cheap.now().since(start.1));
        // Generous: between the two readings the thread may be put aside.
        assert!(passed.0.abs_diff(passed.1) < Duration::from_millis(20), "{passed:?}");
    }

    #[test]
    fn the_counter_keeps_the_pace_that_was_promised() {
        let Some(clock) = CounterClock::new() else { return };
        // Measured like a scale, so that an interruption lengthens the test and does not fail it.
        let first = Reading::of(&clock.counter);
        let scale = loop {
            if let Some(scale) = Reading::of(&clock.counter).scale_since(&first, 50) {
                break scale;
            }
        };
        // Each of the two may be off by as much, in either direction.
        assert!(clock.scale.abs_diff(scale) <= scale / 10_000, "{} and {scale}", clock.scale);
    }

    #[test]
    fn the_manual_clock_stops_at_the_end_of_its_range() {
        let clock = ManualClock::starting_at(SystemTime::UNIX_EPOCH);
        clock.advance(Duration::MAX);
        clock.advance(Duration::from_secs(1));
        assert!(clock.now().is_never());
        let _ = clock.wall();
    }
}
