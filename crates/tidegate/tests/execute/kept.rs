//! A permit that outlives its attempt.

use super::*;

const CONFIG: &str = "[services.api]\nconcurrency = 1\ntokens = { limit = \"100/h\", burst = 100 }\n";

fn used(gate: &Gate) -> (u64, u64) {
    let used = |name| gate.limit(name).expect("known").used;
    (used("api/concurrency"), used("api/tokens/1h"))
}

#[tokio::test(start_paused = true)]
async fn a_kept_permit_holds_its_slot_until_somebody_finishes_it() {
    let gate = gate(CONFIG);
    let call = Call::to("api").tokens(10);
    let kept = gate.execute(call, |attempt| async move { Ok::<_, Failed>(attempt.keep_permit()) });
    let kept = kept.await.expect("done");
    assert_eq!(used(&gate), (1, 10));
    kept.take().expect("it succeeded").finish(Outcome::done().tokens(4));
    assert_eq!(used(&gate), (0, 4));
}

#[tokio::test(start_paused = true)]
async fn a_kept_permit_that_nobody_takes_frees_its_slot_and_keeps_its_cost() {
    let gate = gate(CONFIG);
    let call = Call::to("api").tokens(10);
    let kept = gate.execute(call, |attempt| async move { Ok::<_, Failed>(attempt.keep_permit()) });
    drop(kept.await.expect("done"));
    assert_eq!(used(&gate), (0, 10));
}

#[tokio::test(start_paused = true)]
async fn the_permit_of_an_attempt_that_failed_is_not_kept() {
    let gate = gate(CONFIG);
    let kept = std::sync::Mutex::new(None);
    let failed = gate.execute(Call::to("api"), |attempt| {
        *kept.lock().expect("no panic") = Some(attempt.keep_permit());
        async { Err::<(), _>(Outcome::done().because("wrong")) }
    });
    failed.await.expect_err("wrong");
    assert_eq!(used(&gate).0, 0);
    let kept = kept.into_inner().expect("no panic").expect("asked for");
    assert!(kept.take().is_none());
}
