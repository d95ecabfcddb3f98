//! The simple gate.

use super::*;

#[tokio::test(start_paused = true)]
async fn r1_the_defaults_are_a_thousand_tokens_a_hundred_a_minute_and_five_retries() {
    let gate = Gate::simple(RateLimitConfig::default()).expect("valid");
    let limit = || gate.limit("simple/tokens/1m").expect("known");
    assert_eq!((limit().capacity, limit().used), (1000, 0));
    gate.try_acquire(Call::default().tokens(1000)).expect("full at first").finish(Outcome::done());
    tokio::time::advance(60 * SECOND).await;
    assert_eq!(limit().used, 900);

    let start = Instant::now();
    let calls = Cell::new(0);
    let result = gate.execute(Call::default(), |_| {
        calls.set(calls.get() + 1);
        async { Err::<(), _>(too_fast()) }
    });
    let (attempts, waited, _, why) = exhausted(result.await.expect_err("never done"));
    assert_eq!((attempts, calls.get(), why), (6, 6, GaveUp::RetriesSpent));
    // 1 + 2 + 4 + 8 + 16 seconds, each by up to a tenth more or less.
    assert!((31.0 * 0.9..31.0 * 1.1 + 0.01).contains(&waited.as_secs_f64()), "{waited:?}");
    assert_eq!(start.elapsed(), waited);
    let default = Backoff::default();
    assert_eq!((default.initial, default.max, default.jitter), (SECOND, 60 * SECOND, Jitter::Symmetric(0.1)));
}

#[tokio::test(start_paused = true)]
async fn r1_no_retries_run_the_call_once() {
    let gate = Gate::simple(RateLimitConfig { max_retries: 0, ..RateLimitConfig::default() }).expect("valid");
    let result = gate.execute(Call::default(), |_| async { Err::<(), _>(too_fast()) }).await;
    let (attempts, waited, ..) = exhausted(result.expect_err("failed"));
    assert_eq!((attempts, waited), (1, Duration::ZERO));
}

#[test]
fn r1_a_bad_value_is_refused_by_the_name_of_its_field() {
    let good = RateLimitConfig::default();
    let bad = [
        ("initial_tokens", RateLimitConfig { initial_tokens: 0, ..good }),
        ("initial_tokens", RateLimitConfig { initial_tokens: u64::MAX, ..good }),
        ("refill_rate", RateLimitConfig { refill_rate: 0, ..good }),
        ("refill_rate", RateLimitConfig { refill_rate: u64::MAX, ..good }),
        ("initial_delay", RateLimitConfig { initial_delay: Duration::ZERO, ..good }),
        ("max_delay", RateLimitConfig { max_delay: 999 * MS, ..good }),
        ("jitter_factor", RateLimitConfig { jitter_factor: -0.1, ..good }),
        ("jitter_factor", RateLimitConfig { jitter_factor: 1.1, ..good }),
        ("jitter_factor", RateLimitConfig { jitter_factor: f64::NAN, ..good }),
    ];
    for (field, config) in bad {
        let error = Gate::simple(config).expect_err(field);
        assert_eq!(error.field, field, "{error}");
        assert!(error.to_string().contains(field), "{error}");
    }
    Gate::simple(good).expect("good");
}

#[tokio::test(start_paused = true)]
async fn r5_a_cost_above_capacity_fails_at_once_with_its_numbers() {
    let gate = plain();
    let start = Instant::now();
    let never = |_| async { panic!("it is never made") as Result<(), Failed> };
    let error = gate.execute(Call::default().tokens(1001), never).await.expect_err("never fits");
    let ExecuteError::Refused(refused) = error else { panic!("{error}") };
    assert_eq!(refused.reason(), &Reason::TooLarge { cost: 1001, capacity: 1000 });
    let error = gate.execute(Call::default().usd(f64::NAN), never).await.expect_err("no number");
    let ExecuteError::Refused(refused) = error else { panic!("{error}") };
    assert_eq!(refused.reason(), &Reason::InvalidCost);
    let error = gate.execute(Call::default().usd(-1.0), never).await.expect_err("negative");
    let ExecuteError::Refused(refused) = error else { panic!("{error}") };
    assert_eq!(refused.reason(), &Reason::InvalidCost);
    assert_eq!(start.elapsed(), Duration::ZERO);
}
