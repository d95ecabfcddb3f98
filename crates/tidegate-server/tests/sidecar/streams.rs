//! Streams: event by event, settled by the usage in them, and refusals that come in one.

use std::sync::Arc;

use tokio::sync::Notify;

use super::client::{open, post, send};
use super::script::{Script, reply};
use super::*;

const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn an_event_is_there_before_the_next_one_is_said() {
    let seen = Arc::new(Notify::new());
    let next = seen.clone();
    let upstream = Script::plays(move |mut stage| {
        let next = next.clone();
        async move {
            stage.say(EVENTS).await;
            for number in 0..3 {
                stage.say(&format!("data: {number}\n\n")).await;
                next.notified().await;
            }
        }
    })
    .await;
    let server = sidecar(&upstream.url(), "").await;
    let mut stream = open(&server, "GET", "/api/events", &[], "").await.expect("a head");
    for number in 0..3 {
        assert_eq!(stream.next().await, Some(format!("data: {number}\n\n")));
        assert_eq!(limit(&server, "api/concurrency").await["used"], 1, "as long as it lasts");
        seen.notify_one();
    }
    assert_eq!(stream.next().await, None);
    holds_nothing(&server).await;
}

#[tokio::test]
async fn usage_is_asked_for_settled_and_hidden_again() {
    let upstream = upstream(&[]).await;
    // It counts the larger of input and answer on arrival, and keeps no estimate of ours above that.
    let keys = "profile = \"openai\"\nsettle = \"refund\"\ntokens = { limit = \"1000/h\", burst = 1000 }";
    let server = sidecar(&upstream.url(), keys).await;
    let reply = post(&server, "/api/v1/chat/completions", STREAM).await;
    let text = reply.text();
    assert!(text.ends_with("data: [DONE]\n\n") && text.contains("sea "), "{text}");
    assert!(!text.contains("total_tokens"), "nobody asked for it: {text}");
    // Four tokens of input and eight of answer; eight were reserved.
    assert_eq!(limit(&server, "api/tokens/1h").await["used"], 12);

    let asked =
        STREAM.replace("\"stream\": true", "\"stream\": true, \"stream_options\": {\"include_usage\": true}");
    let text = post(&server, "/api/v1/chat/completions", asked).await.text();
    assert!(text.contains("\"total_tokens\":12"), "whoever asks is told: {text}");
    assert_eq!(limit(&server, "api/tokens/1h").await["used"], 24);
    holds_nothing(&server).await;
}

#[tokio::test]
async fn a_body_that_is_signed_is_not_touched() {
    let upstream = Script::says(reply("200 OK", "", "")).await;
    let server = sidecar(&upstream.url(), "profile = \"openai\"").await;
    for header in [("authorization", "AWS4-HMAC-SHA256 Credential=x"), ("content-digest", "sha-256=:x:")] {
        send(&server, "POST", "/api/v1/chat/completions", &[header], STREAM).await.expect("an answer");
        let request = upstream.requests().pop().expect("asked");
        assert!(request.ends_with(STREAM), "{request}");
    }
    // Neither is one of a vendor that is not known to accept it.
    let server = sidecar(&upstream.url(), "").await;
    send(&server, "POST", "/api/v1/chat/completions", &[], STREAM).await.expect("an answer");
    assert!(upstream.requests().pop().expect("asked").ends_with(STREAM));
}

#[tokio::test]
async fn a_stream_that_can_be_read_is_asked_for_where_it_says_what_it_costs() {
    let upstream = Script::says(reply("200 OK", "", "")).await;
    let server = sidecar(&upstream.url(), "").await;
    for (body, kept) in [(CHAT, false), ("{}", true)] {
        send(&server, "POST", "/api/x", &[("accept-encoding", "gzip")], body).await.expect("an answer");
        let request = upstream.requests().pop().expect("asked");
        let expected = if kept { "accept-encoding: gzip" } else { "accept-encoding: identity" };
        assert!(request.contains(expected), "{request}");
    }
}

#[tokio::test]
async fn a_refusal_in_the_first_event_is_tried_again_and_never_seen() {
    let upstream = Script::plays(|mut stage| async move {
        if stage.number == 0 {
            stage.say(&EVENTS.replace("connection", "retry-after: 0\r\nconnection")).await;
            stage.say(": keep-alive\n\n").await;
            stage.say("event: error\ndata: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"slow\"}\n\n").await;
        } else {
            stage.say(EVENTS).await;
            stage.say("event: response.completed\ndata: {\"response\":{}}\n\n").await;
        }
    })
    .await;
    let server = sidecar(&upstream.url(), "profile = \"azure-openai\"").await;
    let reply = post(&server, "/api/openai/responses", STREAM).await;
    assert_eq!((reply.status.as_u16(), number(&reply, "x-tidegate-attempts")), (200, 2));
    assert_eq!(reply.text(), "event: response.completed\ndata: {\"response\":{}}\n\n");
    holds_nothing(&server).await;
}

#[tokio::test]
async fn a_stream_that_is_cut_off_keeps_what_was_reserved_and_frees_its_slot() {
    let upstream = Script::plays(|mut stage| async move {
        stage.say(&EVENTS.replace("connection: close", "transfer-encoding: chunked")).await;
        stage.say("9\r\ndata: 1\n\n\r\n").await;
        stage.reset();
    })
    .await;
    let keys = "tokens = { limit = \"1000/h\", burst = 1000 }";
    let server = sidecar(&upstream.url(), keys).await;
    let mut stream = open(&server, "POST", "/api/v1/x", &[], STREAM).await.expect("a head");
    assert_eq!(stream.next().await, Some("data: 1\n\n".into()));
    use http_body_util::BodyExt;
    let end = stream.response.body_mut().frame().await;
    assert!(matches!(end, Some(Err(_))), "a break, and no end: {end:?}");
    assert_eq!(limit(&server, "api/tokens/1h").await["used"], 12);
    holds_nothing(&server).await;
}

#[tokio::test]
async fn what_a_stream_costs_is_owed_while_it_goes_on() {
    let seen = Arc::new(Notify::new());
    let next = seen.clone();
    let upstream = Script::plays(move |mut stage| {
        let next = next.clone();
        async move {
            stage.say(EVENTS).await;
            let start =
                r#"{"type":"message_start","message":{"usage":{"input_tokens":10,"output_tokens":1}}}"#;
            let delta = r#"{"type":"message_delta","delta":{},"usage":{"output_tokens":300}}"#;
            let last = r#"{"type":"message_delta","delta":{},"usage":{"output_tokens":320}}"#;
            for event in [start, delta, last] {
                stage.say(&format!("data: {event}\n\n")).await;
                next.notified().await;
            }
        }
    })
    .await;
    let keys = "profile = \"anthropic\"\ntokens = { limit = \"1000/h\", burst = 1000 }";
    let server = sidecar(&upstream.url(), keys).await;
    let mut stream = open(&server, "POST", "/api/v1/messages", &[], STREAM).await.expect("a head");
    // Four tokens of input and eight of answer are reserved.
    for used in [12, 310] {
        stream.next().await.expect("an event");
        assert_eq!(limit(&server, "api/tokens/1h").await["used"], used);
        seen.notify_one();
    }
    stream.next().await.expect("an event");
    seen.notify_one();
    assert_eq!(stream.next().await, None);
    assert_eq!(limit(&server, "api/tokens/1h").await["used"], 330, "settled by the last word");
    holds_nothing(&server).await;
}
