//! Answers look as the vendor's do, and the engine's reader understands them.

use serde_json::{Value, json};
use tidegate_core::reply::{Usage, Verdict};
use tidegate_sim::Outage;

use super::client::{get, post, send};
use super::*;

/// Three tokens in, five out.
fn asked(stream: bool) -> Value {
    json!({
        "model": "m-1", "max_tokens": 5, "stream": stream,
        "messages": [{ "role": "user", "content": "How are you" }],
    })
}

#[track_caller]
fn assert_usage(usage: Option<&Usage>, input: u64, output: u64) {
    let usage = usage.expect("no usage");
    assert_eq!((usage.input_tokens, usage.output_tokens), (Some(input), Some(output)));
}

/// The data of all events, parsed; `[DONE]` is left out.
fn events(text: &str) -> Vec<Value> {
    let data =
        text.split("\n\n").filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data: ")));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test]
async fn a_chat_completion_has_text_and_usage() {
    let server = started(&styled(HeaderStyle::OpenAi, &[a_minute(Dimension::Requests, 60)])).await;
    let reply = post(&server, "/v1/chat/completions", &asked(false)).await;
    assert_eq!(reply.status, 200);
    let body = reply.json();
    assert_eq!((&body["object"], &body["model"]), (&json!("chat.completion"), &json!("m-1")));
    assert_eq!(body["choices"][0]["message"]["content"], "sea sea sea sea sea ");
    assert_usage(reply.read("openai").usage.as_ref(), 3, 5);
    assert_eq!(reply.headers["x-ratelimit-limit-requests"], "60");
    assert_eq!(reply.headers["x-ratelimit-remaining-requests"], "59");
    assert_eq!(reply.headers["x-ratelimit-reset-requests"], "1s");
    assert!(reply.headers.contains_key("date"));
}

#[tokio::test]
async fn a_chat_stream_tells_its_usage_only_if_asked() {
    let server = started(&UpstreamSpec::default()).await;
    let silent = post(&server, "/v1/chat/completions", &asked(true)).await;
    assert!(silent.headers["content-type"].to_str().unwrap().starts_with("text/event-stream"));
    assert!(silent.text().ends_with("data: [DONE]\n\n"));
    assert!(silent.read("openai").usage.is_none() && !silent.text().contains("usage"));

    let mut body = asked(true);
    body["stream_options"] = json!({ "include_usage": true });
    let reply = post(&server, "/v1/chat/completions", &body).await;
    let chunks = events(&reply.text());
    let (last, others) = chunks.split_last().unwrap();
    assert_eq!((&last["choices"], &last["usage"]["total_tokens"]), (&json!([]), &json!(8)));
    assert!(others.iter().all(|chunk| chunk["usage"].is_null() && chunk["choices"][0]["delta"].is_object()));
    let text: String =
        others.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "sea sea sea sea sea ");
    assert_usage(reply.read("openai").usage.as_ref(), 3, 5);
}

#[tokio::test]
async fn a_response_has_the_shape_of_its_own_api() {
    let server = started(&UpstreamSpec::default()).await;
    let body = |stream| json!({ "input": "How are you", "max_output_tokens": 5, "stream": stream });
    let reply = post(&server, "/v1/responses", &body(false)).await;
    assert_eq!(reply.json()["output"][0]["content"][0]["text"], "sea sea sea sea sea ");
    assert_usage(reply.read("openai").usage.as_ref(), 3, 5);
    let stream = post(&server, "/v1/responses", &body(true)).await;
    let events = events(&stream.text());
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!((kinds[0], *kinds.last().unwrap()), ("response.created", "response.completed"));
    assert_eq!(kinds.iter().filter(|kind| **kind == "response.output_text.delta").count(), 5);
    assert!(events.iter().enumerate().all(|(place, event)| event["sequence_number"] == place));
    assert_usage(stream.read("openai").usage.as_ref(), 3, 5);
}

#[tokio::test]
async fn embeddings_come_as_numbers_or_base64_one_a_text() {
    let server = started(&UpstreamSpec::default()).await;
    let body = json!({ "model": "e", "input": ["How are you", "fine"] });
    let reply = post(&server, "/v1/embeddings", &body).await;
    assert_eq!(reply.json()["data"].as_array().unwrap().len(), 2);
    assert_eq!(reply.json()["data"][1]["embedding"].as_array().unwrap().len(), 8);
    assert_eq!(reply.json()["usage"], json!({ "prompt_tokens": 4, "total_tokens": 4 }));
    let body = json!({ "input": "one", "encoding_format": "base64" });
    let reply = post(&server, "/v1/embeddings", &body).await;
    assert_eq!(reply.json()["data"][0]["embedding"].as_str().unwrap().len(), 44, "32 bytes");
}

