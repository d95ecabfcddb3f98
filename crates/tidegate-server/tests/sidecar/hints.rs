//! Hints about the caller: in headers, or in the URL.

use super::client::{get, post, send};
use super::*;

/// Two calls at once, and so one waits.
const ONE_AT_A_TIME: &str = "requests = { limit = \"600/min\", burst = 1 }\n\
    [loops]\nrequests = \"1000/min\"\n[loop_types.code]\nrequests = \"500/min\"\n";

#[tokio::test]
async fn loops_and_their_types_are_told_by_header_and_by_url() {
    let upstream = upstream(&[]).await;
    let server = sidecar(&upstream.url(), ONE_AT_A_TIME).await;
    let headers = [("x-tidegate-loop", "agent-7"), ("x-tidegate-loop-type", "code")];
    send(&server, "POST", "/api/x", &headers, "").await.expect("an answer");
    post(&server, "/~agent-8:code,high/api/x", "").await;
    post(&server, "/~agent%208/api/x", "").await;
    for (name, used) in [
        ("loop:agent-7/requests/1m", 1),
        ("loop:agent-8/requests/1m", 1),
        ("loop:agent 8/requests/1m", 1),
        ("loop_type:code/requests/1m", 2),
    ] {
        assert_eq!(limit(&server, name).await["used"], used, "{name}");
    }
    assert!(upstream.records().iter().all(|record| record.path == "/x"), "{:?}", upstream.records());
    holds_nothing(&server).await;
    // Calls that came, refused ones included, by the URL or by what an acquire states. A header is the program's own word,
    // and no sign that it used the URL which it was given.
    post(&server, "/v1/acquire", r#"{"service": "unknown", "loop": "agent-9"}"#).await;
    for (name, calls) in [("agent-7", 0), ("agent-8", 1), ("agent%208", 1), ("agent-9", 1)] {
        assert_eq!(get(&server, &format!("/v1/loops/{name}")).await.json()["calls"], calls, "{name}");
    }
    assert_eq!(status(&server).await["loop_types"], serde_json::json!(["code"]));
}

#[tokio::test]
async fn a_higher_priority_goes_first_however_it_is_said() {
    let upstream = upstream(&[]).await;
    let server = sidecar(&upstream.url(), "requests = { limit = \"240/min\", burst = 1 }").await;
    post(&server, "/api/first", "").await;
    let waits = |waiting: u64| {
        let server = &server;
        until(move || async move { status(server).await["waiting"] == waiting })
    };
    let ask = |path: &'static str, priority: &'static str| {
        let server = &server;
        async move {
            send(server, "GET", path, &[("x-tidegate-priority", priority)], "").await.expect("an answer")
        }
    };
    let (low, normal, high, ()) = tokio::join!(
        ask("/api/low", "low"),
        async {
            waits(1).await;
            ask("/api/normal", "normal").await
        },
        async {
            waits(2).await;
            post(&server, "/~,high/api/high", "").await
        },
        waits(3),
    );
    let order: Vec<String> = upstream.records().iter().map(|record| record.path.clone()).collect();
    assert_eq!(order, ["/first", "/high", "/normal", "/low"]);
    for reply in [&low, &normal, &high] {
        assert_eq!(reply.header("x-tidegate-limit"), Some("api/requests/1m"));
        assert!(number(reply, "x-tidegate-waited-ms") > 0);
    }
    holds_nothing(&server).await;
}

#[tokio::test]
async fn the_limit_that_held_a_call_longest_is_named_though_it_waited_for_another_at_first() {
    let upstream = upstream(&[]).await;
    let server = sidecar(&upstream.url(), "requests = { limit = \"60/min\", burst = 1 }").await;
    post(&server, "/api/x", "").await;
    let (held, ()) = tokio::join!(post(&server, "/api/x", ""), async {
        until(|| async { status(&server).await["waiting"] == 1 }).await;
        super::changing::put(&server, "/v1/backoff/api", r#"{"ms": 3000}"#).await;
    });
    assert_eq!(held.header("x-tidegate-limit"), Some("api/backoff"), "{held:?}");
    holds_nothing(&server).await;
}

#[tokio::test]
async fn a_timeout_says_how_long_it_may_wait() {
    let upstream = upstream(&[]).await;
    let server = sidecar(&upstream.url(), "requests = { limit = \"1/h\", burst = 1 }").await;
    post(&server, "/api/x", "").await;
    let reply =
        send(&server, "GET", "/api/x", &[("x-tidegate-timeout", "10s")], "").await.expect("an answer");
    assert_eq!((reply.status.as_u16(), reply.json()["error"]["code"].as_str()), (429, Some("hopeless")));
    holds_nothing(&server).await;
}

#[tokio::test]
async fn hints_that_make_no_sense_are_refused_and_nothing_is_sent() {
    let upstream = upstream(&[]).await;
    let server = sidecar(&upstream.url(), "").await;
    for (path, headers) in [
        ("/~a,urgent/api/x", &[][..]),
        ("/~a/v1/status", &[]),
        ("/api/x", &[("x-tidegate-priority", "urgent")]),
        ("/api/x", &[("x-tidegate-timeout", "soon")]),
    ] {
        let reply = send(&server, "GET", path, headers, "").await.expect("an answer");
        assert_eq!(
            (reply.status.as_u16(), reply.json()["error"]["code"].as_str()),
            (400, Some("bad_hint")),
            "{path}"
        );
    }
    assert!(upstream.records().is_empty());
    holds_nothing(&server).await;
}
