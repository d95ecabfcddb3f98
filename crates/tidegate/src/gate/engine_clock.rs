//! The engine's time: the clock's reading plus an offset.
//!
//! # Which threads read the clock, and when
//!
//! Tasks and threads that make calls, the timer, and the thread that writes state all bring a time to the engine. Each of
//! them can be stopped between any two instructions: by the scheduler, by `SIGSTOP`, by a page that is swapped out, by a
//! hypervisor. So the clock is read **while the engine's lock is held**. Nothing else can move the engine's time between
//! the reading and its use. A reading taken before the lock can be arbitrarily old once the lock is there, and
//! an old reading looks exactly like a clock that stepped back.
//!
//! A call that is left to the lock holder (see `hand_off`) is dated by the holder, which reads the
//! clock again for every batch that it drains. The call's own reading only says since when the call waits.
//!
//! # What an older reading means
//!
//! Under the lock, a reading below the engine's time has one of three causes:
//!
//! * *Two cores or two clocks.* The counters of two cores may differ by a little. A thread outside of a runtime whose time
//!   is paused reads real time while the runtime reads virtual time; a clock of the user's own can do anything.
//!   The engine's time stays where it is until the reading has caught up. Nothing is added, so nothing is granted for it.
//! * *The processor's counter was reset*, as some machines do when they are suspended. Only the cheap clock
//!   can do this (`ClockSource::was_reset`). The counter then starts again near zero and would take as long as the machine had been up to
//!   catch up, so the offset grows by what is missing, and the engine's time goes on from where it was. The time
//!   that the machine slept is not counted: a limit refills too late, never too early.
//! * *A bug.* The monotonic clock of the operating system does not go back.
//!
//! The offset never grows for any other reason.
//!
//! # The wall clock
//!
//! Only limits that follow a calendar need it. The engine knows what the wall showed at one moment and counts from there, so
//! it must be told when that is no longer true: the clock was set, the processor's counter is a little slow, or the
//! counter stood still while the machine slept. As long as there is such a limit, the wall clock is read about once
//! a second: by the first call that comes after that time, and by the timer, which sleeps no longer while calls wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tidegate_core::{Engine, Nanos};

use crate::clock::ClockSource;

/// A counter that is behind by more than this was reset; less is what two cores may differ by.
const RESET: Duration = Duration::from_secs(1);

/// How often the wall clock is read, while there are calendar limits.
const LOOK: Duration = Duration::from_secs(1);
/// A wall clock that differs by less was not set.
const STEP: Duration = Duration::from_millis(50);

/// The engine's time, from the clock of the gate.
#[derive(Debug)]
pub(super) struct EngineClock {
    clock: ClockSource,
    /// How far the engine's time is ahead of the clock, in nanoseconds (or behind it, as two's complement): what the clock
    /// lost when it was reset, and what passed before it was made. Changed under the gate's lock only.
    ahead: AtomicU64,
}

impl EngineClock {
    /// Makes a clock whose time starts at `since`, or at the clock's own reading. Returns it with that time.
    pub fn new(clock: ClockSource, since: Option<Nanos>) -> (EngineClock, Nanos) {
        let now = clock.now();
        let since = since.unwrap_or(now);
        let ahead = AtomicU64::new(since.0.wrapping_sub(now.0));
        (EngineClock { clock, ahead }, since)
    }

    /// Returns the engine's time, and has the engine follow the wall clock. That may let calls go: the caller publishes
    /// the decisions. `wall_due` is when the wall clock is to be read next.
    #[inline]
    pub fn present(&self, engine: &mut Engine, wall_due: &mut Nanos) -> Nanos {
        let now = self.now(engine);
        if now >= *wall_due {
            self.follow_wall(engine, wall_due, now);
        }
        now
    }

    /// Tells the engine what the wall clock shows, if the engine expects something else.
    #[cold]
    fn follow_wall(&self, engine: &mut Engine, wall_due: &mut Nanos, now: Nanos) {
        if !engine.has_calendars() {
            *wall_due = Nanos::NEVER;
            return;
        }
        // Another thread's clock is behind the engine's: that is not the time at which the wall shows what it shows.
        if self.reading() < now {
            return;
        }
        *wall_due = now.after(LOOK);
        let wall = self.wall();
        let known = engine.wall_clock(now);
        if wall.abs_diff(known) > STEP {
            tracing::info!(?wall, ?known, "the wall clock was set: calendar limits follow it");
            engine.set_wall_clock(now, wall);
        }
    }

    /// Returns the engine's time. The clock is read here, under the lock: see the module.
    #[inline]
    pub fn now(&self, engine: &Engine) -> Nanos {
        let now = self.reading();
        let latest = engine.now();
        if now < latest { self.catch_up(now, latest) } else { now }
    }

