//! What a call holds, and what it leaves behind.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_to_retry_holds_no_slot_and_comes_back_before_those_who_came_later() {
    let gate = gate("[services.api]\nconcurrency = 1\nretry = { jitter = 0.0 }\n");
    let order = std::sync::Mutex::new(Vec::new());
    let first = gate.execute(Call::to("api"), |attempt| {
        order.lock().expect("no panic").push(("first", attempt.number()));
        async move { if attempt.is_retry() { Ok(()) } else { Err(too_fast()) } }
    });
    let other = |name: &'static str| {
        let (gate, order) = (&gate, &order);
        gate.execute(Call::to("api"), move |attempt| {
            order.lock().expect("no panic").push((name, attempt.number()));
            async {
                sleep(2 * SECOND).await;
                Ok::<_, Failed>(())
            }
        })
    };
    let (first, second, third) = tokio::join!(first, other("second"), other("third"));
    first.and(second).and(third).expect("done");
    let order = order.into_inner().expect("no panic");
    assert_eq!(order, [("first", 1), ("second", 1), ("first", 2), ("third", 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_holds_back_the_calls_for_the_same_model_and_no_others() {
    let gate = gate("[services.api]\n");
    let call = |model: &str| Call::to("api").model(model);
    let op = |_| async { Err::<(), _>(Outcome::refused().retry_after(9 * SECOND).because("too fast")) };
    let policy = RetryPolicy::builder().max_retries(0).build().expect("valid");
    gate.execute(call("large"), op).retry(policy).await.expect_err("refused");
    let refused = gate.try_acquire(call("large")).expect_err("its window is open");
    assert_eq!(refused.wait(), Some(9 * SECOND));
    gate.try_acquire(call("small")).expect("another model").finish(Outcome::done());
    let permit = gate.try_acquire(call("small")).expect("another model");
    permit.finish(Outcome::refused().model("small"));
    gate.try_acquire(call("small")).expect_err("its window is open now");
    gate.try_acquire(call("tiny")).expect("another model").finish(Outcome::done());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_the_gate_does_not_let_go_again_is_exhausted_with_the_gates_word() {
    let gate = gate("[services.api]\nconcurrency = 1\nretry = { jitter = 0.0 }\n");
    let call = gate.execute(Call::to("api").timeout(3 * SECOND), |_| async { Err::<(), _>(nobody_there()) });
    let holder = async {
        sleep(500 * MS).await;
        let _held = gate.try_acquire(Call::to("api")).expect("it holds no slot while it waits");
        sleep(60 * SECOND).await;
    };
    let (result, ()) = tokio::join!(call, holder);
    let (attempts, waited, _, why) = exhausted(result.expect_err("no slot"));
    assert_eq!((attempts, waited), (1, 3 * SECOND), "all that it could");
    let GaveUp::Refused(refused) = why else { panic!("{why}") };
    assert_eq!((refused.reason(), refused.limit()), (&Reason::Timeout, Some("api/concurrency")));
}

/// A call that goes through everything there is: it waits for a slot, fails, waits, comes back, waits for its turn
/// again and is done. Wherever it is dropped, nothing is left of it.
#[tokio::test(start_paused = true)]
async fn dropping_a_call_at_any_poll_leaks_nothing() {
    let mut done = false;
    let mut polls = 0;
    while !done {
        assert!(polls < 200, "it is done at some time");
        let gate = gate(
            "[services.api]\nconcurrency = 1\ntokens = { limit = \"60/min\", algorithm = \"token-bucket\", burst = 10 }\n\
             retry = { initial = \"1s\", jitter = 0.0 }\n",
        );
        let held = gate.try_acquire(Call::to("api").tokens(6)).expect("free");
        let op = |attempt: tidegate::Attempt| async move {
            sleep(700 * MS).await;
            attempt.report(if attempt.is_retry() { Outcome::done() } else { Outcome::failed() });
            sleep(700 * MS).await;
            if attempt.is_retry() { Ok(()) } else { Err("failed") }
        };
        let call = gate.execute(Call::to("api").tokens(3), op).repeatable(true);
        let mut call = Box::pin(call.on_progress(|_| {}));
        let mut held = Some(held);
        for poll in 0..polls {
            if poll_once(&mut call).is_some() {
                done = true;
                break;
            }
            tokio::time::advance(300 * MS).await;
            if poll == 2 {
                drop(held.take());
            }
        }
        drop(call);
        drop(held);
        // The engine's own timer may still have to run.
        tokio::task::yield_now().await;
        assert_eq!(gate.waiting(), 0, "after {polls} polls");
        assert_eq!(gate.limit("api/concurrency").expect("known").used, 0, "after {polls} polls");
        let used = gate.limit("api/tokens/1m").expect("known").used;
        assert!(used <= 10, "{used} after {polls} polls");
        let _next = gate.try_acquire(Call::to("api").tokens(0)).expect("the slot is there for the next");
        polls += 1;
    }
    assert!(polls > 10, "it waited at many places: {polls}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_any_attempt_gives_the_slot_back() {
    for panics_at in 1..=3 {
        for after_a_wait in [false, true] {
            let gate = gate("[services.api]\nconcurrency = 1\n");
            let call = gate.execute(Call::to("api"), move |attempt| {
                assert!(after_a_wait || attempt.number() < panics_at, "the caller's own trouble");
                async move {
                    sleep(SECOND).await;
                    assert!(attempt.number() < panics_at, "the caller's own trouble");
                    Err::<(), _>(nobody_there())
                }
            });
            let panicked = tokio::spawn(call).await.expect_err("it panicked");
            assert!(panicked.is_panic());
            assert_eq!((gate.waiting(), gate.limit("api/concurrency").expect("known").used), (0, 0));
            gate.try_acquire(Call::to("api")).expect("the slot is back").finish(Outcome::done());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_classifier_that_panics_gives_the_slot_back() {
    let gate = gate("[services.api]\nconcurrency = 1\n");
    let call = gate.execute(Call::to("api"), |_| async { Err::<(), _>("failed") });
    let call = call.classify(|_| panic!("the classifier's own trouble"));
    assert!(tokio::spawn(call).await.expect_err("it panicked").is_panic());
    assert_eq!(gate.limit("api/concurrency").expect("known").used, 0);
}

/// The caller's future goes before its permit: whatever it does when it is dropped, it does in its slot.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_dropped_ends_before_its_slot_is_free() {
    struct Guard(Gate, Arc<AtomicU32>);
    impl Drop for Guard {
        fn drop(&mut self) {
            let used = self.0.limit("api/concurrency").expect("known").used;
            self.1.fetch_add(u32::try_from(used).expect("small"), Ordering::Relaxed);
        }
    }
    let gate = gate("[services.api]\nconcurrency = 1\n");
    let used = Arc::new(AtomicU32::new(0));
    let mut call = Box::pin(gate.execute(Call::to("api"), |_| {
        let guard = Guard(gate.clone(), used.clone());
        async move {
            let _guard = guard;
            sleep(SECOND).await;
            Ok::<_, Failed>(())
        }
    }));
    assert!(poll_once(&mut call).is_none());
    drop(call);
    assert_eq!(used.load(Ordering::Relaxed), 1, "the slot was still its own");
    assert_eq!(gate.limit("api/concurrency").expect("known").used, 0);
}

#[tokio::test(start_paused = true)]
async fn c1_a_new_call_is_refused_by_an_open_breaker_and_one_that_is_tried_again_waits_for_the_probe() {
    let config = "[services.api]\nbreaker = { failures = 1, open_for = \"5s\" }\nretry = { jitter = 0.0 }\n";
    let open = gate(config);
    let start = Instant::now();
    let again = open.execute(Call::to("api"), |attempt| async move {
        if attempt.is_retry() { Ok(attempt.number()) } else { Err(nobody_there()) }
    });
    let another = async {
        sleep(SECOND).await;
        open.execute(Call::to("api"), |_| async { Ok::<_, Failed>(0) }).await
    };
    let (again, another) = tokio::join!(again, another);
    assert_eq!((again.expect("the probe"), start.elapsed()), (2, 5 * SECOND));
    let Err(ExecuteError::Refused(refused)) = another else { panic!("it is new") };
    assert_eq!((refused.reason(), refused.limit()), (&Reason::CircuitOpen, Some("api/breaker")));

    let patient = Gate::builder().config(Config::parse(config).expect("valid")).wait_for_breakers(true);
    let patient = patient.build().expect("valid");
    let start = Instant::now();
    patient.acquire(Call::to("api")).await.expect("closed").finish(Outcome::failed());
    patient.acquire(Call::to("api")).await.expect("the probe").finish(Outcome::done());
    assert_eq!(start.elapsed(), 5 * SECOND);
}
