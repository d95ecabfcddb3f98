//! What the sidecar learns about an upstream, and where it shows.

use serde_json::json;

use super::changing::{event, with};
use super::client::{open, post};
use super::*;

const CONFIG: &str = "[services.api]\npreset = \"openai\"\nrequests = \"60/min\"\n";

/// A call whose reply tells that the upstream allows less than the config says.
async fn taught(server: &Server) {
    let permit = post(server, "/v1/acquire", r#"{"service": "api"}"#).await.json();
    let path = format!("/v1/permits/{}/complete", permit["permit"].as_str().expect("a permit"));
    let told = r#"{"status": 200, "headers": {"x-ratelimit-limit-requests": "30",
        "x-ratelimit-remaining-requests": "12", "x-ratelimit-reset-requests": "36s"}}"#;
    assert_eq!(post(server, &path, told).await.status, 200);
}

#[tokio::test]
async fn what_was_learned_is_told_as_it_happens() {
    let server = with(CONFIG).await;
    let mut events = open(&server, "GET", "/v1/events", &[], "").await.expect("a stream");
    taught(&server).await;
    let learned = event(&mut events, "learned").await;
    assert_eq!(learned, json!({ "limit": "api/requests/1m", "what": "units", "told": 30, "in_force": 30 }));
}

#[tokio::test]
async fn what_was_learned_is_shown_beside_the_limit_and_in_the_status() {
    let server = with(CONFIG).await;
    assert_eq!(limit(&server, "api/requests/1m").await["learned"], Value::Null);
    taught(&server).await;
    let learned = limit(&server, "api/requests/1m").await["learned"].clone();
    assert_eq!((&learned["told"], &learned["in_force"]), (&30.into(), &30.into()), "{learned}");
    assert!(learned["algorithm"].is_string(), "{learned}");
    let status = status(&server).await;
    assert_eq!(status["learned"][0]["limit"], "api/requests/1m", "{status}");
    assert_eq!(status["learned"][0]["told"], 30);
}

#[tokio::test]
async fn before_the_first_reply_a_burst_leaves_time_for_the_way() {
    let bucket = r#"{ limit = "120/2s", algorithm = "token-bucket", burst = 120 }"#;
    let server = with(&format!("[services.api]\nrequests = {bucket}\n")).await;
    assert_eq!(limit(&server, "api/requests/2s").await["capacity"], 116);
}
