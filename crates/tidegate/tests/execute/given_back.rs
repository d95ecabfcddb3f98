//! A permit that an attempt gives back, since it was not sent in time.

use super::*;

const CONFIG: &str = "[services.api]\nconcurrency = 1\nrequests = { limit = \"9/min\", burst = 9 }\n";

fn used(gate: &Gate) -> (u64, u64) {
    let used = |name| gate.limit(name).expect("known").used;
    (used("api/concurrency"), used("api/requests/1m"))
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_gives_its_permit_back_costs_nothing_and_does_not_count() {
    let gate = gate(CONFIG);
    let rounds = Cell::new(0);
    let done = gate.execute(Call::to("api"), |attempt| {
        assert_eq!((attempt.number(), used(&gate)), (1, (1, 1)));
        rounds.set(rounds.get() + 1);
        let late = rounds.get() <= 5;
        async move {
            sleep(SECOND).await;
            assert_eq!(attempt.age(), SECOND);
            if late {
                attempt.give_back();
                return Err(nobody_there());
            }
            Ok(attempt.number())
        }
    });
    let report = done.with_report().await.expect("done");
    assert_eq!((report.attempts, report.value, rounds.get()), (1, 1, 6));
    assert_eq!((report.waited, report.history.len()), (Duration::ZERO, 0));
    assert_eq!(used(&gate), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_gave_its_permit_back_keeps_its_place_in_the_queue() {
    let gate = gate(CONFIG);
    let order = &std::sync::Mutex::new(Vec::new());
    let first_goes = Cell::new(false);
    let mut first = gate.execute(Call::to("api"), |attempt| {
        let goes = first_goes.replace(true);
        async move {
            sleep(SECOND).await;
            if !goes {
                attempt.give_back();
                return Err(nobody_there());
            }
            order.lock().expect("no panic").push("first");
            Ok(())
        }
    });
    assert!(poll_once(&mut first).is_none());
    let later = |name| {
        gate.execute(Call::to("api"), move |_| async move {
            sleep(SECOND).await;
            order.lock().expect("no panic").push(name);
            Ok::<_, Failed>(())
        })
    };
    let (mut second, mut third) = (later("second"), later("third"));
    assert!(poll_once(&mut second).is_none() && poll_once(&mut third).is_none());
    let (first, second, third) = tokio::join!(first, second, third);
    first.and(second).and(third).expect("all go");
    // What is given back goes to the call that waits longest; then it is the first one's turn again.
    assert_eq!(*order.lock().expect("no panic"), ["second", "first", "third"]);
}
