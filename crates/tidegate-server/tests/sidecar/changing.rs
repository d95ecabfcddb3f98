//! Limits and windows that are changed while the sidecar runs, and the events of that.

use super::client::{Open, Reply, get, open, post, send};
use super::*;

pub async fn put(server: &Server, path: &str, body: &'static str) -> Reply {
    send(server, "PUT", path, &[], body).await.expect("an answer")
}

async fn capacity(server: &Server, name: &str) -> u64 {
    limit(server, name).await["capacity"].as_u64().expect("a number")
}

fn parsed(config: &str) -> Config {
    Config::parse(config).expect("valid")
}

const CONFIG: &str = "[services.api]\nconcurrency = 1\nrequests = { limit = \"60/min\", burst = 60 }\n\
    [services.api.endpoints.\"POST /v1/x\"]\nrequests = \"30/min\"\n[loops]\nrequests = \"20/min\"\n";

pub async fn with(config: &str) -> Server {
    started(Server::builder().config(parsed(config)).listen("127.0.0.1:0")).await
}

#[tokio::test]
async fn a_limit_is_changed_shown_as_changed_and_yields_when_the_file_says_something_else_of_it() {
    let server = with(CONFIG).await;
    post(&server, "/v1/acquire", r#"{"service": "api", "loop": "a"}"#).await;
    for (path, body) in [
        ("/v1/limits/api%2Frequests%2F1m", r#"{"rate": "90/min"}"#),
        ("/v1/limits/api/endpoint:POST%20%2Fv1%2Fx/requests/1m", r#"{"rate": "45/min"}"#),
        ("/v1/limits/loop:*/requests/1m", r#"{"rate": "25/min"}"#),
        ("/v1/limits/api/concurrency", r#"{"bound": 7}"#),
    ] {
        let reply = put(&server, path, body).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["changed"]),
            (200, &true.into()),
            "{path}: {reply:?}"
        );
    }
    let requests = limit(&server, "api/requests/1m").await;
    assert_eq!(
        (&requests["capacity"], &requests["used"]),
        (&90.into(), &1.into()),
        "what was spent stays spent"
    );
    assert_eq!((&requests["changed"], &requests["written"]), (&true.into(), &"60/min".into()));
    assert_eq!(capacity(&server, "api/endpoint:POST /v1/x/requests/1m").await, 45);
    assert_eq!(capacity(&server, "loop:a/requests/1m").await, 25);
    assert_eq!(limit(&server, "api/concurrency").await["written"], 1);

    // The file changes one of them, and something else.
    let other = CONFIG.replace("60/min", "80/min").replace("[loops]", "[services.more]\n[loops]");
    server.reconfigure(parsed(&other)).expect("in force");
    let requests = limit(&server, "api/requests/1m").await;
    assert_eq!((&requests["capacity"], &requests["changed"]), (&80.into(), &Value::Null));
    assert_eq!(capacity(&server, "api/concurrency").await, 7, "the file says the same of this one");
    put(&server, "/v1/limits/api/concurrency", r#"{"bound": 1}"#).await;
    assert_eq!(limit(&server, "api/concurrency").await["changed"], Value::Null, "as it is written");
}

#[tokio::test]
async fn a_higher_bound_lets_go_at_once_who_waits_for_it() {
    let server = with(CONFIG).await;
    let body = r#"{"service": "api"}"#;
    post(&server, "/v1/acquire", body).await;
    let (second, ()) = tokio::join!(post(&server, "/v1/acquire", body), async {
        until(|| async { status(&server).await["waiting"] == 1 }).await;
        put(&server, "/v1/limits/api/concurrency", r#"{"bound": 2}"#).await;
    });
    assert_eq!(second.status, 200);
}

#[tokio::test]
async fn what_cannot_be_is_told_and_changes_nothing() {
    let server = with(&CONFIG.replace("concurrency = 1", "concurrency = 5\nthrottled_concurrency = 3")).await;
    for (path, body, expected) in [
        ("/v1/limits/nobody/requests/1m", r#"{"rate": "5/min"}"#, 404),
        ("/v1/limits/loop:a/requests/1m", r#"{"rate": "5/min"}"#, 404),
        ("/v1/limits/api/requests/1m", r#"{"rate": "5/h"}"#, 400),
        ("/v1/limits/api/requests/1m", r#"{"bound": 5}"#, 400),
        ("/v1/limits/api/requests/1m", r#"{"rate": "5/min", "bound": 5}"#, 400),
        ("/v1/limits/api/requests/1m", r#"{}"#, 400),
        ("/v1/limits/api/requests/1m", r#"{"rat": "5/min"}"#, 400),
        ("/v1/limits/api/concurrency", r#"{"bound": 0}"#, 400),
        ("/v1/limits/api/concurrency", r#"{"bound": 2}"#, 400),
        ("/v1/limits/api%2", r#"{"bound": 2}"#, 400),
        ("/v1/backoff/nobody", r#"{"ms": 5}"#, 404),
        ("/v1/backoff/api", r#"{"ms": -5}"#, 400),
        ("/v1/status", r#"{}"#, 405),
    ] {
        assert_eq!(put(&server, path, body).await.status.as_u16(), expected, "{path} {body}");
    }
    assert_eq!(capacity(&server, "api/concurrency").await, 5);
    assert_eq!(capacity(&server, "api/requests/1m").await, 60);
}

#[tokio::test]
async fn a_change_that_does_not_go_with_a_new_file_is_dropped_and_not_the_file() {
    let server = with(CONFIG.replace("concurrency = 1", "concurrency = 5").as_str()).await;
    put(&server, "/v1/limits/api/concurrency", r#"{"bound": 2}"#).await;
    let other = CONFIG.replace("concurrency = 1", "concurrency = 5\nthrottled_concurrency = 3");
    server.reconfigure(parsed(&other)).expect("the file is right");
    assert_eq!(capacity(&server, "api/concurrency").await, 5);
}

#[tokio::test]
async fn a_window_is_set_and_cleared_and_whoever_waits_for_it_goes() {
    let server = with(CONFIG).await;
    assert_eq!(put(&server, "/v1/backoff/api", r#"{"ms": 600000}"#).await.status, 200);
    let (granted, ()) =
        tokio::join!(post(&server, "/v1/acquire", r#"{"service": "api", "timeout_ms": 900000}"#), async {
            until(|| async { status(&server).await["waiting"] == 1 }).await;
            let cleared = send(&server, "DELETE", "/v1/backoff/api", &[], "").await.expect("an answer");
            assert_eq!(cleared.json()["cleared"], true);
        });
    assert_eq!(granted.status, 200);
    let again = send(&server, "DELETE", "/v1/backoff/api", &[], "").await.expect("an answer");
    assert_eq!(again.json()["cleared"], false);
}

/// Reads events until one of that kind comes.
pub async fn event(stream: &mut Open, kind: &str) -> Value {
    let mut seen = String::new();
    let read = async {
        loop {
            seen += &stream.next().await.unwrap_or_else(|| panic!("no {kind} in {seen}"));
            let mut events = seen.split("\n\n").filter_map(|event| event.strip_prefix("event: "));
            if let Some(data) = events.find_map(|event| event.strip_prefix(kind)?.strip_prefix("\ndata: ")) {
                return serde_json::from_str(data).expect("JSON");
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), read).await.expect("it happens")
}

#[tokio::test]
async fn whoever_listens_is_told_what_happens_until_it_stops() {
    let config = format!("{CONFIG}[services.b]\nbreaker = {{ failures = 1, open_for = \"1h\" }}\n");
    let server = with(&config).await;
    let mut events = open(&server, "GET", "/v1/events", &[], "").await.expect("a stream");
    assert_eq!(events.response.headers()["content-type"], "text/event-stream");

    put(&server, "/v1/limits/api/concurrency", r#"{"bound": 2}"#).await;
    assert_eq!(
        event(&mut events, "limit_changed").await,
        serde_json::json!({ "name": "api/concurrency", "to": { "bound": 2 } })
    );
    post(&server, "/v1/acquire", r#"{"service": "api", "cost": {"requests": 1000}}"#).await;
    let refused = event(&mut events, "refused").await;
    assert_eq!((&refused["service"], &refused["code"]), (&"api".into(), &"too_large".into()));
    put(&server, "/v1/backoff/api", r#"{"ms": 400}"#).await;
    assert_eq!(event(&mut events, "window_opened").await["key"], "api");
    assert_eq!(event(&mut events, "window_closed").await["key"], "api");
    let permit = post(&server, "/v1/acquire", r#"{"service": "b"}"#).await.json();
    let path = format!("/v1/permits/{}/complete", permit["permit"].as_str().expect("a permit"));
    post(&server, &path, r#"{"outcome": "failed"}"#).await;
    assert_eq!(event(&mut events, "breaker").await["state"], "open");

    let stopping = tokio::spawn(server.stop(Duration::from_secs(30)));
    event(&mut events, "stopping").await;
    assert_eq!(events.next().await, None);
    tokio::time::timeout(Duration::from_secs(5), stopping)
        .await
        .expect("nobody holds it up")
        .expect("stopped");
}

#[tokio::test]
async fn a_listener_who_leaves_is_forgotten() {
    let server = with(CONFIG).await;
    let mut events = open(&server, "GET", "/v1/events", &[], "").await.expect("a stream");
    events.next().await;
    assert_eq!(status(&server).await["connections"], 2);
    events.hang_up();
    until(|| async { status(&server).await["connections"] == 1 }).await;
    assert_eq!(get(&server, "/healthz").await.status, 200);
}
