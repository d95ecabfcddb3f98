//! What comes back, and what it took.

use super::*;

#[tokio::test(start_paused = true)]
async fn r2_two_refusals_then_success_returns_the_result() {
    let gate = plain();
    let run = async || {
        let calls = Cell::new(0);
        let op = |attempt: tidegate::Attempt| {
            calls.set(calls.get() + 1);
            async move { if attempt.number() <= 2 { Err(too_fast()) } else { Ok("data") } }
        };
        let report = gate.execute(Call::default(), op).with_report().await.expect("the third succeeds");
        assert_eq!((report.value, report.attempts, calls.get()), ("data", 3, 3));
        assert_eq!(report.history.len(), 2);
        report.waited
    };
    assert_eq!(run().await, 3 * SECOND);
    assert_eq!(run().await, 3 * SECOND, "the next call begins with the first delay again");
}

#[tokio::test(start_paused = true)]
async fn r2_a_call_that_always_fails_is_exhausted_with_attempts_delay_and_the_last_error() {
    let calls = Cell::new(0);
    let op = |_| {
        calls.set(calls.get() + 1);
        let error = Outcome::refused().because(format!("no {}", calls.get()));
        async { Err::<(), _>(error) }
    };
    let error = plain().execute(Call::default(), op).await.expect_err("never done");
    assert_eq!(error.to_string(), "6 attempts failed, after 31.0s of waiting (no retries left): no 6");
    let (attempts, waited, last, why) = exhausted(error);
    assert_eq!((attempts, waited, why), (6, 31 * SECOND, GaveUp::RetriesSpent));
    assert_eq!(last.to_string(), "no 6");
}

#[tokio::test(start_paused = true)]
async fn r2_an_error_that_is_not_worth_another_try_is_passed_through_unchanged_at_once() {
    #[derive(Debug, PartialEq)]
    struct Wrong(u32);
    let (start, calls) = (Instant::now(), Cell::new(0));
    let op = |_| {
        calls.set(calls.get() + 1);
        async { Err::<(), _>(Wrong(7)) }
    };
    let result = plain().execute(Call::default(), op).await;
    assert_eq!(result, Err(ExecuteError::Failed(Wrong(7))));
    let refused_by_name = plain().execute(Call::default(), |attempt| {
        attempt.report(Outcome::reply(400_u16, &HeaderMap::new()));
        async { Err::<(), _>(Wrong(8)) }
    });
    assert_eq!(refused_by_name.await, Err(ExecuteError::Failed(Wrong(8))));
    assert_eq!((calls.get(), start.elapsed()), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn r3_one_callers_exhaustion_stops_nobody_else() {
    let gate = plain();
    let others_wait = async |failure: fn() -> Failed| {
        let fails = gate.execute(Call::default(), |_| async { Err::<(), _>(failure()) }).await;
        assert_eq!(exhausted(fails.expect_err("never done")).0, 6);
        let good = gate.execute(Call::default(), |_| async { Ok::<_, Failed>(()) });
        good.with_report().await.expect("its own state is fresh").waited
    };
    assert_eq!(others_wait(nobody_there).await, Duration::ZERO);
    assert_eq!(
        others_wait(too_fast).await,
        SECOND,
        "that is the upstream's window, and not the other's retries"
    );
}

#[tokio::test(start_paused = true)]
async fn r3_the_success_of_an_old_call_leaves_the_delay_of_a_newer_one() {
    let gate = plain();
    let old = gate.execute(Call::default(), |_| async {
        sleep(500 * MS).await;
        Ok::<_, Failed>(Instant::now())
    });
    let newer = gate.execute(Call::default(), |attempt| async move {
        if attempt.is_retry() { Ok(Instant::now()) } else { Err(too_fast()) }
    });
    let start = Instant::now();
    let (old, newer) = tokio::join!(old, newer);
    assert_eq!(old.expect("done") - start, 500 * MS);
    assert_eq!(newer.expect("done") - start, SECOND);
}

#[tokio::test(start_paused = true)]
async fn r8_the_input_is_kept_until_success() {
    let input = vec![String::from("a"), String::from("b")];
    let call = plain();
    let call = call.execute(Call::default(), |attempt| {
        let input = &input;
        async move { if attempt.number() < 4 { Err(too_fast()) } else { Ok(input.concat()) } }
    });
    assert_eq!(call.await.expect("done"), "ab");
    assert_eq!(input.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn r8_a_refused_attempt_need_not_count_among_the_retries() {
    let policy = RetryPolicy::builder().max_retries(1).refusals_count(false).jitter(Jitter::None);
    let call = plain().execute(Call::default().timeout(Duration::MAX), |attempt| async move {
        if attempt.number() <= 20 { Err(too_fast()) } else { Ok(attempt.number()) }
    });
    assert_eq!(call.retry(policy.build().expect("valid")).await.expect("done"), 21);
}

#[tokio::test(start_paused = true)]
async fn what_an_attempt_reports_settles_its_cost_and_a_value_is_a_success_in_any_case() {
    let gate = plain();
    let used = || gate.limit("simple/tokens/1m").expect("known").used;
    let call = gate.execute(Call::default().tokens(50), |attempt| async move {
        attempt.report(Outcome::done().tokens(20));
        Ok::<_, Failed>(())
    });
    call.await.expect("done");
    assert_eq!(used(), 20);
    let call = gate.execute(Call::default(), |attempt| async move {
        attempt.report(Outcome::reply(500_u16, &HeaderMap::new()));
        Ok::<_, Failed>(attempt.number())
    });
    assert_eq!(call.await.expect("the caller is content"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_history_says_what_each_attempt_came_to() {
    let policy = RetryPolicy::builder().max_retries(1).jitter(Jitter::None).build().expect("valid");
    let call = plain().execute(Call::default(), |attempt| async move {
        sleep(250 * MS).await;
        let outcome = if attempt.is_retry() {
            Outcome::unreached()
        } else {
            Outcome::refused().retry_after(3 * SECOND)
        };
        Err::<(), _>(outcome.because("no luck"))
    });
    let Err(ExecuteError::Exhausted { history, .. }) = call.retry(policy).await else { panic!("never done") };
    let told: Vec<_> =
        history.iter().map(|tried| (tried.attempt, tried.ran, tried.failure.kind, tried.delay)).collect();
    assert_eq!(
        told,
        [(1, 250 * MS, FailureKind::Refused, Some(3 * SECOND)), (2, 250 * MS, FailureKind::Unreached, None),]
    );
}
