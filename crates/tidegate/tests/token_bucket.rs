//! The token bucket as its users see it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, SystemTime};

use tidegate::{Clock, ClockSource, ManualClock, Nanos, RateLimitError, RateLimiter, TokenBucket};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);
const NANO: Duration = Duration::from_nanos(1);

fn bucket(capacity: u64, rate: u64, interval: Duration) -> (TokenBucket, ManualClock) {
    let clock = ManualClock::new();
    (TokenBucket::new(capacity, rate, interval).unwrap().with_clock(clock.clone()), clock)
}

/// A clock that goes wherever it is sent.
#[derive(Clone, Default)]
struct Wild(Arc<AtomicU64>);

impl Clock for Wild {
    fn now(&self) -> Nanos {
        Nanos(self.0.load(Ordering::SeqCst))
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}

#[test]
fn l1_a_bucket_starts_full_and_never_exceeds_its_capacity() {
    let (bucket, clock) = bucket(10, 60, MINUTE);
    assert_eq!(bucket.available(), 10);
    clock.advance(DAY);
    assert_eq!(bucket.available(), 10);
    assert!(bucket.try_take(10));
    clock.advance(DAY);
    assert_eq!(bucket.available(), 10);
    assert!(!bucket.try_take(11));
}

#[test]
fn l1_a_take_gets_all_or_nothing() {
    let (bucket, _clock) = bucket(10, 60, MINUTE);
    assert!(bucket.try_take(7));
    assert!(!bucket.try_take(4));
    assert_eq!(bucket.available(), 3);
    assert!(bucket.try_take(3));
    assert!(!bucket.try_take(1));
    assert!(bucket.try_take(0));
}

#[test]
fn l1_sixty_a_minute_gives_two_after_2100_ms_and_never_three() {
    let (bucket, clock) = bucket(60, 60, MINUTE);
    assert!(bucket.try_take(60));
    clock.advance(Duration::from_millis(2100));
    assert_eq!(bucket.available(), 2);
    assert!(!bucket.try_take(3));
    assert!(bucket.try_take(2));
    // The tenth of a second is not lost.
    clock.advance(Duration::from_millis(900));
    assert!(bucket.try_take(1));
}

#[test]
fn l1_ten_threads_of_a_hundred_takes_get_exactly_a_thousand_tokens() {
    // 997 units in 997 days fit one word of 64 bits; a nanosecond more needs 128. Neither refills meanwhile.
    for interval in [DAY * 997, DAY * 997 + NANO] {
        let bucket = TokenBucket::new(1000, 997, interval).unwrap();
        let start = Barrier::new(10);
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    start.wait();
                    // A few more than the hundred, so that some must be refused.
                    let got = (0..110).filter(|_| bucket.try_take(1)).count();
                    taken.fetch_add(got as u64, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(taken.into_inner(), 1000);
        assert_eq!(bucket.available(), 0);
    }
}

#[test]
fn takes_and_returns_of_many_threads_leave_the_bucket_whole() {
    for interval in [DAY * 997, DAY * 997 + NANO] {
        let bucket = TokenBucket::new(100, 997, interval).unwrap().with_clock(ManualClock::new());
        std::thread::scope(|scope| {
            for thread in 1..=4u64 {
                let bucket = &bucket;
                scope.spawn(move || {
                    for round in 0..5_000 {
                        let units = 1 + (round * thread) % 40;
                        if bucket.try_take(units) {
                            bucket.put_back(units);
                        }
                    }
                });
            }
        });
        assert_eq!(bucket.available(), 100);
    }
}

#[test]
fn a_slow_rate_refills_to_the_nanosecond() {
    let (bucket, clock) = bucket(3, 1, DAY);
    assert!(bucket.try_take(3));
    for day in 0..1000 {
        // In uneven steps: what falls between them must not be lost.
        let mut left = DAY - NANO;
        for step in [NANO, Duration::from_nanos(999_983), SECOND, Duration::from_secs(40_000)] {
            clock.advance(step);
            left -= step;
            assert!(!bucket.try_take(1));
        }
        clock.advance(left);
        assert!(!bucket.try_take(1), "a nanosecond early on day {day}");
        clock.advance(NANO);
        assert!(bucket.try_take(1), "late on day {day}");
    }
}

#[test]
fn a_billion_a_second_refills_one_each_nanosecond() {
    let (bucket, clock) = bucket(5, 1_000_000_000, SECOND);
    assert!(bucket.try_take(5));
    for _ in 0..1000 {
        assert!(!bucket.try_take(1));
        clock.advance(NANO);
        assert!(bucket.try_take(1));
    }
}

#[test]
fn the_billionth_unit_comes_as_exactly_as_the_first() {
    // Rates whose unit is no whole number of nanoseconds, in both widths of the word.
    for rate in [7, 9, 13, 997, 123_457, 999_999_937] {
        let total: u64 = 1_000_000_000;
        let (bucket, clock) = bucket(total, rate, SECOND);
        assert!(bucket.try_take(total));
        // Many single takes at odd times, each of which could have rounded something away; then the rest at once.
        let (mut taken, mut passed) = (0, 0u64);
        let end = (u128::from(total) * 1_000_000_000).div_ceil(u128::from(rate)) as u64;
        let step = (end / 400_000) | 1;
        while passed + step < end && taken < 200_000 {
            clock.advance(Duration::from_nanos(step));
            passed += step;
            taken += u64::from(bucket.try_take(1));
            let flowed = u128::from(passed) * u128::from(rate) / 1_000_000_000;
            assert_eq!(u128::from(bucket.available() + taken), flowed, "{rate}/s after {passed} ns");
        }
        clock.advance(Duration::from_nanos(end - 1 - passed));
        assert_eq!(bucket.available(), total - 1 - taken, "{rate}/s, a nanosecond before the end");
        clock.advance(NANO);
        assert_eq!(bucket.available(), total - taken, "{rate}/s, at the end");
    }
}

#[test]
fn a_huge_capacity_is_not_clamped() {
    for (rate, interval) in [(1, DAY), (1_000_000_000, SECOND), (997, SECOND)] {
        let (bucket, clock) = bucket(1 << 63, rate, interval);
        assert_eq!(bucket.available(), 1 << 63);
        assert!(bucket.try_take((1 << 63) - 1));
        assert!(!bucket.try_take(2));
        assert!(bucket.try_take(1));
        assert!(!bucket.try_take(1));
        clock.advance(interval);
        assert_eq!(bucket.available(), rate);
    }
}

#[test]
fn the_wait_is_right_to_the_nanosecond_and_never_zero_for_a_refusal() {
    for (rate, interval) in [(7, SECOND), (997, SECOND), (1, DAY), (1_000_000_000, SECOND), (3, NANO)] {
        let (bucket, clock) = bucket(10, rate, interval);
        assert_eq!(bucket.wait_for(10), Some(Duration::ZERO));
        assert!(bucket.try_take(10));
        for units in [1, 3, 10] {
            let wait = bucket.wait_for(units).unwrap();
            assert!(wait > Duration::ZERO);
            clock.advance(wait - NANO);
            assert!(!bucket.try_take(units), "{units} of {rate} per {interval:?}");
            clock.advance(NANO);
            assert!(bucket.try_take(units), "{units} of {rate} per {interval:?}");
            assert!(bucket.try_take(bucket.available()));
        }
        assert_eq!(bucket.wait_for(11), None);
    }
}

#[test]
fn a_clock_that_steps_back_adds_nothing() {
    let clock = Wild::default();
    let go = |nanos: u64| clock.0.store(nanos, Ordering::SeqCst);
    go(100_000_000_000);
    let bucket = TokenBucket::new(10, 1, SECOND).unwrap().with_clock(clock.clone());
    assert!(bucket.try_take(10));
    go(103_000_000_000);
    assert_eq!(bucket.available(), 3);
    for back in [102_999_999_999, 100_000_000_000, 50_000_000_000, 0] {
        go(back);
        assert!(bucket.available() < 3);
        assert!(bucket.try_take(0));
        go(103_000_000_000);
        assert_eq!(bucket.available(), 3);
    }
    assert!(bucket.try_take(3));
    assert!(!bucket.try_take(1));
}

#[test]
fn what_is_put_back_is_there_and_never_more_than_the_capacity() {
    let (bucket, clock) = bucket(10, 1, SECOND);
    assert!(bucket.try_take(8));
    bucket.put_back(3);
    assert_eq!(bucket.available(), 5);
    bucket.put_back(u64::MAX);
    assert_eq!(bucket.available(), 10);
    // Returned to a bucket that has filled up since: nothing is kept for later.
    assert!(bucket.try_take(5));
    clock.advance(MINUTE);
    bucket.put_back(5);
    assert!(bucket.try_take(10));
    assert!(!bucket.try_take(1));
}

#[test]
fn numbers_that_make_no_limit_are_refused_by_name() {
    let field = |capacity, rate, interval| TokenBucket::new(capacity, rate, interval).unwrap_err().field;
    assert_eq!(field(0, 1, SECOND), "capacity");
    assert_eq!(field(1, 0, SECOND), "refill_rate");
    assert_eq!(field(1, 1, Duration::ZERO), "refill_interval");
    assert_eq!(field((1 << 63) + 1, 1, SECOND), "capacity");
    assert_eq!(field(1, u64::MAX, SECOND), "refill_rate");
    assert_eq!(field(1, 1, Duration::MAX), "refill_interval");
    assert_eq!(
        TokenBucket::new(1, 0, SECOND).unwrap_err().to_string(),
        "`refill_rate` cannot be 0: nothing would ever flow back: use at least 1"
    );
}

#[tokio::test(start_paused = true)]
async fn a_bucket_made_on_paused_time_follows_it() {
    let bucket = TokenBucket::new(10, 1, SECOND).unwrap();
    assert!(bucket.try_take(10));
    tokio::time::advance(Duration::from_millis(2500)).await;
    assert_eq!(bucket.available(), 2);
    // Sleeping for the wait it names is enough; tokio's timers have a grain of a millisecond.
    let error = bucket.check_and_consume(4).await.unwrap_err();
    assert_eq!(error.wait(), Some(Duration::from_millis(1500)));
    tokio::time::sleep(error.wait().unwrap()).await;
    assert!(bucket.check_and_consume(4).await.is_ok());
}

#[test]
fn the_default_clock_refills_in_real_time() {
    for clock in [ClockSource::cheap(), ClockSource::precise()] {
        let bucket = TokenBucket::new(1, 1, Duration::from_millis(20)).unwrap().with_clock(clock);
        let start = std::time::Instant::now();
        assert!(bucket.try_take(1));
        while !bucket.try_take(1) {
            let wait = bucket.wait_for(1).unwrap();
            std::thread::sleep(wait.max(NANO));
        }
        // A hundredth less allows for a counter that was calibrated in a bad moment.
        assert!(start.elapsed() >= Duration::from_micros(19_800), "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_refusal_names_the_limit_the_wait_and_the_reset() {
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let clock = ManualClock::starting_at(start);
    let bucket = TokenBucket::new(10, 1, SECOND).unwrap().with_clock(clock.clone());
    assert_eq!(bucket.reset_time(), None);
    bucket.check_and_consume(8).await.unwrap();
    clock.advance(SECOND);
    let error = bucket.check_and_consume(5).await.unwrap_err();
    assert_eq!(error.limit(), "token bucket");
    assert_eq!(error.wait(), Some(Duration::from_secs(2)));
    assert_eq!(error.reset(), Some(start + Duration::from_secs(8)));
    assert_eq!(bucket.reset_time(), error.reset());
    let never = bucket.named("search").check_and_consume(11).await.unwrap_err();
    assert!(matches!(never, RateLimitError::TooLarge { cost: 11, capacity: 10, .. }));
    assert_eq!((never.limit(), never.wait()), ("search", None));
}

#[test]
fn a_wait_beyond_any_calendar_is_no_panic() {
    let (bucket, _clock) = bucket(1 << 63, 1, Duration::from_nanos(1 << 63));
    assert!(bucket.try_take(1 << 63));
    assert_eq!(bucket.wait_for(1 << 63), Some(Duration::MAX));
    assert_eq!(bucket.reset_time(), None);
    assert!(format!("{bucket:?}").contains("available: 0"));
}
