//! Clients that go away: in the queue, at the upstream, in the middle of a reply.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::client::{get, open, post};
use super::script::Script;
use super::*;

/// An upstream that says something and then waits for its caller to go; and how many have gone.
async fn waits_after(words: &'static str) -> (Script, Arc<AtomicUsize>) {
    let gone = Arc::new(AtomicUsize::new(0));
    let count = gone.clone();
    let script = Script::plays(move |mut stage| {
        let count = count.clone();
        async move {
            stage.say(words).await;
            stage.until_gone().await;
            count.fetch_add(1, Ordering::SeqCst);
        }
    })
    .await;
    (script, gone)
}

#[tokio::test]
async fn a_client_that_leaves_the_queue_leaves_nothing_behind() {
    let (upstream, _) = waits_after("").await;
    let server =
        sidecar(&upstream.url(), "requests = { limit = \"1/h\", burst = 1 }\nqueue = { timeout = \"2h\" }")
            .await;
    let (address, first) = (server.address(), tokio::spawn(hanging(server.address())));
    until(|| async { status(&server).await["calls"] == 1 }).await;
    let second = tokio::spawn(hanging(address));
    until(|| async { status(&server).await["waiting"] == 1 }).await;
    second.abort();
    until(|| async { status(&server).await["waiting"] == 0 }).await;
    first.abort();
    holds_nothing(&server).await;
    assert_eq!(upstream.requests().len(), 1);
}

/// Asks, and holds the connection until it is dropped.
async fn hanging(address: std::net::SocketAddr) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
    stream.write_all(b"GET /api/x HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
    stream.read_to_end(&mut Vec::new()).await.ok();
}

#[tokio::test]
async fn a_client_that_goes_ends_its_call_at_the_upstream() {
    let (upstream, gone) = waits_after("").await;
    let server = sidecar(&upstream.url(), "").await;
    let call = tokio::spawn(hanging(server.address()));
    until(|| async { upstream.requests().len() == 1 }).await;
    call.abort();
    until(|| async { gone.load(Ordering::SeqCst) == 1 }).await;
    holds_nothing(&server).await;
}

/// Connecting takes up to ten seconds. A client that goes meanwhile has sent nothing, so nothing is charged.
#[tokio::test]
async fn a_client_that_goes_while_the_upstream_is_connected_to_costs_nothing() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let upstream = format!("https://{}", silent.local_addr().expect("bound"));
    let keys = "requests = { limit = \"5/h\", burst = 5 }\ntokens = { limit = \"1000/h\", burst = 1000 }";
    let server = sidecar(&upstream, keys).await;
    let call = tokio::spawn(hanging(server.address()));
    // The TLS handshake has begun, and never ends.
    let _connecting = silent.accept().await.expect("a connection");
    assert_eq!(limit(&server, "api/requests/1h").await["used"], 1);
    call.abort();
    holds_nothing(&server).await;
    assert_eq!(limit(&server, "api/requests/1h").await["used"], 0, "it was not sent");
}

#[tokio::test]
async fn a_client_that_goes_in_the_middle_of_a_stream_settles_it() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n";
    let (upstream, gone) = waits_after(head).await;
    let server = sidecar(&upstream.url(), "tokens = { limit = \"1000/h\", burst = 1000 }").await;
    let mut stream = open(&server, "POST", "/api/x", &[], STREAM).await.expect("a head");
    assert_eq!(stream.next().await, Some("data: 1\n\n".into()));
    stream.hang_up();
    until(|| async { gone.load(Ordering::SeqCst) == 1 }).await;
    assert_eq!(limit(&server, "api/tokens/1h").await["used"], 12, "what was reserved stays spent");
    holds_nothing(&server).await;
}

#[tokio::test]
async fn a_client_that_takes_nothing_of_its_reply_is_cut_off() {
    let upstream = Script::plays(|mut stage| async move {
        stage.say("HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n").await;
        let block = "x".repeat(1 << 20);
        loop {
            use tokio::io::AsyncWriteExt;
            if stage.stream.write_all(block.as_bytes()).await.is_err() {
                return;
            }
        }
    })
    .await;
    let server = impatient(&upstream.url(), "").await;
    // Reads its head and nothing more.
    let _stuck = open(&server, "GET", "/api/x", &[], "").await.expect("a head");
    assert_eq!(get(&server, "/healthz").await.status, 200, "nobody else is harmed");
    holds_nothing(&server).await;
    assert_eq!(post(&server, "/nobody/x", "").await.status, 404);
}
