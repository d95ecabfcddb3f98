//! Permits for work of other kinds: asked for, used, reported.

use super::client::{Reply, get, open, post, send};
use super::*;

const GIT: &str = "[services.git]\nconcurrency = 1\nrequests = { limit = \"100/h\", burst = 100 }\n";

async fn acquire(server: &Server, body: &str) -> Reply {
    post(server, "/v1/acquire", body.to_owned()).await
}

async fn permit(server: &Server, body: &str) -> String {
    let reply = acquire(server, body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["permit"].as_str().expect("a permit").to_owned()
}

async fn end(server: &Server, permit: &str, how: &str, body: &str) -> (u16, Value) {
    let reply = post(server, &format!("/v1/permits/{permit}/{how}"), body.to_owned()).await;
    (reply.status.as_u16(), reply.json())
}

async fn delete(server: &Server, permit: &str) -> (u16, Value) {
    let reply = send(server, "DELETE", &format!("/v1/permits/{permit}"), &[], "").await.expect("an answer");
    (reply.status.as_u16(), reply.json())
}

fn code(reply: &Reply) -> (u16, String) {
    (reply.status.as_u16(), reply.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
}

/// Slots and requests in use.
async fn used(server: &Server) -> (u64, u64) {
    let used = async |name| limit(server, name).await["used"].as_u64().expect("a number");
    (used("git/concurrency").await, used("git/requests/1h").await)
}

async fn git(more: &str) -> Server {
    let config = Config::parse(&format!("{more}{GIT}")).expect("valid");
    started(Server::builder().config(config).listen("127.0.0.1:0")).await
}

#[tokio::test]
async fn a_permit_is_asked_for_used_and_completed_and_completing_again_says_the_same() {
    let server = git("").await;
    let reply = acquire(&server, r#"{"service": "git", "cost": {"requests": 3}}"#).await.json();
    assert_eq!((reply["waited_ms"].as_u64(), reply["expires_ms"].as_u64()), (Some(0), Some(300_000)));
    let permit = reply["permit"].as_str().expect("a permit");
    assert_eq!((permit.len(), used(&server).await), (32, (1, 3)));
    assert_eq!(status(&server).await["permits"], 1);
    let first = end(&server, permit, "complete", r#"{"usage": {"requests": 2}}"#).await;
    assert_eq!(first.0, 200);
    assert_eq!(used(&server).await, (0, 2), "what it cost less comes back");
    assert_eq!(end(&server, permit, "complete", r#"{"usage": {"requests": 2}}"#).await, first);
    assert_eq!(used(&server).await, (0, 2), "and only once");
    assert_eq!(delete(&server, permit).await.0, 409);
    assert_eq!(end(&server, permit, "renew", "").await.0, 409);
}

#[tokio::test]
async fn a_permit_that_was_never_used_gives_all_back() {
    let server = git("").await;
    let permit = permit(&server, r#"{"service": "git"}"#).await;
    let first = delete(&server, &permit).await;
    assert_eq!((first.0, used(&server).await), (200, (0, 0)));
    assert_eq!(delete(&server, &permit).await, first);
    assert_eq!(end(&server, &permit, "complete", "").await.0, 409);
}

#[tokio::test]
async fn whoever_does_not_fit_waits_on_the_open_connection() {
    let server = git("").await;
    let first = permit(&server, r#"{"service": "git"}"#).await;
    let (second, ()) = tokio::join!(acquire(&server, r#"{"service": "git"}"#), async {
        until(|| async { status(&server).await["waiting"] == 1 }).await;
        assert_eq!(end(&server, &first, "complete", "").await.0, 200);
    });
    let second = second.json();
    assert!(second["waited_ms"].as_u64().expect("a number") > 0, "{second}");
    assert_eq!(delete(&server, second["permit"].as_str().expect("a permit")).await.0, 200);
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_the_queue() {
    let server = git("").await;
    let first = permit(&server, r#"{"service": "git"}"#).await;
    let body = r#"{"service": "git", "id": "mine"}"#;
    let waits = open(&server, "POST", "/v1/acquire", &[], body);
    tokio::select! {
        _ = waits => panic!("there is no room"),
        () = until(|| async { status(&server).await["waiting"] == 1 }) => {}
    }
    until(|| async { status(&server).await["waiting"] == 0 }).await;
    delete(&server, &first).await;
    assert_eq!(used(&server).await, (0, 0));
    permit(&server, body).await;
}

#[tokio::test]
async fn every_refusal_has_its_status_its_code_and_when_to_come_back() {
    let server = git("[services.broken]\nbreaker = { failures = 1, open_for = \"1h\" }\n").await;
    let held = permit(&server, r#"{"service": "git", "id": "held"}"#).await;
    for (body, expected) in [
        (r#"{"service": "git", "timeout_ms": 20}"#, (429, "timeout")),
        (r#"{"service": "git", "timeout_ms": 0}"#, (429, "timeout")),
        (r#"{"service": "git", "cost": {"requests": 101}}"#, (413, "too_large")),
        (r#"{"service": "nobody"}"#, (404, "unknown_service")),
        (r#"{"service": "git", "cost": {"credits": 1}}"#, (400, "unknown_dimension")),
        (r#"{"service": "git", "cost": {"requests": -1}}"#, (400, "invalid_cost")),
        (r#"{"service": "git", "id": "held", "loop": "other"}"#, (409, "duplicate_id")),
        (r#"{"service": "git", "colour": "red"}"#, (400, "bad_request")),
        ("[]", (400, "bad_request")),
    ] {
        let reply = acquire(&server, body).await;
        assert_eq!(code(&reply), (expected.0, expected.1.to_owned()), "{body}: {reply:?}");
    }
    delete(&server, &held).await;
    let spent = permit(&server, r#"{"service": "git", "cost": {"requests": 100}}"#).await;
    end(&server, &spent, "complete", "").await;
    let reply = acquire(&server, r#"{"service": "git", "timeout_ms": 1000}"#).await;
    assert_eq!(code(&reply), (429, "hopeless".into()));
    let error = &reply.json()["error"];
    assert_eq!(error["limit"], "git/requests/1h");
    assert!(
        error["retry_after_ms"].as_u64().expect("known") > 1_000_000 && error["reset_at"].is_string(),
        "{error}"
    );
    assert!(number(&reply, "retry-after") > 1_000);

    let broken = permit(&server, r#"{"service": "broken"}"#).await;
    end(&server, &broken, "complete", r#"{"outcome": "failed"}"#).await;
    let reply = acquire(&server, r#"{"service": "broken", "timeout_ms": 10}"#).await;
    assert_eq!(code(&reply), (503, "circuit_open".into()));
}

#[tokio::test]
async fn an_id_asked_for_again_with_the_same_call_is_the_same_permit_and_free_after_its_end() {
    let server = git("").await;
    let body = r#"{"service": "git", "id": "job-1"}"#;
    let first = permit(&server, body).await;
    assert_eq!(permit(&server, body).await, first);
    assert_eq!(used(&server).await, (1, 1), "and nothing more is taken");
    end(&server, &first, "complete", "").await;
    assert_ne!(permit(&server, body).await, first);
}

#[tokio::test]
async fn a_lease_that_nobody_renews_frees_the_slot_and_keeps_the_cost() {
    let server = git("permit_lease = \"1s\"\n").await;
    let granted = std::time::Instant::now();
    let permit = permit(&server, r#"{"service": "git"}"#).await;
    // For longer than the first lease would have lasted.
    while granted.elapsed() < Duration::from_millis(1_500) {
        let (status, said) = end(&server, &permit, "renew", "").await;
        assert_eq!((status, said["expires_ms"].as_u64()), (200, Some(1_000)), "{said}");
    }
    until(|| async { used(&server).await == (0, 1) }).await;
    let (status, said) = end(&server, &permit, "complete", "").await;
    assert_eq!((status, said["error"]["code"].as_str()), (410, Some("expired")));
}

#[tokio::test]
async fn a_429_that_is_reported_holds_everybody_back() {
    let server = git("").await;
    let permit = permit(&server, r#"{"service": "git"}"#).await;
    let said = r#"{"status": 429, "headers": {"Retry-After": "30", "x-many": ["a", "b"]}}"#;
    assert_eq!(end(&server, &permit, "complete", said).await.0, 200);
    let windows = status(&server).await["backoffs"].clone();
    assert_eq!(windows[0]["key"], "git", "{windows}");
    assert!(windows[0]["open_for_ms"].as_u64().expect("open") > 20_000, "{windows}");
    assert_eq!(used(&server).await, (0, 1), "a refused attempt was sent: it keeps its request");
}

#[tokio::test]
async fn what_is_unknown_or_makes_no_sense_changes_nothing() {
    let server = git("").await;
    let held = permit(&server, r#"{"service": "git"}"#).await;
    for permit in ["x", "00000000000000000000000000000000", &held.to_uppercase()[1..]] {
        assert_eq!(end(&server, permit, "complete", "").await.0, 404, "{permit}");
        assert_eq!(delete(&server, permit).await.0, 404, "{permit}");
    }
    for body in [
        r#"{"status": 7}"#,
        r#"{"outcome": "fine"}"#,
        r#"{"headers": {"a b": "c"}}"#,
        r#"{"usage": {"requests": -1}}"#,
    ] {
        assert_eq!(end(&server, &held, "complete", body).await.0, 400, "{body}");
    }
    let large = format!("{{\"service\": \"{}\"}}", "x".repeat(100 << 10));
    assert_eq!(code(&acquire(&server, &large).await), (413, "body_too_large".into()));
    assert_eq!(get(&server, "/v1/acquire").await.status, 405);
    assert_eq!(end(&server, &held, "burn", "").await.0, 404);
    assert_eq!(end(&server, &held, "complete", "").await.0, 200);
}

#[tokio::test]
async fn usage_may_be_the_vendors_own_object() {
    let config = "[services.claude]\npreset = \"anthropic\"\n\
        input_tokens = { limit = \"1000/h\", algorithm = \"token-bucket\", burst = 1000 }\n\
        [services.plain]\ntokens = { limit = \"1000/h\", algorithm = \"token-bucket\", burst = 1000 }\n";
    let server =
        started(Server::builder().config(Config::parse(config).expect("valid")).listen("127.0.0.1:0")).await;
    let claude = permit(&server, r#"{"service": "claude", "cost": {"input_tokens": 500}}"#).await;
    let usage = r#"{"usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5,
        "server_tool_use": {"web_search_requests": 0}}}"#;
    assert_eq!(end(&server, &claude, "complete", usage).await.0, 200);
    assert_eq!(
        limit(&server, "claude/input_tokens/1h").await["used"],
        10,
        "what came from the cache is free there"
    );

    let plain = permit(&server, r#"{"service": "plain", "cost": {"tokens": 500}}"#).await;
    let nonsense = r#"{"usage": {"tokens": {"deep": 1}}}"#;
    assert_eq!(end(&server, &plain, "complete", nonsense).await.0, 400, "and the permit is still out");
    let usage = r#"{"usage": {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42}}"#;
    assert_eq!(end(&server, &plain, "complete", usage).await.0, 200);
    assert_eq!(limit(&server, "plain/tokens/1h").await["used"], 42);
}
