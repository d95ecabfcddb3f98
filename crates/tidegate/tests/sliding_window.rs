//! The sliding window as its users see it.

use std::collections::VecDeque;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use tidegate::{ManualClock, RateLimitError, RateLimiter, SlidingWindow};

const SECOND: Duration = Duration::from_secs(1);

fn window(limit: u64, length: Duration) -> (SlidingWindow, ManualClock) {
    let clock = ManualClock::new();
    (SlidingWindow::new(limit, length).unwrap().with_clock(clock.clone()), clock)
}

#[test]
fn l2_five_a_second() {
    let (window, clock) = window(5, SECOND);
    assert!(window.try_take(3));
    assert_eq!(window.available(), 2);
    assert!(!window.try_take(3));
    assert_eq!(window.available(), 2);
    assert!(window.try_take(2));
    assert_eq!(window.available(), 0);
    clock.advance(SECOND + SECOND / 256);
    assert_eq!(window.available(), 5);
    assert!(window.try_take(5));
}

#[test]
fn nothing_comes_back_before_the_window_has_passed() {
    let (window, clock) = window(5, SECOND);
    clock.advance(Duration::from_nanos(123_456_789));
    assert!(window.try_take(5));
    clock.advance(SECOND - Duration::from_nanos(1));
    assert!(!window.try_take(1));
    assert!(window.try_take(0));
}

#[test]
fn the_wait_it_names_is_enough_and_not_a_nanosecond_too_long() {
    let (window, clock) = window(5, SECOND);
    assert_eq!(window.wait_for(5), Some(Duration::ZERO));
    assert_eq!(window.wait_for(6), None);
    assert!(window.try_take(2));
    clock.advance(SECOND / 2);
    assert!(window.try_take(3));
    for units in [2, 5] {
        let wait = window.wait_for(units).unwrap();
        clock.advance(wait - Duration::from_nanos(1));
        assert!(window.wait_for(units) == Some(Duration::from_nanos(1)));
        clock.advance(Duration::from_nanos(1));
        assert!(window.wait_for(units) == Some(Duration::ZERO));
    }
}

#[test]
fn many_threads_get_the_limit_and_no_more() {
    let window = SlidingWindow::new(1000, Duration::from_secs(86_400)).unwrap();
    let start = Barrier::new(10);
    let taken = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                start.wait();
                let got = (0..110).filter(|_| window.try_take(1)).count();
                taken.fetch_add(got as u64, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(taken.into_inner(), 1000);
}

#[test]
fn numbers_that_make_no_limit_are_refused_by_name() {
    let field = |limit, window| SlidingWindow::new(limit, window).unwrap_err().field;
    assert_eq!(field(0, SECOND), "limit");
    assert_eq!(field(u64::MAX, SECOND), "limit");
    assert_eq!(field(1, Duration::ZERO), "window");
    assert_eq!(field(1, Duration::from_micros(999)), "window");
    assert_eq!(field(1, Duration::MAX), "window");
}

#[tokio::test]
async fn a_refusal_names_the_limit_the_wait_and_the_reset() {
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let clock = ManualClock::starting_at(start);
    let window = SlidingWindow::new(5, SECOND).unwrap().named("search").with_clock(clock);
    assert_eq!(window.reset_time(), None);
    window.check_and_consume(4).await.unwrap();
    let error = window.check_and_consume(2).await.unwrap_err();
    let back = SECOND + SECOND / 256;
    assert_eq!((error.limit(), error.wait(), error.reset()), ("search", Some(back), Some(start + back)));
    assert_eq!(window.reset_time(), error.reset());
    let never = window.check_and_consume(6).await.unwrap_err();
    assert!(matches!(never, RateLimitError::TooLarge { cost: 6, capacity: 5, .. }));
}

#[tokio::test(start_paused = true)]
async fn a_window_made_on_paused_time_follows_it() {
    let window = SlidingWindow::new(5, SECOND).unwrap();
    assert!(window.try_take(5));
    tokio::time::advance(SECOND / 2).await;
    let error = window.check_and_consume(1).await.unwrap_err();
    tokio::time::sleep(error.wait().unwrap()).await;
    assert!(window.try_take(5));
}

proptest! {
    /// Against a log of every take: never more than N in a stretch of W, and never withheld for longer than
    /// W and one slot.
    #[test]
    fn never_more_than_the_limit_in_any_stretch_and_late_by_a_256th_at_most(
        limit in prop_oneof![1u64..20, 1u64..200_000, (1u64 << 40)..=(1 << 63)],
        length in 1_000_000u64..100_000_000_000,
        steps in prop::collection::vec((0u64..=300, 1u64..=64), 1..200),
    ) {
        let clock = ManualClock::new();
        let window = SlidingWindow::new(limit, Duration::from_nanos(length)).unwrap();
        let window = window.with_clock(clock.clone());
        let slot = length.div_ceil(256);
        let mut log: VecDeque<(u64, u64)> = VecDeque::new();
        let mut now = 0;
        for (pause, part) in steps {
            let pause = (u128::from(length) * u128::from(pause) * u128::from(part) / (256 * 64)) as u64;
            now += pause;
            clock.advance(Duration::from_nanos(pause));
            let units = (u128::from(limit) * u128::from(part)).div_ceil(128) as u64;
            let counted_since = |age: u64| -> u128 {
                log.iter().filter(|(at, _)| now - at < age).map(|(_, units)| u128::from(*units)).sum()
            };
            let (surely, perhaps) = (counted_since(length), counted_since(length + slot));
            let (units_wide, limit_wide) = (u128::from(units), u128::from(limit));
            let took = window.try_take(units);
            if took {
                prop_assert!(surely + units_wide <= limit_wide, "too many at {now}");
                log.push_back((now, units));
            } else {
                prop_assert!(perhaps + units_wide > limit_wide, "withheld at {now}");
            }
        }
    }
}
