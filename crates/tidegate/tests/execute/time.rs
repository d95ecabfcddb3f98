//! How long a call may go on, and who says when it comes back.

use super::*;

#[tokio::test(start_paused = true)]
async fn r6_max_elapsed_clips_delays_and_ends_the_call() {
    let start = Instant::now();
    let call = plain().execute(Call::default(), |_| async { Err::<(), _>(too_fast()) });
    let (attempts, waited, _, why) = exhausted(call.max_elapsed(2500 * MS).await.expect_err("never done"));
    // After 1 s, after 1.5 s instead of 2, and no more.
    assert_eq!((attempts, waited, why), (3, 2500 * MS, GaveUp::TimeSpent));
    assert_eq!(start.elapsed(), 2500 * MS);
}

#[tokio::test(start_paused = true)]
async fn r6_a_success_that_comes_late_is_still_a_success() {
    let op = |attempt: tidegate::Attempt| async move {
        sleep(10 * SECOND).await;
        if attempt.is_retry() { Ok("late") } else { Err(too_fast()) }
    };
    let call = plain().execute(Call::default().timeout(2 * SECOND), op);
    let deadline = Instant::now() + 12 * SECOND;
    assert_eq!(call.max_elapsed(11 * SECOND).deadline(deadline).await.expect("never discarded"), "late");
}

#[tokio::test(start_paused = true)]
async fn r6_the_upstreams_hint_wins_over_our_own_backoff_and_is_never_cut_short() {
    let hinted = |hint: &'static str| {
        move |attempt: tidegate::Attempt| async move {
            if attempt.is_retry() {
                return Ok(());
            }
            attempt.report(Outcome::reply(429_u16, &headers(&[("retry-after", hint)])));
            Err("too fast")
        }
    };
    let start = Instant::now();
    plain().execute(Call::default(), hinted("20")).await.expect("done");
    assert_eq!(start.elapsed(), 20 * SECOND);
    plain().execute(Call::default(), hinted("0")).await.expect("done");
    assert_eq!(start.elapsed(), 20 * SECOND + 50 * MS, "a hint of 0 is no reason to hammer");

    let start = Instant::now();
    let error =
        plain().execute(Call::default().timeout(30 * SECOND), hinted("31")).await.expect_err("too far");
    assert_eq!(error.come_back(), Some(31 * SECOND));
    let (attempts, waited, _, why) = exhausted(error);
    assert_eq!((attempts, waited, why), (1, Duration::ZERO, GaveUp::TooFar { come_back: 31 * SECOND }));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn r6_the_timeout_bounds_all_waiting_and_not_the_attempts_own_run() {
    let op = |_| async {
        sleep(100 * SECOND).await;
        Err::<(), _>(too_fast())
    };
    let start = Instant::now();
    let call = plain().execute(Call::default().timeout(10 * SECOND), op);
    let (attempts, waited, _, why) = exhausted(call.await.expect_err("never done"));
    // 1 + 2 + 4 + 3 of 8 seconds between five attempts.
    assert_eq!((attempts, waited, why), (5, 10 * SECOND, GaveUp::TimeSpent));
    assert_eq!(start.elapsed(), 510 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn r6_nobody_waits_beyond_the_deadline() {
    let start = Instant::now();
    let call = plain().execute(Call::default(), |_| async { Err::<(), _>(too_fast()) });
    let (_, waited, _, why) = exhausted(call.deadline(start + 5 * SECOND).await.expect_err("never done"));
    assert_eq!((waited, why, start.elapsed()), (5 * SECOND, GaveUp::TimeSpent, 5 * SECOND));
}

/// The upstream counts it from when it arrives, half a second after it was let go.
#[tokio::test(start_paused = true)]
async fn a_call_that_says_when_it_leaves_counts_from_then_on() {
    for (says, room_after) in [(false, 1_028), (true, 1_528)] {
        let config = r#"requests = { limit = "1/s", algorithm = "sliding-window", burst = 1 }"#;
        let config = Config::parse(&format!("[services.api]\n{config}\n")).expect("valid");
        let gate = Gate::builder().config(config).remote(true).build().expect("valid");
        let start = Instant::now();
        let call = gate.execute(Call::to("api"), |attempt| async move {
            tokio::time::sleep(SECOND / 2).await;
            if says {
                attempt.leaves();
            }
            Ok::<_, String>(())
        });
        call.await.expect("nothing is in its way");
        gate.acquire(Call::to("api")).await.expect("a second later").finish(Outcome::done());
        let took = start.elapsed().as_millis();
        assert!((room_after - 10..room_after + 10).contains(&took), "{took} ms");
    }
}
