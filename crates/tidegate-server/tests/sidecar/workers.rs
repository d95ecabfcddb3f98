//! Several threads that serve, and the connections to upstreams that they share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{open, post};
use super::script::Script;
use super::*;

const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nsea";

async fn with_workers(count: usize, upstream: &str, keys: &str) -> Server {
    started(builder(upstream, keys).workers(count.try_into().expect("some"))).await
}

/// An upstream that answers all requests of a connection, and how many connections it has had.
async fn counting() -> (Script, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    let upstream = Script::plays(move |mut stage| {
        count.fetch_add(1, Ordering::Relaxed);
        async move {
            stage.say(ANSWER).await;
            while stage.again().await.is_some() {
                stage.say(ANSWER).await;
            }
        }
    });
    (upstream.await, connections)
}

/// A call on a connection that stays open.
async fn call(connection: &mut TcpStream) -> String {
    let request = b"GET /api/x HTTP/1.1\r\nhost: localhost\r\n\r\n";
    connection.write_all(request).await.expect("sent");
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\nsea") {
        assert!(connection.read_buf(&mut said).await.expect("an answer") > 0, "{said:?}");
    }
    String::from_utf8(said).expect("text")
}

#[tokio::test]
async fn all_threads_spend_from_one_quota() {
    let upstream = upstream(&[]).await;
    let limit = "requests = { limit = \"20/s\", algorithm = \"token-bucket\" }";
    let server = Arc::new(with_workers(3, &upstream.url(), limit).await);
    let start = std::time::Instant::now();
    let calls = (0..45).map(|_| {
        let server = server.clone();
        tokio::spawn(async move { post(&server, "/api/v1/chat/completions", CHAT).await.status })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.expect("answered"), 200);
    }
    // A burst of 20, and 25 that come one by one.
    assert!(start.elapsed() >= Duration::from_millis(1_200), "{:?}", start.elapsed());
    holds_nothing(&server).await;
}

#[tokio::test]
async fn a_connection_to_an_upstream_is_for_all_threads() {
    let (upstream, connections) = counting().await;
    let server = with_workers(2, &upstream.url(), "").await;
    // The second goes to the other thread, since the first has one.
    let mut one = TcpStream::connect(server.address()).await.expect("it listens");
    call(&mut one).await;
    let mut other = TcpStream::connect(server.address()).await.expect("it listens");
    for _ in 0..3 {
        call(&mut other).await;
        call(&mut one).await;
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);
    holds_nothing(&server).await;
}

#[tokio::test]
async fn a_connection_to_an_upstream_that_nobody_uses_is_closed() {
    let gone = Arc::new(tokio::sync::Notify::new());
    let told = gone.clone();
    let upstream = Script::plays(move |mut stage| {
        let told = told.clone();
        async move {
            stage.say(ANSWER).await;
            stage.until_gone().await;
            told.notify_one();
        }
    })
    .await;
    let server = impatient(&upstream.url(), "").await;
    assert_eq!(post(&server, "/api/x", "").await.text(), "sea");
    tokio::time::timeout(Duration::from_secs(30), gone.notified()).await.expect("closed");
}

#[tokio::test]
async fn whoever_goes_away_and_whoever_is_cut_off_leaves_nothing_on_any_thread() {
    let upstream = Script::plays(|mut stage| async move {
        stage.say("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n").await;
        stage.until_gone().await;
    })
    .await;
    let server = with_workers(3, &upstream.url(), "").await;
    let mut streams = Vec::new();
    for _ in 0..6 {
        let mut stream = open(&server, "GET", "/api/x", &[], "").await.expect("a head");
        assert_eq!(stream.next().await, Some("data: 1\n\n".into()));
        streams.push(stream);
    }
    assert_eq!(limit(&server, "api/concurrency").await["used"], 6);
    streams.drain(..3).for_each(client::Open::hang_up);
    until(|| async { limit(&server, "api/concurrency").await["used"] == 3 }).await;
    let gate = server.gate().clone();
    let stopped = tokio::time::timeout(Duration::from_secs(10), server.stop(Duration::from_millis(100)));
    stopped.await.expect("stopped");
    assert_eq!(gate.limit("api/concurrency").expect("known").used, 0);
}
