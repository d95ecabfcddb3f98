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
async fn an_attempt_that_the_gate_does_not_let_go_again_is_exhausted_with_the_gates_word() {
    let gate = gate("[services.api]\nconcurrency = 1\nretry = { jitter = 0.0 }\n");
    let call = gate.execute(Call::to("api").timeout(3 * SECOND), |_| async { Err::<(), _>(too_fast()) });
    let holder = async {
        sleep(500 * MS).await;
        let _held = gate.try_acquire(Call::to("api")).expect("it holds no slot while it waits");
        sleep(60 * SECOND).await;
    };
    let (result, ()) = tokio::join!(call, holder);
    let (attempts, waited, _, why) = exhausted(result.expect_err("no slot"));
    assert_eq!((attempts, waited), (1, SECOND), "what it waited in vain is in the refusal");
    let GaveUp::Refused(refused) = why else { panic!("{why}") };
    assert_eq!((refused.reason(), refused.limit()), (&Reason::Timeout, Some("api/concurrency")));
}
