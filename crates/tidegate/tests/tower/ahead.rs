//! Admission in `poll_ready`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use tidegate::tower::GateLayer;
use tidegate::{Outcome, Reason, Refused};
use tokio::time::Instant;
use tower::buffer::Buffer;
use tower::{Layer, Service, ServiceExt, service_fn};

use super::upstream::{Ask, Failed, LATENCY, Readiness, Upstream};
use super::{Wakes, call, gate, gated, is_ready, look, used};

const ANSWER: Ask = Ask::Answer { tokens: 4 };

#[tokio::test(start_paused = true)]
async fn a_call_holds_its_slot_until_the_reply_and_then_costs_what_the_reply_says() {
    let (gate, upstream) = (gate(), Upstream::default());
    let mut service = gated(&gate, &upstream);
    let answer = service.ready().await.expect("free").call(ANSWER);
    assert_eq!(used(&gate), (1, 10));
    answer.await.expect("answered");
    assert_eq!((used(&gate), upstream.called()), ((0, 4), 1));
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_held_from_ready_to_call_however_often_one_asks() {
    let (gate, upstream) = (gate(), Upstream::default());
    let mut service = gated(&gate, &upstream);
    for _ in 0..3 {
        assert!(is_ready(&mut service).expect("free").is_ok());
        assert_eq!(used(&gate), (1, 10));
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
    service.call(ANSWER).await.expect("answered");
    assert_eq!(used(&gate), (0, 4));
}

#[tokio::test(start_paused = true)]
async fn ready_and_then_dropped_gives_all_back() {
    let (gate, upstream) = (gate(), Upstream::default());
    let mut service = gated(&gate, &upstream);
    assert!(is_ready(&mut service).expect("free").is_ok());
    drop(service);
    assert_eq!((used(&gate), upstream.called()), ((0, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn a_clone_has_no_part_in_the_permit() {
    let (gate, upstream) = (gate(), Upstream::default());
    let mut service = gated(&gate, &upstream);
    assert!(is_ready(&mut service).expect("free").is_ok());
    let mut clone = service.clone();
    assert!(is_ready(&mut clone).is_none(), "there is one slot");
    drop(clone);
    assert_eq!((used(&gate), gate.waiting()), ((1, 10), 0));
    let mut clone = service.clone();
    assert!(is_ready(&mut clone).is_none());
    drop(service);
    assert!(is_ready(&mut clone).expect("the slot went on").is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_busy_inner_service_costs_no_permit() {
    let (gate, upstream) = (gate(), Upstream::default());
    let mut service = gated(&gate, &upstream);
    upstream.set(Readiness::Busy);
    assert!(is_ready(&mut service).is_none());
    assert_eq!((used(&gate), gate.waiting()), ((0, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn an_inner_service_that_fails_meanwhile_gives_the_permit_back() {
    let (gate, upstream) = (gate(), Upstream::default());
    let mut service = gated(&gate, &upstream);
    assert!(is_ready(&mut service).expect("free").is_ok());
    upstream.set(Readiness::Broken);
    let error = is_ready(&mut service).expect("broken").expect_err("broken");
    assert_eq!(error.downcast_ref(), Some(&Failed));
    assert_eq!(used(&gate), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_inner_service_that_fails_while_we_wait_leaves_the_queue() {
    let (gate, upstream) = (gate(), Upstream::default());
    let _held = gate.try_acquire(call()).expect("free");
    let mut service = gated(&gate, &upstream);
    assert!(is_ready(&mut service).is_none());
    assert_eq!(gate.waiting(), 1);
    upstream.set(Readiness::Broken);
    assert!(is_ready(&mut service).expect("broken").is_err());
    assert_eq!(gate.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_full_limit_is_back_pressure_and_wakes_one_waiter_once() {
    let (gate, upstream) = (gate(), Upstream::default());
    let (mut first, mut second) = (gated(&gate, &upstream), gated(&gate, &upstream));
    let held = gate.try_acquire(call()).expect("free");
    let (one, two): (Arc<Wakes>, Arc<Wakes>) = Default::default();
    assert!(look(&mut first, &one).is_none() && look(&mut second, &two).is_none());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((one.count(), two.count()), (0, 0), "nothing polls");
    drop(held);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((one.count(), two.count()), (1, 0));
    assert!(look(&mut first, &one).expect("granted").is_ok());
    assert!(look(&mut second, &two).is_none());
}

#[tokio::test(start_paused = true)]
async fn calls_of_many_clones_follow_each_other() {
    let (gate, upstream) = (gate(), Upstream::default());
    let service = gated(&gate, &upstream);
    let start = Instant::now();
    let calls: Vec<_> = (0..8).map(|_| tokio::spawn(service.clone().oneshot(ANSWER))).collect();
    for call in calls {
        call.await.expect("no panic").expect("answered");
    }
    assert_eq!((start.elapsed(), used(&gate)), (8 * LATENCY, (0, 32)));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_to_the_call_and_the_service_goes_on() {
    let (gate, upstream) = (gate(), Upstream::default());
    let held = gate.try_acquire(call()).expect("free");
    let layer = GateLayer::new(gate.clone(), call().timeout(Duration::from_secs(5)));
    let mut service = layer.outcome(|_: &_| Outcome::done()).layer(upstream.clone());
    let start = Instant::now();
    let answer = service.ready().await.expect("ready to say no").call(ANSWER);
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    let error = answer.await.expect_err("refused");
    let refused: &Refused = error.downcast_ref().expect("typed");
    assert_eq!((refused.reason(), refused.limit()), (&Reason::Timeout, Some("api/concurrency")));
    assert_eq!(upstream.called(), 0);
    drop(held);
    service.ready().await.expect("free").call(ANSWER).await.expect("answered");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_does_not_outlive_its_cause() {
    let (gate, upstream) = (gate(), Upstream::default());
    let held = gate.try_acquire(call()).expect("free");
    let layer = GateLayer::new(gate.clone(), call().timeout(Duration::ZERO));
    let mut service = layer.outcome(|_: &_| Outcome::done()).layer(upstream.clone());
    service.ready().await.expect("ready to say no");
    drop(held);
    service.call(ANSWER).await.expect("there is room by now");
}

#[tokio::test(start_paused = true)]
async fn a_buffer_survives_refusals() {
    let (gate, upstream) = (gate(), Upstream::default());
    let held = gate.try_acquire(call()).expect("free");
    let layer = GateLayer::new(gate.clone(), call().timeout(Duration::from_secs(5)));
    let mut buffer = Buffer::new(layer.outcome(|_: &_| Outcome::done()).layer(upstream.clone()), 4);
    let error = buffer.ready().await.expect("open").call(ANSWER).await.expect_err("refused");
    assert!(error.is::<Refused>(), "{error}");
    drop(held);
    buffer.ready().await.expect("still open").call(ANSWER).await.expect("answered");
}

#[tokio::test(start_paused = true)]
async fn an_error_frees_the_slot_and_keeps_the_cost() {
    let (gate, upstream) = (gate(), Upstream::default());
    let mut service = gated(&gate, &upstream);
    let error = service.ready().await.expect("free").call(Ask::Fail).await.expect_err("failed");
    assert_eq!((error.downcast_ref(), used(&gate)), (Some(&Failed), (0, 10)));
}

#[tokio::test(start_paused = true)]
async fn a_panic_frees_the_slot_and_keeps_the_cost() {
    let (gate, upstream) = (gate(), Upstream::default());
    let mut service = gated(&gate, &upstream);
    let later = service.ready().await.expect("free").call(Ask::PanicLater);
    assert!(tokio::spawn(later).await.expect_err("panicked").is_panic());
    assert_eq!(used(&gate), (0, 10));
    service.ready().await.expect("free");
    assert!(catch_unwind(AssertUnwindSafe(|| drop(service.call(Ask::PanicAtOnce)))).is_err());
    assert_eq!(used(&gate), (0, 20));
    service.ready().await.expect("free").call(ANSWER).await.expect("answered");
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_the_outcome_is_read_frees_the_slot_and_keeps_the_cost() {
    let (gate, upstream) = (gate(), Upstream::default());
    let layer = GateLayer::new(gate.clone(), call()).outcome(|_: &_| panic!("cannot read"));
    let answer = layer.layer(upstream.clone()).oneshot(ANSWER);
    assert!(tokio::spawn(answer).await.expect_err("panicked").is_panic());
    assert_eq!(used(&gate), (0, 10));
}

#[tokio::test(start_paused = true)]
#[should_panic = "called before `poll_ready` said that it is ready"]
async fn a_call_without_asking_first_is_a_mistake_in_the_program() {
    let (gate, upstream) = (gate(), Upstream::default());
    drop(gated(&gate, &upstream).call(ANSWER));
}

#[tokio::test(start_paused = true)]
async fn http_responses_need_no_closure() {
    let gate = gate();
    let web = service_fn(|request: Request<&'static str>| async move {
        Ok::<_, std::io::Error>(Response::new(request.into_body()))
    });
    let reply = GateLayer::new(gate.clone(), call()).layer(web).oneshot(Request::new("sea")).await;
    assert_eq!(reply.expect("answered").into_body(), "sea");
    assert_eq!(used(&gate), (0, 10));
}

#[tokio::test(start_paused = true)]
async fn a_429_costs_nothing_and_keeps_all_clones_away_for_as_long_as_it_says() {
    let gate = gate();
    let web = service_fn(|refuse: Request<bool>| async move {
        let reply = Response::builder().status(if refuse.into_body() { 429 } else { 200 });
        reply.header("retry-after", "20").body(())
    });
    let mut service = GateLayer::new(gate.clone(), call()).layer(web);
    let mut clone = service.clone();
    service.ready().await.expect("free").call(Request::new(true)).await.expect("answered");
    assert_eq!(used(&gate), (0, 0));
    let start = Instant::now();
    clone.ready().await.expect("in time").call(Request::new(false)).await.expect("answered");
    assert_eq!((start.elapsed(), used(&gate)), (Duration::from_secs(20), (0, 10)));
}