    /// Returns the clock's reading in engine time. Without the lock it decides nothing: it may be old when it is used.
    #[inline]
    pub fn reading(&self) -> Nanos {
        let ahead = self.ahead.load(Ordering::Relaxed);
        Nanos(self.clock.now().0.wrapping_add(ahead))
    }

    /// Keeps the engine's time where it is. If the counter was reset, it goes on counting from there.
    #[cold]
    fn catch_up(&self, now: Nanos, latest: Nanos) -> Nanos {
        let behind = latest.since(now);
        if behind > RESET && self.clock.was_reset() {
            self.ahead.store(latest.0.wrapping_sub(self.clock.now().0), Ordering::Relaxed);
            tracing::warn!(?behind, "the processor's counter was reset: the gate goes on from where it was");
        }
        latest
    }

    /// Returns the time that the wall clock shows.
    pub fn wall_time(&self) -> SystemTime {
        self.clock.wall()
    }

    /// Returns what the wall clock shows, as Unix time.
    pub fn wall(&self) -> Duration {
        self.wall_time().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }

    /// Converts an engine time to one that tokio's timers take.
    pub fn instant(&self, at: Nanos) -> tokio::time::Instant {
        let ahead = self.ahead.load(Ordering::Relaxed);
        // A time that never comes stays one.
        let at = if at.is_never() { at } else { Nanos(at.0.wrapping_sub(ahead)) };
        self.clock.tokio_instant(at)
    }
}

