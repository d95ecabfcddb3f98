//! Upstreams that reset, stall, lie or never end: an error for that caller, and no effect on others.

use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::{open, post, send};
use super::script::Script;
use super::*;

const NO_RETRIES: &str = "retry = { max_retries = 0 }";

#[tokio::test]
async fn who_cannot_be_reached_is_a_502() {
    // No process listens there: the port is reserved.
    let server = sidecar("http://127.0.0.1:1", NO_RETRIES).await;
    let reply = post(&server, "/api/x", "").await;
    assert_eq!(
        (reply.status.as_u16(), reply.json()["error"]["code"].as_str()),
        (502, Some("upstream_unreachable"))
    );
    assert_eq!(reply.header("x-should-retry"), Some("false"));
    let message = reply.json()["error"]["message"].to_string();
    assert!(message.contains("127.0.0.1:1 refused the connection (1 attempt in 0."), "{message}");
    holds_nothing(&server).await;
}

#[tokio::test]
async fn the_attempts_at_an_upstream_that_cannot_be_reached_are_counted_for_the_caller() {
    let server = sidecar("http://127.0.0.1:1", "retry = { max_retries = 2, initial = \"10ms\" }").await;
    let message = post(&server, "/api/x", "").await.json()["error"]["message"].to_string();
    assert!(message.contains("refused the connection (3 attempts in "), "{message}");
    holds_nothing(&server).await;
}

/// Its address is likely wrong, and the caller should not learn that after 30 s of silence. One that worked before may come back.
#[tokio::test]
async fn an_upstream_that_was_never_reached_is_given_up_soon_and_one_that_was_is_not() {
    let never = sidecar("http://127.0.0.1:1", "").await;
    let once = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", once.local_addr().expect("bound"));
    let before =
        sidecar(&url, "retry = { max_retries = 4, initial = \"900ms\", max = \"900ms\", jitter = 0 }").await;
    let answered = async {
        let (mut stream, _) = once.accept().await.expect("a call");
        stream.read_u8().await.expect("a request");
        stream.write_all(b"HTTP/1.1 204 X\r\nconnection: close\r\n\r\n").await.expect("sent");
        drop(once);
    };
    let (first, ()) = tokio::join!(post(&before, "/api/x", ""), answered);
    assert_eq!(first.status, 204);

    let began = std::time::Instant::now();
    let told = async |server| {
        let reply = post(server, "/api/x", "").await;
        (reply.json()["error"]["message"].to_string(), began.elapsed())
    };
    let (never_told, before_told) = tokio::join!(told(&never), told(&before));
    let (message, took) = never_told;
    assert!(message.contains("127.0.0.1:1 refused the connection (3 attempts in "), "{message}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    let (message, took) = before_told;
    assert!(message.contains("refused the connection (5 attempts in "), "{message} {took:?}");
    for server in [&never, &before] {
        holds_nothing(server).await;
    }
}

/// One bound covers all of connecting. A call that fails in it was not sent, so it is not charged and is safe to retry.
#[tokio::test]
async fn a_tls_handshake_that_never_ends_is_bounded_and_costs_nothing() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = silent.local_addr().expect("bound");
    let accepted = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = silent.accept().await {
            held.push(stream);
            if held.len() == 2 {
                return held;
            }
        }
        held
    });
    // The head of a reply may take much longer than a connection.
    let timeouts = Timeouts { upstream_head: Duration::from_secs(60), ..SHORT };
    let keys = "requests = \"5/min\"\nretry = { max_retries = 1, initial = \"10ms\" }";
    let server = started(builder(&format!("https://{address}"), keys).timeouts(timeouts)).await;
    let reply = post(&server, "/api/x", "{}").await;
    assert_eq!(
        (reply.status.as_u16(), reply.json()["error"]["code"].as_str()),
        (502, Some("upstream_unreachable"))
    );
    let message = reply.json()["error"]["message"].to_string();
    assert!(message.contains("within 500ms; the time ran out in the TLS handshake (2 attempts"), "{message}");
    assert_eq!(number(&reply, "x-tidegate-attempts"), 2, "a POST that was not sent is retried");
    assert_eq!(limit(&server, "api/requests/1m").await["used"], 0);
    accepted.await.expect("both came");
    holds_nothing(&server).await;
}

#[tokio::test]
async fn who_resets_before_it_answers_is_a_502() {
    let upstream = Script::plays(|stage| async move { stage.reset() }).await;
    let server = sidecar(&upstream.url(), NO_RETRIES).await;
    let reply = post(&server, "/api/x", "").await;
    assert_eq!(
        (reply.status.as_u16(), reply.json()["error"]["code"].as_str()),
        (502, Some("upstream_broken"))
    );
    holds_nothing(&server).await;
}

