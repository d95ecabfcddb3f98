//! Dropped after any number of polls, nothing leaks.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::tower::GateLayer;
use tidegate::{Call, Gate, Outcome};
use tower::{Layer, Service, ServiceExt};

use super::upstream::{Ask, LATENCY, Reply, Upstream};
use super::{Wakes, call, gate, gated, used};

/// What one call looks like to whoever drives it: it waits for a slot that comes free after a while, and then
/// for its reply.
type Driven = Pin<Box<dyn Future<Output = ()> + Send>>;

#[tokio::test(start_paused = true)]
async fn with_admission_ahead() {
    drop_at_every_poll(|gate, upstream| {
        let mut service = gated(gate, upstream);
        Box::pin(async move {
            service.ready().await.expect("ready").call(Ask::Answer { tokens: 4 }).await.expect("answered");
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn with_admission_by_request() {
    drop_at_every_poll(|gate, upstream| {
        let layer = GateLayer::for_requests(gate.clone(), |_: &Ask| call());
        let cost: fn(&Reply) -> Outcome = |reply| Outcome::done().tokens(reply.tokens);
        let service = layer.outcome(cost).layer(upstream.clone());
        Box::pin(async move {
            service.oneshot(Ask::Answer { tokens: 4 }).await.expect("answered");
        })
    })
    .await;
}

async fn drop_at_every_poll(drive: impl Fn(&Gate, &Upstream) -> Driven) {
    let step = LATENCY / 4;
    let mut spent = Vec::new();
    for polls in 0.. {
        let (gate, upstream) = (gate(), Upstream::default());
        let held = gate.try_acquire(Call::to("api")).expect("free");
        tokio::spawn(async move {
            tokio::time::sleep(step * 3).await;
            drop(held);
        });
        let mut driven = drive(&gate, &upstream);
        let mut done = false;
        for _ in 0..polls {
            done = poll(&mut driven);
            if done {
                break;
            }
            tokio::time::advance(step).await;
            tokio::task::yield_now().await;
        }
        drop(driven);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (in_flight, tokens) = used(&gate);
        assert_eq!((in_flight, gate.waiting()), (0, 0), "after {polls} polls");
        assert_eq!(tokens > 0, upstream.called() > 0, "what never left costs nothing: {polls} polls");
        spent.push(tokens);
        if done {
            break;
        }
    }
    assert!(spent.contains(&0) && spent.contains(&10), "dropped before and after it left: {spent:?}");
    assert_eq!(spent.last(), Some(&4), "and not at all");
}

fn poll(driven: &mut Driven) -> bool {
    let waker = Waker::from(Arc::new(Wakes::default()));
    matches!(driven.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(()))
}
