//! Admission in `call`, by what the request is.

use http::{Request, Response};
use tidegate::tower::{GateLayer, GatedPerRequest};
use tidegate::{Call, Gate, Outcome, Priority, Reason, Refused};
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt, service_fn};

use super::upstream::{Ask, LATENCY, Readiness, Reply, Upstream};
use super::{gate, is_ready, used};

type Cost = fn(&Ask) -> Call;

/// A service of which every request reserves the tokens that it asks for; those for none are urgent.
fn gated(gate: &Gate, upstream: &Upstream) -> GatedPerRequest<Upstream, Cost, fn(&Reply) -> Outcome> {
    let call: Cost = |ask| match ask {
        Ask::Answer { tokens: 0 } => Call::to("api").priority(Priority::High),
        Ask::Answer { tokens } => Call::to("api").tokens(*tokens),
        Ask::Fail | Ask::PanicAtOnce | Ask::PanicLater => Call::to("api").tokens(10),
    };
    let cost: fn(&Reply) -> Outcome = |reply| Outcome::done().tokens(reply.tokens / 2);
    GateLayer::for_requests(gate.clone(), call).outcome(cost).layer(upstream.clone())
}

#[tokio::test(start_paused = true)]
async fn each_request_costs_its_own() {
    let (gate, upstream) = (gate(), Upstream::default());
    let mut service = gated(&gate, &upstream);
    for (tokens, spent) in [(20, 10), (60, 40)] {
        service.ready().await.expect("free").call(Ask::Answer { tokens }).await.expect("answered");
        assert_eq!(used(&gate), (0, spent));
    }
    let error = service.ready().await.expect("free").call(Ask::Answer { tokens: 101 }).await;
    let error = error.expect_err("more than the limit");
    let refused: &Refused = error.downcast_ref().expect("typed");
    assert_eq!(refused.reason(), &Reason::TooLarge { cost: 101, capacity: 100 });
    assert_eq!(upstream.called(), 2);
}

#[tokio::test(start_paused = true)]
async fn all_are_let_in_and_go_by_rank() {
    let (gate, upstream) = (gate(), Upstream::default());
    let mut service = gated(&gate, &upstream);
    let start = Instant::now();
    let mut tasks = Vec::new();
    for tokens in [2, 4, 6, 0] {
        assert!(is_ready(&mut service).expect("it lets all in").is_ok());
        let answer = service.call(Ask::Answer { tokens });
        tasks.push(tokio::spawn(async move { answer.await.map(|_| start.elapsed()) }));
        // The first one has the slot before the others come.
        tokio::task::yield_now().await;
    }
    let mut took = Vec::new();
    for task in tasks {
        took.push(task.await.expect("no panic").expect("answered"));
    }
    assert_eq!(took, [LATENCY, 3 * LATENCY, 4 * LATENCY, 2 * LATENCY]);
}

#[tokio::test(start_paused = true)]
async fn an_inner_service_that_is_busy_or_broken_says_so() {
    let (gate, upstream) = (gate(), Upstream::default());
    let mut service = gated(&gate, &upstream);
    upstream.set(Readiness::Busy);
    assert!(is_ready(&mut service).is_none());
    upstream.set(Readiness::Broken);
    assert!(is_ready(&mut service).expect("broken").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_request_dropped_in_the_queue_makes_way() {
    let (gate, upstream) = (gate(), Upstream::default());
    let mut service = gated(&gate, &upstream);
    let running = tokio::spawn(service.ready().await.expect("free").call(Ask::Answer { tokens: 10 }));
    tokio::task::yield_now().await;
    let queued = tokio::spawn(service.ready().await.expect("ready").call(Ask::Answer { tokens: 10 }));
    while gate.waiting() < 1 {
        tokio::task::yield_now().await;
    }
    queued.abort();
    assert!(queued.await.expect_err("aborted").is_cancelled());
    assert_eq!(gate.waiting(), 0);
    running.await.expect("no panic").expect("answered");
    assert_eq!((upstream.called(), used(&gate)), (1, (0, 5)));
}

#[tokio::test(start_paused = true)]
async fn errors_and_panics_free_the_slot_and_keep_the_cost() {
    let (gate, upstream) = (gate(), Upstream::default());
    let mut service = gated(&gate, &upstream);
    for (asks, spent) in [(Ask::Fail, 10), (Ask::PanicAtOnce, 20), (Ask::PanicLater, 30)] {
        let answer = service.ready().await.expect("ready").call(asks);
        let failed = tokio::spawn(answer).await;
        assert!(failed.is_err() || failed.is_ok_and(|result| result.is_err()));
        assert_eq!(used(&gate), (0, spent), "{asks:?}");
    }
    let start = Instant::now();
    service.ready().await.expect("ready").call(Ask::Answer { tokens: 10 }).await.expect("answered");
    assert_eq!(start.elapsed(), LATENCY);
}

#[tokio::test(start_paused = true)]
async fn a_429_keeps_only_calls_for_the_same_model_away() {
    let gate = gate();
    let web = service_fn(|request: Request<&'static str>| async move {
        let refused = request.into_body() == "large";
        Response::builder().status(if refused { 429 } else { 200 }).header("retry-after", "20").body(())
    });
    let call = |request: &Request<&'static str>| Call::to("api").model(request.body());
    let service = GateLayer::for_requests(gate.clone(), call).layer(web);
    let start = Instant::now();
    for (model, waited) in [("large", 0), ("small", 0), ("large", 20)] {
        service.clone().oneshot(Request::new(model)).await.expect("answered");
        assert_eq!(start.elapsed().as_secs(), waited, "{model}");
    }
}