/// Returns when the timer has to wake the engine: in time to read the wall clock, if calls wait that it may let go.
pub(super) fn wake_at(engine: &Engine, wall_due: Nanos) -> Option<Nanos> {
    let wake = engine.next_wake();
    if wall_due.is_never() || engine.waiting() == 0 { wake } else { wake.map(|wake| wake.min(wall_due)) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::OnceLock;
    use std::sync::Weak;
    use std::sync::atomic::AtomicUsize;

    use super::super::shared::Shared;
    use super::*;
    use crate::chance::Chance;
    use crate::clock::{Clock, ClockSource};
    use crate::{Call, Config, Gate, Outcome};

    const SECOND: u64 = 1_000_000_000;

    fn gate(clock: impl Into<ClockSource>) -> Gate {
        let config = "[services.api]\nrequests = { limit = \"5/10s\", burst = 5 }\nconcurrency = 100\n";
        let config = Config::parse(config).expect("valid");
        Gate::builder().config(config).clock(clock).build().expect("valid")
    }

    /// A clock that shows what it is set to, backwards too.
    #[derive(Clone, Default)]
    struct SetClock(Arc<AtomicU64>);

    impl Clock for SetClock {
        fn now(&self) -> Nanos {
            Nanos(self.0.load(Ordering::SeqCst))
        }

        fn wall(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH
        }
    }

    /// A clock whose wall is set apart from it.
    #[derive(Clone, Default)]
    struct TwoClocks {
        now: Arc<AtomicU64>,
        wall: Arc<AtomicU64>,
    }

    impl TwoClocks {
        /// Lets time pass on both.
        fn pass(&self, seconds: u64) {
            self.now.fetch_add(seconds * SECOND, Ordering::SeqCst);
            self.wall.fetch_add(seconds, Ordering::SeqCst);
        }
    }

    impl Clock for TwoClocks {
        fn now(&self) -> Nanos {
            Nanos(self.now.load(Ordering::SeqCst))
        }

        fn wall(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH + Duration::from_secs(self.wall.load(Ordering::SeqCst))
        }
    }

    /// Calls until the day's allowance is used up.
    fn spend(gate: &Gate) -> usize {
        (0..20).filter_map(|_| gate.try_acquire(Call::to("api")).ok()).count()
    }

    const DAY: u64 = 86_400;

    fn daily(clock: &TwoClocks) -> Gate {
        let config = Config::parse("[services.api]\nrequests = \"10/day@UTC\"\n").expect("valid");
        Gate::builder().config(config).clock(clock.clone()).build().expect("valid")
    }

    #[test]
    fn a_calendar_limit_follows_a_wall_clock_that_is_set() {
        let clock = TwoClocks::default();
        clock.wall.store(20_000 * DAY + 12 * 3600, Ordering::SeqCst);
        let gate = daily(&clock);
        assert_eq!(spend(&gate), 10);
        // The clock was six hours slow: midnight comes six hours sooner.
        clock.wall.fetch_add(6 * 3600, Ordering::SeqCst);
        clock.pass(6 * 3600 - 2);
        assert_eq!(spend(&gate), 0, "not yet");
        clock.pass(2);
        assert_eq!(spend(&gate), 10, "the day begins when the clock says so");
        // Back to the evening before, and over midnight again: both days had their allowance.
        clock.wall.fetch_sub(3600, Ordering::SeqCst);
        clock.pass(2);
        assert_eq!(spend(&gate), 0, "the evening before was used up");
        clock.pass(3600);
        assert_eq!(spend(&gate), 0, "and so is the day that begins again");
        clock.pass(DAY);
        assert_eq!(spend(&gate), 10);
    }

    #[test]
    fn a_calendar_limit_turns_after_a_sleep_in_which_the_counter_stood_still() {
        let clock = TwoClocks::default();
        clock.wall.store(20_000 * DAY + 12 * 3600, Ordering::SeqCst);
        let gate = daily(&clock);
        assert_eq!(spend(&gate), 10);
        let mut waiting = Box::pin(gate.acquire(Call::to("api").timeout(Duration::from_secs(2 * DAY))));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        let next = gate.shared.inner.lock().armed.expect("it waits for a time");
        assert!(next <= gate.now().after(LOOK), "the timer looks at the wall");
        clock.wall.fetch_add(13 * 3600, Ordering::SeqCst);
        clock.pass(1);
        gate.shared.advance();
        assert!(waiting.as_mut().poll(&mut context).is_ready(), "it is the next day");
    }

    #[test]
    fn an_old_reading_does_not_move_the_engine_ahead() {
        let clock = SetClock::default();
        let gate = gate(clock.clone());
        clock.0.store(100 * SECOND, Ordering::SeqCst);
        let spent = (0..10).filter_map(|_| gate.try_acquire(Call::to("api")).ok()).count();
        assert_eq!(spent, 5);
        // Each of these is a thread that read the clock, was stopped for more than a second, and went on.
        for old in 1..=20 {
            clock.0.store((100 - old) * SECOND, Ordering::SeqCst);
            assert_eq!(gate.now(), Nanos(100 * SECOND), "the engine's time does not go back");
            clock.0.store(100 * SECOND + old, Ordering::SeqCst);
            assert_eq!(gate.now(), Nanos(100 * SECOND + old), "and an old reading adds nothing to it");
        }
        assert!(gate.try_acquire(Call::to("api")).is_err(), "the window is still the same");
    }

    #[test]
    fn a_counter_that_was_reset_goes_on_from_where_the_engine_was() {
        let (counter, mock) = quanta::Clock::mock();
        mock.increment(1_000 * SECOND);
        let gate = gate(ClockSource::counting(counter));
        mock.increment(100 * SECOND);
        gate.shared.advance();
        assert_eq!(gate.now(), Nanos(100 * SECOND));
        // The machine slept, and the counter began anew: by its reading it is long before the gate was made.
        mock.decrement(1_099 * SECOND);
        assert_eq!(gate.now(), Nanos(100 * SECOND));
        mock.increment(3 * SECOND);
        assert_eq!(gate.now(), Nanos(103 * SECOND), "and it goes on at once");
    }

    /// A clock that notes whether the engine's lock is free while it is read.
    #[derive(Clone, Default)]
    struct Watching {
        gate: Arc<OnceLock<Weak<Shared>>>,
        unlocked: Arc<AtomicUsize>,
        read: Arc<AtomicUsize>,
    }

    impl Clock for Watching {
        fn now(&self) -> Nanos {
            let read = self.read.fetch_add(1, Ordering::SeqCst) as u64;
            if let Some(gate) = self.gate.get().and_then(Weak::upgrade)
                && gate.inner.try_lock().is_some()
            {
                self.unlocked.fetch_add(1, Ordering::SeqCst);
            }
            Nanos(read)
        }

        fn wall(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH
        }
    }

    #[test]
    fn the_clock_is_read_while_the_lock_is_held() {
        let clock = Watching::default();
        let config = "[services.api]\nrequests = \"100/h\"\nconcurrency = 1\n";
        let config = Config::parse(config).expect("valid");
        let shared = Shared::new(config, clock.clone().into(), Chance::default(), false, true, None);
        let gate = Gate { shared: Arc::new(shared.expect("valid")) };
        clock.gate.set(Arc::downgrade(&gate.shared)).expect("set once");
        clock.read.store(0, Ordering::SeqCst);
        let held = gate.try_acquire(Call::to("api")).expect("there is room");
        assert!(gate.try_acquire(Call::to("api")).is_err());
        let mut waiting = Box::pin(gate.acquire(Call::to("api")));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert!(waiting.place().is_some());
        let _ = gate.limits();
        gate.shared.advance();
        held.finish(Outcome::done());
        drop(waiting);
        let _ = gate.now();
        assert!(clock.read.load(Ordering::SeqCst) >= 7, "the clock was read");
        assert_eq!(clock.unlocked.load(Ordering::SeqCst), 0, "readings without the lock");
    }
}
