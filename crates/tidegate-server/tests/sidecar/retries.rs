//! What is sent again, and what is not.

use super::client::{post, send};
use super::script::{Script, reply};
use super::*;

fn refused(wait: &str) -> String {
    reply(
        "429 Too Many Requests",
        &format!("retry-after-ms: {wait}\r\n"),
        "{\"error\":{\"message\":\"slow\"}}",
    )
}

/// Says the first to so many requests, and then that all is well.
async fn at_first(times: usize, words: String) -> Script {
    Script::plays(move |mut stage| {
        let words = if stage.number < times { words.clone() } else { reply("200 OK", "", "well") };
        async move { stage.say(&words).await }
    })
    .await
}

#[tokio::test]
async fn a_429_is_tried_again_with_the_same_body_more_often_than_anything_else() {
    let upstream = at_first(6, refused("60")).await;
    let server = sidecar(&upstream.url(), "").await;
    let reply = post(&server, "/api/x", "the same body").await;
    assert_eq!((reply.text(), number(&reply, "x-tidegate-attempts")), ("well".into(), 7));
    assert!(number(&reply, "x-tidegate-waited-ms") >= 6 * 60);
    let requests = upstream.requests();
    assert!(requests.iter().all(|request| request.ends_with("\r\n\r\nthe same body")), "{requests:?}");
    holds_nothing(&server).await;
}

#[tokio::test]
async fn no_429_reaches_a_client_of_a_limit_that_only_the_upstream_knows() {
    let upstream = upstream(&[a_second(20)]).await;
    let server = sidecar(&upstream.url(), "").await;
    let calls: Vec<_> = (0..60).map(|_| post(&server, "/api/v1/chat/completions", CHAT)).collect();
    for reply in futures(calls).await {
        assert_eq!(reply.status, 200);
    }
    let counts = upstream.counts().upstream.us;
    assert_eq!(counts.accepted, 60);
    holds_nothing(&server).await;
}

async fn futures<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    use std::pin::Pin;
    use std::task::Poll;
    let mut waiting: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = waiting.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in waiting.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                *done = Some(output);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

#[tokio::test]
async fn time_bounds_how_often_and_the_upstreams_last_word_is_passed_on() {
    let upstream = at_first(usize::MAX, refused("100")).await;
    let server = sidecar(&upstream.url(), "queue = { timeout = \"350ms\" }").await;
    let reply = post(&server, "/api/x", "").await;
    assert_eq!((reply.status.as_u16(), reply.json()["error"]["message"].as_str()), (429, Some("slow")));
    assert_eq!(reply.header("x-should-retry"), Some("false"), "an SDK is not to go on where we stopped");
    let attempts = number(&reply, "x-tidegate-attempts");
    assert!((2..=4).contains(&attempts), "{attempts}");
    assert_eq!(upstream.requests().len() as u64, attempts);
    holds_nothing(&server).await;
}