#[tokio::test]
async fn a_message_has_text_and_usage_whole_or_as_events() {
    let server = started(&UpstreamSpec::default()).await;
    let reply = post(&server, "/v1/messages", &asked(false)).await;
    assert_eq!(reply.json()["content"][0]["text"], "sea sea sea sea sea ");
    assert_usage(reply.read("anthropic").usage.as_ref(), 3, 5);
    let stream = post(&server, "/v1/messages", &asked(true)).await;
    let kinds: Vec<Value> = events(&stream.text()).iter().map(|event| event["type"].clone()).collect();
    assert_eq!(kinds[..3], ["message_start", "content_block_start", "ping"]);
    assert_eq!(kinds[3..8], ["content_block_delta"; 5]);
    assert_eq!(kinds[8..], ["content_block_stop", "message_delta", "message_stop"]);
    assert!(stream.text().starts_with("event: message_start\ndata: "));
    assert_usage(stream.read("anthropic").usage.as_ref(), 3, 5);
}

#[tokio::test]
async fn anything_else_is_told_what_it_asked() {
    let server = started(&UpstreamSpec::default()).await;
    let reply = send(&server, "PUT", "/repos/x?page=2", &[("x-sim-id", "a")], "12345").await.unwrap();
    let body = reply.json();
    assert_eq!(
        (&body["method"], &body["path"], &body["bytes"]),
        (&json!("PUT"), &json!("/repos/x"), &json!(5))
    );
    assert_eq!(reply.headers["x-sim-id"], "a");
    assert_eq!(get(&server, "/v1/chat/completions").await.json()["method"], "GET");
}

#[tokio::test]
async fn openai_refuses_with_the_exact_wait_in_its_words() {
    let server = started(&styled(HeaderStyle::OpenAi, &[a_minute(Dimension::Tokens, 30_000)])).await;
    let body = |tokens: u64| json!({ "model": "gpt", "max_tokens": tokens, "messages": [] });
    let ok = send(
        &server,
        "POST",
        "/v1/chat/completions",
        &[("x-sim-output-tokens", "1")],
        body(20_000).to_string(),
    );
    assert_eq!(ok.await.unwrap().status, 200, "the maximum is counted, whatever comes out");
    let reply = post(&server, "/v1/chat/completions", &body(15_000)).await;
    let reading = reply.read("openai");
    assert_eq!((reply.status.as_u16(), reading.verdict), (429, Verdict::RateLimited));
    // 20,000 + 15,000 − 30,000 at 500 a second, less what flowed in meanwhile.
    let wait = reading.body_retry_after_ms.unwrap();
    assert!((8_000..=10_000).contains(&wait), "{wait}");
    assert_eq!(reading.retry_after_ms, Some(wait.div_ceil(1000) * 1000));
    assert_eq!(reply.json()["error"]["type"], "tokens");
    let too_large = post(&server, "/v1/chat/completions", &body(30_001)).await.read("openai");
    assert_eq!(too_large.verdict, Verdict::QuotaExhausted, "retrying never helps");
}

#[tokio::test]
async fn every_vendor_refuses_in_its_own_shape() {
    for (style, path, vendor, status) in [
        (HeaderStyle::Azure, "/openai/deployments/d/chat/completions", "azure-openai", 429),
        (HeaderStyle::Anthropic, "/v1/messages", "anthropic", 429),
        (HeaderStyle::GitHub, "/repos/x/issues", "github", 403),
        (HeaderStyle::IetfOld, "/things", "ietf", 429),
        (HeaderStyle::IetfNew, "/things", "ietf", 429),
        (HeaderStyle::RetryAfter, "/things", "generic", 429),
        (HeaderStyle::None, "/v1/chat/completions", "openai", 429),
    ] {
        let server = started(&styled(style, &[a_minute(Dimension::Requests, 1)])).await;
        assert_eq!(post(&server, path, &asked(false)).await.status, 200);
        let reply = post(&server, path, &asked(true)).await;
        let reading = reply.read(vendor);
        assert_eq!((reply.status.as_u16(), reading.verdict), (status, Verdict::RateLimited), "{style:?}");
        let bare = style == HeaderStyle::None;
        assert_eq!(
            bare,
            reading.limits.is_empty()
                && reading.body_retry_after_ms.is_none()
                && reading.retry_after_ms.is_none()
        );
    }
}

#[tokio::test]
async fn slots_and_outages_are_told_from_rate_limits() {
    let server = started(&UpstreamSpec {
        latency: tidegate_sim::Spread::span(Duration::from_secs(60)),
        ..styled(HeaderStyle::OpenAi, &[slots(1)])
    })
    .await;
    let held = tokio::spawn({
        let address = server.address();
        async move {
            use tokio::io::AsyncWriteExt;
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            std::future::pending::<()>().await;
        }
    });
    until(|| server.counts().running == 1).await;
    let reading = post(&server, "/v1/chat/completions", &asked(false)).await.read("openai");
    assert_eq!(reading.verdict, Verdict::ConcurrencyLimited);
    held.abort();

    let outage = Outage { at: Duration::ZERO, lasts: Duration::from_secs(600) };
    let down = started(&UpstreamSpec { outages: vec![outage], ..UpstreamSpec::default() }).await;
    for (path, vendor) in [("/v1/messages", "anthropic"), ("/v1/responses", "openai"), ("/x", "generic")] {
        let reply = post(&down, path, &asked(false)).await;
        assert_eq!((reply.status.as_u16(), reply.read(vendor).verdict), (503, Verdict::Overloaded));
    }
}
