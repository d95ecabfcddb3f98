//! One decision of a token bucket: one unit that is there, and one that is not.
//!
//! For the first the rate is 10⁹ a second, the highest that all of them take, and more than any of them can
//! spend; for the second it is one an hour, spent. Everything is on its default clock, as users have it.

use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Result, bail};
use governor::{DefaultDirectRateLimiter, Quota};
use tidegate::{ClockSource, TokenBucket};

use crate::harness::{Contender, Effort, compare};
use crate::instructions::{self, Counter};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const PLENTY: u32 = 1_000_000_000;

/// Prints granted and refused, on one and on two threads.
pub fn table(effort: Effort) -> Result<()> {
    println!("## Token bucket: `try_take(1)` and its like\n");
    for threads in [1, 2] {
        compare("granted", &granted()?, threads, effort);
        compare("refused", &refused()?, threads, effort);
    }
    let Some(counter) = Counter::find(effort) else { return Ok(()) };
    let times = 10_000;
    let counted = |contender| -> Result<f64> {
        let totals =
            counter.count(&["bucket", "--count", contender, &times.to_string()], &["bucket::decide"])?;
        Ok(totals[0] as f64 / f64::from(times))
    };
    println!("### Instructions\n");
    println!("| | governor 0.10 `check` | **tidegate** `try_take(1)` | ratio |\n|---|--:|--:|--:|");
    for (name, peer, own) in
        [("granted", "governor", "ours"), ("refused", "governor-refused", "ours-refused")]
    {
        let (peer, own) = (counted(peer)?, counted(own)?);
        println!("| {name} | {peer:.0} | {own:.0} | {:.2} |", own / peer);
    }
    println!();
    Ok(())
}

/// Does nothing but `times` decisions of one contender, for a tool that counts instructions.
pub fn count(contender: &str, times: u64) -> Result<()> {
    let granted = match contender {
        "ours" => repeat(times, || ours_granted().map(|bucket| move || bucket.try_take(1)))?,
        "ours-refused" => repeat(times, || ours_refused().map(|bucket| move || bucket.try_take(1)))?,
        "governor" => {
            repeat(times, || Ok(governor_granted()).map(|limiter| move || limiter.check().is_ok()))?
        }
        "governor-refused" => {
            repeat(times, || governor_refused().map(|limiter| move || limiter.check().is_ok()))?
        }
        other => bail!("no contender `{other}`: use ours, ours-refused, governor or governor-refused"),
    };
    instructions::end();
    println!("{granted} of {times} granted");
    Ok(())
}

/// The first limiter of a process is thrown away: a counting tool slows the clocks down so much that a scale
/// for the processor's counter is only found after some time.
fn repeat<F: Fn() -> bool>(times: u64, make: impl Fn() -> Result<F>) -> Result<u64> {
    drop(make()?);
    std::thread::sleep(Duration::from_millis(100));
    Ok(decide(times, make()?))
}

/// A function of its own, so that a counter can be told to count inside of it only.
#[inline(never)]
fn decide(times: u64, operation: impl Fn() -> bool) -> u64 {
    (0..times).map(|_| u64::from(std::hint::black_box(operation()))).sum()
}

fn granted() -> Result<Vec<Contender>> {
    let governor = governor_granted();
    let ours = ours_granted()?;
    // The prime below 10⁹ makes the 128-bit word necessary.
    let wide = TokenBucket::new(PLENTY.into(), 999_999_937, SECOND)?;
    let precise = ours_granted()?.with_clock(ClockSource::precise());
    let leaky = leaky_bucket::RateLimiter::builder()
        .refill(1_000_000)
        .interval(Duration::from_millis(1))
        .max(usize::MAX >> 2)
        .initial(usize::MAX >> 2)
        .build();
    let ratelimit = ratelimit::Ratelimiter::builder(PLENTY.into())
        .max_tokens(PLENTY.into())
        .initial_available(PLENTY.into())
        .build()?;
    let throttle = throttle_net::Throttle::per_second(PLENTY);
    Ok(vec![
        Contender::new("governor 0.10 `check`", true, move || governor.check().is_ok()),
        Contender::new("**tidegate** `try_take(1)`", true, move || ours.try_take(1)),
        Contender::new("tidegate, 128 bits", true, move || wide.try_take(1)),
        Contender::new("tidegate, precise clock", true, move || precise.try_take(1)),
        Contender::new("ratelimit 2.0 `try_wait`", true, move || ratelimit.try_wait().is_ok()),
        Contender::new("leaky-bucket 1.1 `try_acquire`", true, move || leaky.try_acquire(1)),
        Contender::new("throttle-net 2.0 `try_acquire`", true, move || throttle.try_acquire()),
    ])
}

fn refused() -> Result<Vec<Contender>> {
    let governor = governor_refused()?;
    let ours = ours_refused()?;
    let precise = ours_refused()?.with_clock(ClockSource::precise());
    assert!(precise.try_take(1), "a bucket on a new clock is full");
    let leaky = leaky_bucket::RateLimiter::builder().refill(1).interval(HOUR).max(1).initial(0).build();
    let ratelimit =
        ratelimit::Ratelimiter::builder(1).period(HOUR).max_tokens(1).initial_available(0).build()?;
    let throttle = throttle_net::Throttle::per_duration(1, HOUR);
    assert!(throttle.try_acquire(), "it starts full");
    Ok(vec![
        Contender::new("governor 0.10 `check`", false, move || governor.check().is_ok()),
        Contender::new("**tidegate** `try_take(1)`", false, move || ours.try_take(1)),
        Contender::new("tidegate, precise clock", false, move || precise.try_take(1)),
        Contender::new("ratelimit 2.0 `try_wait`", false, move || ratelimit.try_wait().is_ok()),
        Contender::new("leaky-bucket 1.1 `try_acquire`", false, move || leaky.try_acquire(1)),
        Contender::new("throttle-net 2.0 `try_acquire`", false, move || throttle.try_acquire()),
    ])
}

fn ours_granted() -> Result<TokenBucket> {
    Ok(TokenBucket::new(PLENTY.into(), PLENTY.into(), SECOND)?)
}

fn ours_refused() -> Result<TokenBucket> {
    let bucket = TokenBucket::new(1, 1, HOUR)?;
    assert!(bucket.try_take(1), "it starts full");
    Ok(bucket)
}

fn governor_granted() -> DefaultDirectRateLimiter {
    governor::RateLimiter::direct(Quota::per_second(NonZeroU32::new(PLENTY).expect("it is not zero")))
}

fn governor_refused() -> Result<DefaultDirectRateLimiter> {
    let Some(quota) = Quota::with_period(HOUR) else { bail!("an hour is not zero") };
    let limiter = governor::RateLimiter::direct(quota);
    assert!(limiter.check().is_ok(), "it starts full");
    Ok(limiter)
}
