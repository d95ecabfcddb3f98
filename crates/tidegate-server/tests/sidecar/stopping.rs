//! The end of a sidecar, and another config while it runs.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use super::client::{open, post, post_http2_at};
use super::script::Script;
use super::*;

const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n";

#[tokio::test]
async fn what_is_under_way_ends_and_nothing_new_begins() {
    let go_on = Arc::new(Notify::new());
    let told = go_on.clone();
    let upstream = Script::plays(move |mut stage| {
        let told = told.clone();
        async move {
            stage.say(EVENTS).await;
            told.notified().await;
            stage.say("data: 2\n\n").await;
        }
    })
    .await;
    let server = sidecar(&upstream.url(), "").await;
    let address = server.address();
    let mut stream = open(&server, "GET", "/api/x", &[], "").await.expect("a head");
    assert_eq!(stream.next().await, Some("data: 1\n\n".into()));
    let stopping = tokio::spawn(server.stop(Duration::from_secs(30)));
    until(|| async { tokio::net::TcpStream::connect(address).await.is_err() }).await;
    go_on.notify_one();
    assert_eq!(stream.next().await, Some("data: 2\n\n".into()));
    assert_eq!(stream.next().await, None);
    stopping.await.expect("stopped");
}

#[tokio::test]
async fn what_takes_too_long_is_cut_off() {
    let upstream = Script::plays(|mut stage| async move {
        stage.say(EVENTS).await;
        stage.until_gone().await;
    })
    .await;
    let server = sidecar(&upstream.url(), "").await;
    let mut stream = open(&server, "GET", "/api/x", &[], "").await.expect("a head");
    assert_eq!(stream.next().await, Some("data: 1\n\n".into()));
    let gate = server.gate().clone();
    tokio::time::timeout(Duration::from_secs(10), server.stop(Duration::from_millis(100)))
        .await
        .expect("stopped");
    assert_eq!(gate.limit("api/concurrency").expect("known").used, 0);
}

