//! Clients that are slow, that talk nonsense, and that go away.

use serde_json::json;
use tidegate_sim::Spread;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{get, post, send};
use super::*;

async fn connect_and_say(server: &LimitedServer, words: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(words).await.unwrap();
    stream
}

/// All that the server says until it closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    // A reset is a way of closing too.
    let _ = stream.read_to_end(&mut said).await;
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test]
async fn nonsense_is_answered_or_hung_up_on_and_reaches_no_limit() {
    let server = started(&UpstreamSpec::default()).await;
    for nonsense in [
        &b"\0\xff\xfe nothing like a request\r\n\r\n"[..],
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\ncontent-length: minus one\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ] {
        rest(connect_and_say(&server, nonsense).await).await;
    }
    for path in ["/v1/chat/completions", "/v1/messages", "/v1/embeddings"] {
        let reply = send(&server, "POST", path, &[], "{\"messages\": ").await.unwrap();
        assert_eq!(reply.status, 400);
        assert!(reply.json()["error"]["message"].as_str().unwrap().contains("not JSON"));
    }
    assert_eq!(server.counts().malformed, 3);
    assert_eq!(server.counts().upstream.us.received, 0);
    assert_eq!(get(&server, "/").await.status, 200);
}

#[tokio::test]
async fn odd_values_in_a_request_are_borne() {
    let server = started(&styled(HeaderStyle::OpenAi, &[a_minute(Dimension::Tokens, 1_000)])).await;
    for body in [
        json!({ "model": 7, "messages": "abc", "max_tokens": -1, "stream": "yes" }),
        json!({ "messages": [[[[{ "content": { "content": null } }]]]], "max_tokens": 1e300 }),
        json!({ "messages": { "role": 1 }, "stream_options": [] }),
        json!({}),
    ] {
        assert_eq!(post(&server, "/v1/chat/completions", &body).await.status, 200, "{body}");
    }
    let most = json!({ "max_tokens": u64::MAX });
    assert_eq!(post(&server, "/v1/chat/completions", &most).await.status, 429);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let reply = send(&server, "POST", "/v1/messages", &[], deep).await.unwrap();
    assert_eq!(reply.status, 400);
}

#[tokio::test]
async fn a_body_without_end_is_cut_off() {
    let server = started(&UpstreamSpec::default()).await;
    let _ = send(&server, "POST", "/x", &[], vec![b'x'; 33 << 20]).await;
    until(|| server.counts().malformed == 1).await;
    assert_eq!(server.records()[0].status, Some(413));
    assert_eq!(get(&server, "/").await.status, 200);
}

#[tokio::test]
async fn slow_clients_are_not_waited_for_and_hinder_nobody() {
    let options = Options { patience: Duration::from_millis(300), ..Options::default() };
    let server = LimitedServer::start(&UpstreamSpec::default(), options).await.unwrap();
    let half_headers = connect_and_say(&server, b"POST /x HTTP/1.1\r\nhost: ").await;
    let half_body =
        connect_and_say(&server, b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc").await;
    assert_eq!(get(&server, "/").await.status, 200, "others are served meanwhile");
    rest(half_headers).await;
    assert!(rest(half_body).await.starts_with("HTTP/1.1 408"));
    let counts = server.counts();
    assert_eq!((counts.malformed, counts.upstream.us.received), (1, 1));
}

#[tokio::test]
async fn whoever_goes_away_gives_its_slot_back() {
    let minutes = Spread::span(Duration::from_secs(600));
    let server = started(&UpstreamSpec { latency: minutes, ..styled(HeaderStyle::None, &[slots(1)]) }).await;
    let whole = &b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..];
    let stream = b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 15\r\n\r\n{\"stream\":true}";
    for (round, request) in [whole, stream, whole].into_iter().enumerate() {
        let client = connect_and_say(&server, request).await;
        until(|| server.counts().running == 1).await;
        assert_eq!(get(&server, "/").await.status, 429);
        drop(client);
        until(|| server.counts().running == 0).await;
        let records = server.records();
        let record = &records[2 * round];
        assert!(!record.completed && record.ended.is_some() && record.status == Some(200));
    }
}

#[tokio::test]
async fn a_client_that_breaks_off_in_its_body_was_never_there() {
    let server = started(&UpstreamSpec::default()).await;
    drop(connect_and_say(&server, b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc").await);
    assert_eq!(get(&server, "/").await.status, 200);
    assert_eq!(server.records().len(), 1);
}

#[tokio::test]
async fn a_lost_reply_closes_the_connection_and_was_counted() {
    let spec = UpstreamSpec { lost: 1.0, ..styled(HeaderStyle::None, &[a_minute(Dimension::Requests, 2)]) };
    let server = started(&spec).await;
    for stream in [true, false] {
        let body = json!({ "stream": stream }).to_string();
        assert!(send(&server, "POST", "/v1/messages", &[], body).await.is_err());
    }
    assert_eq!(get(&server, "/").await.status, 429, "both were counted");
    let counts = server.counts();
    assert_eq!((counts.lost, counts.upstream.us.accepted, counts.running), (2, 2, 0));
    assert_eq!(server.records()[0].status, None);
}

#[tokio::test]
async fn a_server_that_is_dropped_stops() {
    let minutes = Spread::span(Duration::from_secs(600));
    let server = started(&UpstreamSpec { latency: minutes, ..UpstreamSpec::default() }).await;
    let address = server.address();
    let waiting = connect_and_say(&server, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    until(|| server.counts().running == 1).await;
    drop(server);
    assert_eq!(rest(waiting).await, "", "connections are closed");
    for _ in 0..500 {
        if TcpStream::connect(address).await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it still listens");
}