#[tokio::test]
async fn an_error_is_tried_again_only_where_that_does_no_harm() {
    let keys = "preset = \"openai\"\nretry = { initial = \"1ms\", max = \"1ms\" }";
    let failing = || at_first(1, reply("502 Bad Gateway", "", "ill"));
    for (method, path, headers, attempts) in [
        ("GET", "/api/v1/models", &[][..], 2),
        ("POST", "/api/v1/chat/completions", &[], 2),
        ("POST", "/api/v1/files", &[], 1),
        ("POST", "/api/v1/files", &[("idempotency-key", "1")], 2),
    ] {
        let upstream = failing().await;
        let server = sidecar(&upstream.url(), keys).await;
        let reply = send(&server, method, path, headers, "").await.expect("an answer");
        assert_eq!(number(&reply, "x-tidegate-attempts"), attempts, "{method} {path}");
        assert_eq!(reply.text(), if attempts == 1 { "ill" } else { "well" });
        holds_nothing(&server).await;
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_to_be_kept_is_sent_once() {
    let upstream = at_first(1, refused("10")).await;
    let server = sidecar(&upstream.url(), "").await;
    let body = "x".repeat((8 << 20) + 1);
    let reply = post(&server, "/api/x", body.clone()).await;
    assert_eq!((reply.status.as_u16(), number(&reply, "x-tidegate-attempts")), (429, 1));
    assert_eq!(upstream.requests()[0].split_once("\r\n\r\n").expect("a body").1.len(), body.len());
    let reply = post(&server, "/api/x", body).await;
    assert_eq!(reply.text(), "well");
    holds_nothing(&server).await;
}

/// A body that is too large to be kept is sent once. The SDK has the body, and may retry.
#[tokio::test]
async fn a_refusal_that_was_not_retried_here_may_be_retried_by_the_client() {
    let upstream = Script::says(refused("60")).await;
    let server = sidecar(&upstream.url(), "").await;
    let reply = post(&server, "/api/x", vec![b'x'; (8 << 20) + 1]).await;
    assert_eq!((reply.status.as_u16(), reply.header("x-should-retry")), (429, None));
    assert_eq!((number(&reply, "x-tidegate-attempts"), upstream.requests().len()), (1, 1));
    holds_nothing(&server).await;

    let timeout = [("x-tidegate-timeout", "1s")];
    let reply = send(&server, "POST", "/api/x", &timeout, "small").await.expect("an answer");
    let attempts = number(&reply, "x-tidegate-attempts");
    assert_eq!((reply.status.as_u16(), reply.header("x-should-retry")), (429, Some("false")));
    assert!(attempts > 1, "retries were made and spent: {attempts}");
    holds_nothing(&server).await;
}

/// A port at which connections are refused until it is listened on.
fn deaf() -> tokio::net::TcpSocket {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    socket
}

/// Nothing of the body is read before there is a connection, so a connection that fails does not use it up.
#[tokio::test]
async fn a_body_that_is_too_large_to_be_kept_outlives_refused_connections() {
    let port = deaf();
    let upstream = format!("http://{}", port.local_addr().expect("bound"));
    let server = sidecar(&upstream, "retry = { initial = \"200ms\", max = \"200ms\" }").await;
    let body = vec![b'x'; (8 << 20) + 1];
    let (reply, upstream) = tokio::join!(post(&server, "/api/x", body.clone()), async {
        until(|| async { status(&server).await["services"]["api"]["granted"].as_u64() >= Some(2) }).await;
        let words = reply("200 OK", "", "well");
        Script::plays_on(port.listen(8).expect("it listens"), move |mut stage| {
            let words = words.clone();
            async move { stage.say(&words).await }
        })
    });
    assert_eq!(reply.text(), "well");
    assert!(number(&reply, "x-tidegate-attempts") >= 3, "{reply:?}");
    let requests = upstream.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].split_once("\r\n\r\n").expect("a body").1.len(), body.len());
    holds_nothing(&server).await;
}

/// The header stands where the sidecar's own retries were spent, and only there.
#[tokio::test]
async fn a_body_that_was_sent_and_not_kept_leaves_the_retry_to_the_client() {
    let large = || vec![b'x'; (8 << 20) + 1];
    let port = deaf();
    let upstream = format!("http://{}", port.local_addr().expect("bound"));
    let server = sidecar(&upstream, "retry = { max_retries = 2, initial = \"10ms\" }").await;
    let reply = post(&server, "/api/x", large()).await;
    assert_eq!((reply.status.as_u16(), reply.header("x-should-retry")), (502, Some("false")));
    assert_eq!(number(&reply, "x-tidegate-attempts"), 3);
    holds_nothing(&server).await;

    let upstream = Script::plays(|stage| async move { stage.reset() }).await;
    let server = sidecar(&upstream.url(), "").await;
    let headers = [("idempotency-key", "1")];
    let reply = send(&server, "POST", "/api/x", &headers, large()).await.expect("an answer");
    assert_eq!((reply.status.as_u16(), reply.header("x-should-retry")), (502, None));
    assert_eq!((number(&reply, "x-tidegate-attempts"), upstream.requests().len()), (1, 1));
    holds_nothing(&server).await;
}