#[tokio::test]
async fn a_call_that_is_open_when_patience_is_over_gets_a_503_in_the_vendors_words() {
    let upstream = Script::plays(|mut stage| async move { stage.until_gone().await }).await;
    // The first call waits for the upstream, the second in the queue.
    let keys = "profile = \"openai\"\nrequests = { limit = \"1/min\", burst = 1 }";
    let server = sidecar(&upstream.url(), keys).await;
    let gate = server.gate().clone();
    let address = server.address();
    let mut open = Vec::new();
    for (path, body) in [("/api/x", "{}"), ("/api/x", "{}"), ("/v1/acquire", r#"{"service": "api"}"#)] {
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
        let length = body.len();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(head.as_bytes()).await.expect("sent");
        open.push(stream);
    }
    let http2 = tokio::spawn(post_http2_at(address, "/api/x", "{}"));
    until(|| async { status(&server).await["calls"] == 4 }).await;
    let stopping = tokio::spawn(server.stop(Duration::from_millis(50)));
    for (number, mut stream) in open.into_iter().enumerate() {
        let mut said = String::new();
        stream.read_to_string(&mut said).await.expect("an answer and an end");
        let (head, body) =
            said.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{number}: cut off: {said:?}"));
        assert!(head.starts_with("HTTP/1.1 503") && head.contains("x-should-retry: false"), "{head}");
        let told: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(told["error"]["code"], "stopping");
        let kind = if number < 2 { "server_error".into() } else { Value::Null };
        assert_eq!(told["error"]["type"], kind, "in the words of its vendor");
    }
    let reply = http2.await.expect("an answer over HTTP/2");
    assert_eq!((reply.status.as_u16(), reply.json()["error"]["code"].as_str()), (503, Some("stopping")));
    stopping.await.expect("stopped");
    let used = |name| gate.limit(name).expect("known").used;
    assert_eq!(
        (used("api/concurrency"), used("api/requests/1m")),
        (0, 1),
        "what was sent is kept, and no more"
    );
}

/// Half a head, a preface alone and half a body of an own route are no calls: none of them holds the stop up.
#[tokio::test]
async fn connections_without_a_call_are_closed_at_once() {
    const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    // An empty SETTINGS frame. The peer then answers neither the server's settings nor its ping.
    let settled = format!("{PREFACE}\0\0\0\x04\0\0\0\0\0");
    let upstream = Script::plays(|mut stage| async move { stage.until_gone().await }).await;
    let server = sidecar(&upstream.url(), "").await;
    let address = server.address();
    let begin = async |text: &str| {
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
        stream.write_all(text.as_bytes()).await.expect("sent");
        stream
    };
    let mut call = begin("GET /api/x HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let mut others = Vec::new();
    for text in ["", "G", "GET /api/x HTTP/1.1\r\nhost: loc", PREFACE, &settled] {
        others.push(begin(text).await);
    }
    let mut own = Vec::new();
    for route in ["PUT /v1/limits/x", "POST /v1/acquire"] {
        let head = format!("{route} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 20\r\n\r\n{{");
        own.push(begin(&head).await);
    }
    until(|| async { status(&server).await["connections"].as_u64() >= Some(9) }).await;
    assert_eq!(status(&server).await["calls"], 1);
    let (began, hurry) = (std::time::Instant::now(), Arc::new(Notify::new()));
    let hurried = hurry.clone();
    let stopping = server.stop_unless(Duration::from_secs(3_600), async move { hurried.notified().await });
    let stopping = tokio::spawn(stopping);
    let mut rest = Vec::new();
    for mut stream in others {
        // Closed or reset: what was sent was not read to its end.
        let end = stream.read_to_end(&mut rest);
        tokio::time::timeout(Duration::from_secs(10), end).await.expect("an end").ok();
    }
    for mut stream in own {
        let mut said = String::new();
        let answer = stream.read_to_string(&mut said);
        tokio::time::timeout(Duration::from_secs(10), answer).await.expect("an end").expect("an answer");
        assert!(said.starts_with("HTTP/1.1 503") && said.contains("stopping"), "{said}");
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    // The call goes on.
    assert!(tokio::time::timeout(Duration::from_millis(100), call.read_u8()).await.is_err());
    hurry.notify_one();
    let mut said = String::new();
    call.read_to_string(&mut said).await.expect("an answer and an end");
    assert!(said.starts_with("HTTP/1.1 503"), "{said}");
    stopping.await.expect("stopped");
}

#[tokio::test]
async fn patience_is_over_at_once_when_it_is_hurried() {
    let upstream = Script::plays(|mut stage| async move { stage.until_gone().await }).await;
    let server = sidecar(&upstream.url(), "").await;
    let mut stream = tokio::net::TcpStream::connect(server.address()).await.expect("it listens");
    stream.write_all(b"GET /api/x HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
    until(|| async { status(&server).await["calls"] == 1 }).await;
    let stopping = server.stop_unless(Duration::from_secs(3_600), std::future::ready(()));
    tokio::time::timeout(Duration::from_secs(30), stopping).await.expect("stopped");
    let mut said = String::new();
    stream.read_to_string(&mut said).await.expect("an answer and an end");
    assert!(said.starts_with("HTTP/1.1 503"), "{said}");
}

#[tokio::test]
async fn another_config_comes_into_force_and_a_bad_one_does_not() {
    let upstream = upstream(&[]).await;
    let server = sidecar(&upstream.url(), "requests = \"60/min\"").await;
    post(&server, "/api/x", "").await;
    let other = format!(
        "[services.api]\nupstream = \"{}\"\nrequests = \"90/min\"\n[services.more]\n",
        upstream.url()
    );
    server.reconfigure(Config::parse(&other).expect("valid")).expect("in force");
    let changed = limit(&server, "api/requests/1m").await;
    assert_eq!((changed["capacity"].as_u64(), changed["used"].as_u64()), (Some(90), Some(1)));
    let bad = "[services.api]\nupstream = \"http://me:secret@127.0.0.1\"\n";
    assert!(server.reconfigure(Config::parse(bad).expect("well written")).is_err());
    assert_eq!(limit(&server, "api/requests/1m").await["capacity"], 90);
    assert_eq!(post(&server, "/more/x", "").await.json()["error"]["code"], "no_upstream");
}
