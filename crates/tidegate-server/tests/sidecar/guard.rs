//! Requests that are not let in.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{get, raw, send};
use super::script::{Script, reply};
use super::*;

#[tokio::test]
async fn no_path_leads_out_of_a_service() {
    let upstream = upstream(&[]).await;
    let server = sidecar(&format!("{}/base", upstream.url()), "").await;
    for path in [
        "/api/../x",
        "/api/v1/../../x",
        "/api/%2e%2e/x",
        "/api/..%2fx",
        "/api/%252e%252e/x",
        "/api/..;/x",
        "/api/..",
    ] {
        let said = raw(
            &server,
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes(),
        )
        .await;
        assert!(said.starts_with("HTTP/1.1 400"), "{path}: {said}");
    }
    assert!(upstream.records().is_empty());
    assert_eq!(get(&server, "/api/a%2Fb").await.status, 200);
    assert_eq!(upstream.records()[0].path, "/base/a%2Fb");
    holds_nothing(&server).await;
}

#[tokio::test]
async fn it_is_no_forward_proxy() {
    let upstream = upstream(&[]).await;
    let server = sidecar(&upstream.url(), "").await;
    let target = upstream.address();
    for line in [
        format!("GET http://{target}/x"),
        "GET http://localhost/api/x".to_owned(),
        format!("CONNECT {target}"),
    ] {
        let said = raw(
            &server,
            format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes(),
        )
        .await;
        assert!(said.starts_with("HTTP/1.1 400"), "{line}: {said}");
    }
    assert!(upstream.records().is_empty());
}

#[tokio::test]
async fn other_hosts_and_other_origins_are_refused_on_every_route() {
    let upstream = upstream(&[]).await;
    let server = sidecar(&upstream.url(), "").await;
    for path in ["/api/x", "/~a/api/x", "/v1/status", "/v1/limits", "/healthz", "/", "/nobody/x"] {
        for header in [
            ("host", "evil.example"),
            ("host", "192.0.2.7:8429"),
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
        ] {
            let reply = send(&server, "GET", path, &[header], "").await.expect("an answer");
            assert_eq!(reply.status, 403, "{path} {header:?}");
        }
    }
    assert!(upstream.records().is_empty());
    let own = format!("http://{}", server.address());
    let headers = [("host", &own[7..]), ("origin", &own[..])];
    assert_eq!(send(&server, "GET", "/v1/status", &headers, "").await.expect("an answer").status, 200);
}

#[tokio::test]
async fn a_head_that_is_too_large_or_no_head_at_all_is_refused() {
    let server = impatient("http://127.0.0.1:1", "").await;
    let large =
        format!("GET /api/x HTTP/1.1\r\nhost: localhost\r\nx-large: {}\r\n\r\n", "x".repeat(100 << 10));
    let many = format!("GET /api/x HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x-many: 1\r\n".repeat(500));
    for (head, status) in
        [(&*large, "431"), (&*many, "431"), ("\0\0\0\0\r\n\r\n", "400"), ("GET\r\n\r\n", "400")]
    {
        let said = raw(&server, head.as_bytes()).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{}: {said}", &head[..20.min(head.len())]);
    }
    let twice =
        "POST /api/x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nsea";
    assert!(raw(&server, twice.as_bytes()).await.starts_with("HTTP/1.1 400"));
    holds_nothing(&server).await;
}

#[tokio::test]
async fn who_says_nothing_or_too_slowly_is_cut_off() {
    let server = impatient("http://127.0.0.1:1", "").await;
    for beginning in ["", "PRI", "GET /api/x HT", "GET /api/x HTTP/1.1\r\nhost: localhost\r\n"] {
        let said = raw(&server, beginning.as_bytes()).await;
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 408"), "{beginning}: {said}");
    }
    let half =
        "POST /api/x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\nconnection: close\r\n\r\nsea";
    assert!(raw(&server, half.as_bytes()).await.starts_with("HTTP/1.1 408"));
    holds_nothing(&server).await;
}

const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn connections_are_bounded_and_whoever_comes_later_waits() {
    let server = started(builder("http://127.0.0.1:1", "").max_connections(2)).await;
    let mut busy = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(server.address()).await.expect("it listens");
        let half = b"POST /api/x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nsea";
        stream.write_all(half).await.expect("sent");
        busy.push(stream);
    }
    let mut third = TcpStream::connect(server.address()).await.expect("the system takes it");
    third.write_all(HEALTH).await.expect("sent");
    let mut said = String::new();
    let waited = tokio::time::timeout(Duration::from_millis(200), third.read_to_string(&mut said)).await;
    assert!(waited.is_err(), "{said}");
    drop(busy);
    third.read_to_string(&mut said).await.expect("an answer");
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}

#[tokio::test]
async fn idle_connections_make_room_for_whoever_comes_and_those_that_are_used_stay() {
    let upstream = Script::says(reply("200 OK", "", "well")).await;
    let server = started(builder(&upstream.url(), "").max_connections(4)).await;
    let connect = async || TcpStream::connect(server.address()).await.expect("it listens");
    let mut used = connect().await;
    let half =
        b"POST /api/x HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 6\r\n\r\nsea";
    used.write_all(half).await.expect("sent");
    // One never said a word, one was answered, one began to say something.
    let mut idle = [connect().await, connect().await, connect().await];
    idle[1].write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
    assert!(idle[1].read(&mut [0; 1_024]).await.expect("an answer") > 0);
    idle[2].write_all(b"GET /heal").await.expect("sent");
    for _ in 0..6 {
        let mut late = connect().await;
        late.write_all(HEALTH).await.expect("sent");
        let mut said = String::new();
        let read = tokio::time::timeout(Duration::from_secs(30), late.read_to_string(&mut said));
        read.await.expect("it need not wait for the others").expect("an answer");
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    }
    used.write_all(b"sea").await.expect("still open");
    let mut said = String::new();
    used.read_to_string(&mut said).await.expect("an answer");
    assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("well"), "{said}");
}

#[tokio::test]
async fn it_listens_nowhere_else_unless_it_is_told_to() {
    let error = Server::builder().listen("0.0.0.0:0").start().await.expect_err("not so");
    assert!(error.to_string().contains("--insecure-listen"), "{error}");
    let server = started(Server::builder().listen("0.0.0.0:0").insecure_listen(true)).await;
    assert!(server.address().ip().is_unspecified());
}
