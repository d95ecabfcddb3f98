//! What a client is told that may not go: in its vendor's words.

use super::client::{post, send};
use super::script::Script;
use super::*;

const USED_UP: &str = "requests = { limit = \"1/h\", burst = 1 }\nqueue = { timeout = \"0\" }";

/// A sidecar for a vendor that has nothing left.
async fn nothing_left(upstream: &str, vendor: &str) -> Server {
    let server = sidecar(upstream, &format!("{USED_UP}\nprofile = \"{vendor}\"")).await;
    let first = post(&server, "/api/x", "{}").await;
    assert_eq!(first.status, 200);
    server
}

#[tokio::test]
async fn a_refusal_is_in_the_vendors_own_shape() {
    let upstream = upstream(&[]).await;
    for (vendor, place, value) in [
        ("openai", "/error/type", "rate_limit_exceeded"),
        ("openai", "/error/code", "timeout"),
        ("groq", "/error/limit", "api/requests/1h"),
        ("anthropic", "/type", "error"),
        ("anthropic", "/error/type", "rate_limit_error"),
        ("google-gemini", "/error/status", "RESOURCE_EXHAUSTED"),
        ("github", "/limit", "api/requests/1h"),
        ("slack", "/error", "ratelimited"),
        ("generic", "/error/limit", "api/requests/1h"),
    ] {
        let server = nothing_left(&upstream.url(), vendor).await;
        let reply = post(&server, "/api/x", "{}").await;
        let json = reply.json();
        assert_eq!(reply.status, 429);
        assert_eq!(json.pointer(place).and_then(Value::as_str), Some(value), "{vendor}: {json}");
        assert_eq!(reply.header("x-should-retry"), Some("false"));
        let wait = number(&reply, "retry-after");
        assert!((3_500..=3_615).contains(&wait), "{wait}");
        assert!(number(&reply, "retry-after-ms") > 3_500_000);
        assert_eq!(number(&reply, "x-tidegate-attempts"), 0);
        holds_nothing(&server).await;
    }
    assert!(upstream.records().len() == 9, "only the first of each was sent");
}

#[tokio::test]
async fn bedrock_reads_the_kind_of_an_error_in_a_header() {
    let upstream = upstream(&[]).await;
    let server = nothing_left(&upstream.url(), "aws-bedrock").await;
    let reply = post(&server, "/api/model/x/converse", "{}").await;
    assert_eq!(reply.header("x-amzn-errortype"), Some("ThrottlingException"));
    assert!(reply.json()["message"].is_string());
}

#[tokio::test]
async fn what_can_never_fit_is_too_large_and_never_sent() {
    let upstream = Script::says("").await;
    let server =
        sidecar(&upstream.url(), "bytes = { limit = \"10/min\", burst = 10 }\nprofile = \"openai\"").await;
    let reply = post(&server, "/api/x", "more than ten bytes").await;
    assert_eq!((reply.status.as_u16(), reply.json()["error"]["code"].as_str()), (413, Some("too_large")));
    assert!(upstream.requests().is_empty());
    holds_nothing(&server).await;
}

#[tokio::test]
async fn a_breaker_that_is_open_is_waited_for_and_else_said_to_be_open() {
    let upstream = Script::says(script::reply("500 Internal Server Error", "", "ill")).await;
    let keys = "retry = { max_retries = 0 }\nbreaker = { failures = 1, open_for = \"300ms\" }";
    let server = sidecar(&upstream.url(), keys).await;
    assert_eq!(post(&server, "/api/x", "").await.status, 500);
    let reply =
        send(&server, "GET", "/api/x", &[("x-tidegate-timeout", "100ms")], "").await.expect("an answer");
    assert_eq!((reply.status.as_u16(), reply.json()["error"]["code"].as_str()), (503, Some("circuit_open")));
    let reply = post(&server, "/api/x", "").await;
    assert_eq!((reply.status.as_u16(), reply.text()), (500, "ill".into()), "the probe went");
    assert!(number(&reply, "x-tidegate-waited-ms") > 50);
    assert_eq!(reply.header("x-tidegate-limit"), Some("api/breaker"));
    holds_nothing(&server).await;
}

#[tokio::test]
async fn who_is_not_there_and_who_has_no_upstream_is_a_404() {
    let config = Config::parse("[services.git]\nrequests = \"60/min\"\n").expect("valid");
    let server = started(Server::builder().config(config).listen("127.0.0.1:0")).await;
    let reply = post(&server, "/nobody/x", "").await;
    assert_eq!(
        (reply.status.as_u16(), reply.json()["error"]["code"].as_str()),
        (404, Some("unknown_service"))
    );
    let reply = post(&server, "/git/x", "").await;
    assert_eq!((reply.status.as_u16(), reply.json()["error"]["code"].as_str()), (404, Some("no_upstream")));
}