/// The connection was kept, and the upstream has closed it since without a word: nothing of the next call was sent on it, so
/// even one that must not be repeated goes on another.
#[tokio::test]
async fn who_hangs_up_between_two_calls_is_called_anew() {
    let (hung_up, mut hangs_up) = tokio::sync::mpsc::unbounded_channel();
    let upstream = Script::plays(move |mut stage| {
        let hung_up = hung_up.clone();
        async move {
            stage.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            drop(stage);
            hung_up.send(()).ok();
        }
    })
    .await;
    let server = sidecar(&upstream.url(), NO_RETRIES).await;
    for calls in 1..=20 {
        assert_eq!(post(&server, "/api/x", "").await.status, 200);
        hangs_up.recv().await.expect("it does");
        assert_eq!(upstream.requests().len(), calls, "each arrived once");
    }
    holds_nothing(&server).await;
}

#[tokio::test]
async fn who_never_answers_is_a_504() {
    let upstream = Script::plays(|mut stage| async move { stage.until_gone().await }).await;
    let server = impatient(&upstream.url(), NO_RETRIES).await;
    let reply = post(&server, "/api/x", "").await;
    assert_eq!(
        (reply.status.as_u16(), reply.json()["error"]["code"].as_str()),
        (504, Some("upstream_timeout"))
    );
    holds_nothing(&server).await;
}

#[tokio::test]
async fn what_is_no_http_is_a_502() {
    for nonsense in
        ["SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", "HTTP/9.9 200\r\n\r\n"]
    {
        let upstream = Script::says(nonsense).await;
        let server = sidecar(&upstream.url(), NO_RETRIES).await;
        assert_eq!(post(&server, "/api/x", "").await.status, 502, "{nonsense}");
        holds_nothing(&server).await;
    }
}

/// The parts of a reply that breaks off must not look whole.
async fn breaks_off(server: &Server) {
    let mut reply = open(server, "GET", "/api/x", &[], "").await.expect("a head");
    assert_eq!(reply.response.status(), 200);
    let mut whole = true;
    while let Some(frame) = reply.response.body_mut().frame().await {
        whole = frame.is_ok();
    }
    assert!(!whole, "it must not look whole");
    holds_nothing(server).await;
}

#[tokio::test]
async fn who_says_less_than_it_promised_breaks_the_reply() {
    let upstream = Script::says("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nsea").await;
    breaks_off(&sidecar(&upstream.url(), "").await).await;
}

#[tokio::test]
async fn who_says_more_than_it_promised_is_cut_at_its_word() {
    let upstream =
        Script::says("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nsea and more, as if it were a reply").await;
    let server = sidecar(&upstream.url(), "").await;
    for _ in 0..3 {
        assert_eq!(send(&server, "GET", "/api/x", &[], "").await.expect("an answer").text(), "sea");
    }
    holds_nothing(&server).await;
}

#[tokio::test]
async fn who_stalls_in_the_middle_breaks_the_reply() {
    let upstream = Script::plays(|mut stage| async move {
        stage.say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nsea").await;
        stage.until_gone().await;
    })
    .await;
    breaks_off(&impatient(&upstream.url(), "").await).await;
}

#[tokio::test]
async fn who_never_ends_is_read_as_long_as_somebody_listens() {
    let upstream = Script::plays(|mut stage| async move {
        use tokio::io::AsyncWriteExt;
        stage.say("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
        while stage.stream.write_all(&[b'x'; 4096]).await.is_ok() {}
    })
    .await;
    let server = sidecar(&upstream.url(), "").await;
    let mut reply = open(&server, "GET", "/api/x", &[], "").await.expect("a head");
    for _ in 0..100 {
        assert!(reply.next().await.is_some());
    }
    reply.hang_up();
    holds_nothing(&server).await;
}

#[tokio::test]
async fn a_redirect_is_the_clients_to_follow() {
    let upstream = Script::says(
        "HTTP/1.1 302 Found\r\nlocation: https://elsewhere.example/\r\ncontent-length: 0\r\n\r\n",
    )
    .await;
    let server = sidecar(&upstream.url(), "").await;
    let reply = send(&server, "GET", "/api/x", &[], "").await.expect("an answer");
    assert_eq!((reply.status.as_u16(), reply.header("location")), (302, Some("https://elsewhere.example/")));
    holds_nothing(&server).await;
}
