//! Dropped after any number of polls, nothing leaks.

use std::future::Future;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::Call;

use super::upstream::Upstream;
use super::{CHAT, client, gate, used};

/// It waits for a slot, is refused, waits again, is answered, and its body is read.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_anywhere_leaks_nothing() {
    let step = Duration::from_millis(250);
    let mut spent = Vec::new();
    for polls in 0.. {
        let gate = gate();
        let upstream = Upstream::default()
            .then(429, &[("retry-after-ms", "500")], "")
            .json(r#"{"usage": {"total_tokens": 30}}"#);
        let held = gate.try_acquire(Call::to("api")).expect("free");
        tokio::spawn(async move {
            tokio::time::sleep(step * 2).await;
            drop(held);
        });
        let client = client(&gate, &upstream);
        let mut request = Box::pin(async move {
            let reply =
                client.post("http://api.example/v1/things").body(CHAT).send().await.expect("answered");
            reply.bytes().await.expect("a body")
        });
        let mut done = false;
        for _ in 0..polls {
            let mut context = Context::from_waker(Waker::noop());
            done = matches!(request.as_mut().poll(&mut context), Poll::Ready(_));
            if done {
                break;
            }
            tokio::time::advance(step).await;
            tokio::task::yield_now().await;
        }
        drop(request);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (in_flight, tokens) = used(&gate);
        assert_eq!((in_flight, gate.waiting()), (0, 0), "after {polls} polls");
        spent.push(tokens);
        if done {
            break;
        }
    }
    assert_eq!(spent.first(), Some(&0), "it never left");
    assert!(spent.len() > 6, "{spent:?}");
}
