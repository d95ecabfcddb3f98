//! What a call would meet, asked without making it.

use serde_json::json;

use super::changing::{put, with};
use super::client::{Reply, post};
use super::*;

const CONFIG: &str = "[services.api]\nrequests = { limit = \"6/min\", algorithm = \"token-bucket\", burst = 2 }\n\
    [services.slots]\nconcurrency = 1\n[services.b]\nbreaker = { failures = 1, open_for = \"1h\" }\n";

async fn explained(server: &Server, call: &str) -> Value {
    let reply: Reply = post(server, "/v1/explain", call.to_owned()).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

#[tokio::test]
async fn a_call_that_fits_would_go_and_nothing_is_taken_for_the_question() {
    let server = with(CONFIG).await;
    for _ in 0..5 {
        let told = explained(&server, r#"{"service": "api", "loop": "a", "priority": "high"}"#).await;
        assert_eq!((&told["goes_now"], &told["expected_wait_ms"]), (&json!(true), &json!(0)), "{told}");
        assert_eq!((&told["priority"], &told["binding"]), (&json!("high"), &Value::Null));
        assert_eq!(
            (&told["limits"][0]["name"], &told["limits"][0]["used"]),
            (&json!("api/requests/1m"), &json!(0))
        );
    }
    assert_eq!(status(&server).await["services"]["api"]["granted"], 0);
}

#[tokio::test]
async fn one_that_would_wait_is_told_its_limit_its_position_its_wait_and_what_frees_it() {
    let server = with(CONFIG).await;
    post(&server, "/v1/acquire", r#"{"service": "api", "cost": {"requests": 2}}"#).await;
    let waits = post(&server, "/v1/acquire", r#"{"service": "api"}"#);
    let asks = async {
        until(|| async { status(&server).await["waiting"] == 1 }).await;
        let normal = explained(&server, r#"{"service": "api"}"#).await;
        assert_eq!(
            (&normal["binding"], &normal["position"]),
            (&json!("api/requests/1m"), &json!(2)),
            "{normal}"
        );
        let wait = normal["expected_wait_ms"].as_u64().expect("known");
        assert!(
            (15_000..=20_000).contains(&wait),
            "two calls, ten seconds each, some of which passed: {wait}"
        );
        let words = normal["freed_by"].as_str().expect("words");
        assert!(words.contains("tidegate limit set 'api/requests/1m'"), "{words}");
        let high = explained(&server, r#"{"service": "api", "priority": "high"}"#).await;
        assert_eq!(high["position"], 1, "it would go before the one that waits");
        assert_eq!(status(&server).await["waiting"], 1, "whoever asks does not wait");
    };
    tokio::select! {
        reply = waits => panic!("ten seconds are not over: {reply:?}"),
        () = asks => {}
    }
}

#[tokio::test]
async fn slots_windows_breakers_and_what_never_fits_are_told_apart() {
    let server = with(CONFIG).await;
    post(&server, "/v1/acquire", r#"{"service": "slots"}"#).await;
    let slot = explained(&server, r#"{"service": "slots"}"#).await;
    assert_eq!((&slot["binding"], &slot["expected_wait_ms"]), (&json!("slots/concurrency"), &Value::Null));
    assert_eq!(slot["freed_by"], "the end of one of 1 in flight");

    put(&server, "/v1/backoff/api", r#"{"ms": 60000}"#).await;
    let window = explained(&server, r#"{"service": "api"}"#).await;
    assert_eq!(window["binding"], "api/backoff");
    assert!(window["expected_wait_ms"].as_u64().is_some_and(|ms| ms > 50_000), "{window}");
    assert!(window["freed_by"].as_str().expect("words").contains("tidegate backoff clear 'api'"), "{window}");

    let never = explained(&server, r#"{"service": "api", "cost": {"requests": 3}}"#).await;
    assert_eq!((&never["fits"], &never["binding"]), (&json!(false), &json!("api/requests/1m")), "{never}");

    let permit = post(&server, "/v1/acquire", r#"{"service": "b"}"#).await.json();
    let path = format!("/v1/permits/{}/complete", permit["permit"].as_str().expect("a permit"));
    post(&server, &path, r#"{"outcome": "failed"}"#).await;
    let open = explained(&server, r#"{"service": "b"}"#).await;
    assert_eq!(open["binding"], "b/breaker");
    assert!(open["expected_wait_ms"].as_u64().is_some_and(|ms| ms > 3_500_000), "{open}");
}

#[tokio::test]
async fn what_is_not_there_is_told() {
    let server = with(CONFIG).await;
    for (call, expected) in [
        (r#"{"service": "nobody"}"#, 404),
        (r#"{"service": "api", "priority": "urgent"}"#, 400),
        (r#"{"sevice": "api"}"#, 400),
    ] {
        assert_eq!(post(&server, "/v1/explain", call).await.status.as_u16(), expected, "{call}");
    }
}
