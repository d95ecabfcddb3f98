//! How long a call waits between its attempts, and who pays for them.

use super::*;

#[tokio::test(start_paused = true)]
async fn b1_delays_grow_as_the_policy_says() {
    let delays = async |growth| {
        let policy = RetryPolicy::builder().growth(growth).jitter(Jitter::None).initial(100 * MS).max(SECOND);
        let policy = policy.build().expect("valid");
        let result =
            plain().execute(Call::default(), |_| async { Err::<(), _>(too_fast()) }).retry(policy).await;
        let Err(ExecuteError::Exhausted { history, .. }) = result else { panic!("never done") };
        history.iter().filter_map(|tried| tried.delay).map(|delay| delay.as_millis()).collect::<Vec<_>>()
    };
    assert_eq!(delays(Growth::Exponential).await, [100, 200, 400, 800, 1000]);
    assert_eq!(delays(Growth::Linear).await, [100, 200, 300, 400, 500]);
    assert_eq!(delays(Growth::Constant).await, [100; 5]);
    let mut last = 100;
    for delay in delays(Growth::Decorrelated).await {
        assert!((100..=1000.min(3 * last)).contains(&delay), "{delay} after {last}");
        last = delay;
    }
}

#[tokio::test(start_paused = true)]
async fn b2_every_kind_of_jitter_stays_inside_the_cap_and_a_seed_gives_the_same_delays() {
    let delays = async |jitter, seed| {
        let builder = Gate::builder().simple(RateLimitConfig::default()).expect("valid");
        let gate = builder.chance(Chance::seeded(seed)).build().expect("valid");
        let policy =
            RetryPolicy::builder().jitter(jitter).initial(SECOND).max(3 * SECOND).build().expect("valid");
        let start = Instant::now();
        let result =
            gate.execute(Call::default(), |_| async { Err::<(), _>(nobody_there()) }).retry(policy).await;
        let Err(ExecuteError::Exhausted { history, waited, .. }) = result else { panic!("never done") };
        let delays: Vec<Duration> = history.iter().filter_map(|tried| tried.delay).collect();
        assert_eq!(waited, start.elapsed());
        // Timers go by the millisecond.
        assert!(waited >= delays.iter().sum() && waited <= delays.iter().sum::<Duration>() + 5 * MS);
        delays
    };
    let jitters = [
        Jitter::None,
        Jitter::Factor(0.25),
        Jitter::Additive(0.1),
        Jitter::Symmetric(0.1),
        Jitter::Range { low: 0.5, high: 1.5 },
        Jitter::Full,
    ];
    for jitter in jitters {
        let drawn = delays(jitter, 7).await;
        assert!(drawn.iter().all(|delay| *delay <= 3 * SECOND), "{jitter:?}: {drawn:?}");
        assert_eq!(drawn, delays(jitter, 7).await, "{jitter:?}");
        assert_eq!(drawn == delays(jitter, 8).await, jitter == Jitter::None, "{jitter:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn retries_of_what_failed_are_paid_from_the_services_budget_and_a_reload_keeps_it() {
    let text =
        "[services.api]\nretry = { initial = \"1ms\", max = \"1ms\", max_retries = 1000000, budget = 0.0 }\n";
    let gate = gate(text);
    let fail = async || {
        let call =
            gate.execute(Call::to("api"), |_| async { Err::<(), _>(Outcome::failed().because("broken")) });
        exhausted(call.repeatable(true).await.expect_err("never done"))
    };
    let (attempts, .., why) = fail().await;
    assert_eq!((attempts, why), (101, GaveUp::BudgetSpent), "ten a second, over ten seconds");
    gate.reconfigure(&Config::parse(text).expect("valid")).expect("valid");
    assert_eq!(fail().await.0, 1, "it is spent for every call");
    let call = gate.execute(Call::to("api"), |attempt| async move {
        if attempt.is_retry() { Ok(()) } else { Err(too_fast()) }
    });
    call.await.expect("a refusal is not paid for");
}

#[tokio::test(start_paused = true)]
async fn every_call_adds_its_share_to_the_budget_and_a_retry_adds_nothing() {
    let gate = gate(
        "[services.api]\nretry = { initial = \"1ms\", max = \"1ms\", max_retries = 1000, budget = 1.0 }\n",
    );
    for _ in 0..49 {
        gate.execute(Call::to("api"), |_| async { Ok::<_, Failed>(()) }).await.expect("done");
    }
    let call = gate.execute(Call::to("api"), |_| async { Err::<(), _>(nobody_there()) });
    let (attempts, .., why) = exhausted(call.await.expect_err("never done"));
    assert_eq!((attempts, why), (1 + 100 + 50, GaveUp::BudgetSpent), "a hundred, and one for each call");
}

/// Twenty calls at a limit of sixty a minute, refused for ever with this header. Returns when attempts were made.
async fn storm(config: &str, header: (&'static str, &str)) -> Vec<Duration> {
    let gate = gate(config);
    let (start, sent) = (Instant::now(), Arc::new(std::sync::Mutex::new(Vec::new())));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (gate, sent, headers) = (gate.clone(), sent.clone(), headers(&[header]));
        calls.spawn(async move {
            let call = Call::to("api").timeout(300 * SECOND);
            let policy = RetryPolicy::builder().as_long_as_there_is_time().build().expect("valid");
            let made = gate.execute(call, |_| {
                let (sent, headers) = (sent.clone(), headers.clone());
                async move {
                    sent.lock().expect("no panic").push(start.elapsed());
                    sleep(5 * MS).await;
                    Err::<(), _>(Outcome::reply(429u16, &headers).because("too fast"))
                }
            });
            made.retry(policy).await
        });
    }
    sleep(40 * SECOND).await;
    calls.abort_all();
    let sent = sent.lock().expect("no panic");
    sent.clone()
}

#[tokio::test(start_paused = true)]
async fn a_hint_of_zero_is_no_permission_to_hammer() {
    let configs = [
        "[services.api]\nrequests = \"60/min\"\n",
        "[services.api]\npreset = \"github\"\nrequests = \"60/min\"\n",
        "[services.api]\npreset = \"anthropic\"\nrequests = \"60/min\"\n",
        "[services.api]\n",
    ];
    let past = "Wed, 21 Oct 2015 07:28:00 GMT";
    for config in configs {
        for header in [("retry-after", "0"), ("retry-after-ms", "0"), ("retry-after", past)] {
            let sent = storm(config, header).await;
            assert!((5..60).contains(&sent.len()), "{} in 40 s: {config} {header:?}", sent.len());
        }
    }
}
