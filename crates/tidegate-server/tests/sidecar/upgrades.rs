//! Connections that become something else: the permit is held as long as they live, and bytes go both ways.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::script::{Script, Stage, reply};
use super::*;

const WISH: &str = "GET /api/v1/realtime HTTP/1.1\r\nhost: localhost\r\nconnection: keep-alive, Upgrade\r\n\
    upgrade: websocket\r\nsec-websocket-key: x\r\n\r\n";
const AGREED: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-accept: y\r\n\r\nhello";

/// Agrees, and says everything again.
async fn echo(mut stage: Stage) {
    stage.say(AGREED).await;
    let (mut from, mut to) = stage.stream.split();
    tokio::io::copy(&mut from, &mut to).await.ok();
}

/// Says what it wants, and reads up to the end of these words.
async fn wish(server: &Server, words: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(server.address()).await.expect("it listens");
    stream.write_all(WISH.as_bytes()).await.expect("sent");
    let said = heard(&mut stream, words).await;
    (stream, said)
}

async fn heard(stream: &mut TcpStream, words: &str) -> String {
    let mut said = String::new();
    let read = async {
        while !said.ends_with(words) {
            let mut buffer = [0; 1024];
            let read = stream.read(&mut buffer).await.expect("bytes");
            assert!(read > 0, "it ended with {said:?}");
            said += &String::from_utf8_lossy(&buffer[..read]);
        }
    };
    tokio::time::timeout(Duration::from_secs(30), read).await.expect("in time");
    said
}

async fn in_flight(server: &Server) -> Value {
    limit(server, "api/concurrency").await["used"].clone()
}

/// Reads to the end, which must come.
async fn ends(mut stream: TcpStream) {
    let mut rest = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest)).await;
    end.expect("an end").ok();
}

#[tokio::test]
async fn bytes_go_both_ways_and_the_permit_lives_as_long_as_the_connection() {
    let upstream = Script::plays(echo).await;
    let server = sidecar(&upstream.url(), "requests = { limit = \"100/h\", burst = 100 }").await;
    let (mut stream, said) = wish(&server, "hello").await;
    let head = said.to_lowercase();
    for line in ["http/1.1 101", "upgrade: websocket", "connection: upgrade", "sec-websocket-accept: y"] {
        assert!(head.contains(line), "{line}: {said}");
    }
    let asked = upstream.requests()[0].to_lowercase();
    for line in ["get /v1/realtime", "upgrade: websocket", "connection: upgrade", "sec-websocket-key: x"] {
        assert!(asked.contains(line), "{line}: {asked}");
    }
    for words in ["ping", "pong"] {
        stream.write_all(words.as_bytes()).await.expect("sent");
        heard(&mut stream, words).await;
        assert_eq!(in_flight(&server).await, 1, "it is still there");
    }
    // It, and the one that asks; those that asked before are gone in a moment.
    until(|| async { status(&server).await["connections"] == 2 }).await;
    stream.shutdown().await.expect("no more to say");
    ends(stream).await;
    holds_nothing(&server).await;
    assert_eq!(limit(&server, "api/requests/1h").await["used"], 1, "one request, however much was said");
}

#[tokio::test]
async fn a_client_that_goes_away_frees_its_slot() {
    let upstream = Script::plays(echo).await;
    let server = sidecar(&upstream.url(), "").await;
    let (stream, _) = wish(&server, "hello").await;
    drop(stream);
    holds_nothing(&server).await;
}

#[tokio::test]
async fn what_is_refused_is_tried_again_or_passed_on() {
    let upstream = Script::plays(|mut stage| async move {
        match stage.number {
            0 => stage.say(&reply("429 Too Many Requests", "retry-after-ms: 1\r\n", "")).await,
            1 => echo(stage).await,
            _ => stage.say(&reply("403 Forbidden", "", "not you")).await,
        }
    })
    .await;
    let server = sidecar(&upstream.url(), "").await;
    let (stream, said) = wish(&server, "hello").await;
    assert!(said.contains("x-tidegate-attempts: 2"), "{said}");
    drop(stream);
    let (_, said) = wish(&server, "not you").await;
    assert!(said.starts_with("HTTP/1.1 403"), "{said}");
    holds_nothing(&server).await;
}

#[tokio::test]
async fn a_connection_on_which_nothing_is_said_is_closed() {
    let upstream = Script::plays(echo).await;
    let server = impatient(&upstream.url(), "").await;
    let (stream, _) = wish(&server, "hello").await;
    ends(stream).await;
    holds_nothing(&server).await;
}

#[tokio::test]
async fn an_agreement_that_nobody_asked_for_is_an_error_to_that_caller_only() {
    let upstream = Script::says(AGREED).await;
    let server = sidecar(&upstream.url(), "retry = { max_retries = 0 }").await;
    let reply = super::client::get(&server, "/api/x").await;
    assert_eq!(reply.status, 502);
    holds_nothing(&server).await;
}

#[tokio::test]
async fn a_sidecar_that_stops_waits_for_it_and_then_cuts_it_off() {
    let upstream = Script::plays(echo).await;
    // On the accepting thread, then on another one: the accepting thread has a connection already.
    for other_thread in [false, true] {
        let workers = 1 + usize::from(other_thread);
        let workers = workers.try_into().expect("some");
        let server = started(builder(&upstream.url(), "").workers(workers)).await;
        let address = server.address();
        let idle = TcpStream::connect(address).await.expect("it listens");
        let (mut stream, _) = wish(&server, "hello").await;
        drop(idle);
        let stopping = tokio::spawn(server.stop(Duration::from_secs(2)));
        until(|| async { TcpStream::connect(address).await.is_err() }).await;
        stream.write_all(b"still there").await.expect("sent");
        heard(&mut stream, "still there").await;
        ends(stream).await;
        stopping.await.expect("stopped");
    }
}
