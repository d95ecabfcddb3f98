//! Replies that are compressed though they were asked not to be: read like any other, and passed on as they are.

use std::io::Write;

use tokio::io::AsyncWriteExt;

use super::client::send;
use super::script::Script;
use super::*;

const USAGE: &str =
    r#"{"choices": [], "usage": {"prompt_tokens": 4000, "completion_tokens": 1000, "total_tokens": 5000}}"#;
const TOKENS: &str = "tokens = { limit = \"1M/h\", burst = \"1M\" }";

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).expect("in memory");
    encoder.finish().expect("in memory")
}

fn deflate(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).expect("in memory");
    encoder.finish().expect("in memory")
}

fn br(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    brotli::BrotliCompress(&mut text.as_bytes(), &mut out, &brotli::enc::BrotliEncoderParams::default())
        .expect("in memory");
    out
}

fn zstd(text: &str) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(text.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest)
}

/// An upstream that answers every request with this.
async fn says(head: &str, body: Vec<u8>) -> Script {
    let head = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    Script::plays(move |mut stage| {
        let said = [head.as_bytes(), &body].concat();
        async move { stage.stream.write_all(&said).await.unwrap_or_default() }
    })
    .await
}

type Encoder = fn(&str) -> Vec<u8>;

#[tokio::test]
async fn a_compressed_reply_is_settled_by_its_usage_and_passed_on_unchanged() {
    let events = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"sea\"}}}}]}}\n\ndata: {USAGE}\n\ndata: [DONE]\n\n"
    );
    let encoders: [(&str, Encoder); 4] = [("gzip", gzip), ("deflate", deflate), ("br", br), ("zstd", zstd)];
    for (coding, encode) in encoders {
        for (kind, text) in [("application/json", USAGE), ("text/event-stream", events.as_str())] {
            let body = encode(text);
            let head = format!("200 OK\r\ncontent-type: {kind}\r\ncontent-encoding: {coding}");
            let upstream = says(&head, body.clone()).await;
            let server = sidecar(&upstream.url(), TOKENS).await;
            let headers = [("accept-encoding", "gzip, br")];
            let sent = if kind == "application/json" { CHAT } else { STREAM };
            let reply = send(&server, "POST", "/api/v1/chat/completions", &headers, sent).await;
            let reply = reply.expect("an answer");
            assert_eq!((reply.header("content-encoding"), &reply.body[..]), (Some(coding), &body[..]));
            assert_eq!(limit(&server, "api/tokens/1h").await["used"], 5_000, "{coding} {kind}");
            let request = upstream.requests().pop().expect("asked");
            assert!(request.contains("accept-encoding: identity\r\n"), "{request}");
            holds_nothing(&server).await;
        }
    }
}

#[tokio::test]
async fn an_error_that_is_compressed_opens_its_window() {
    let body = r#"{"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}"#;
    let head = "403 Forbidden\r\ncontent-type: application/json\r\ncontent-encoding: gzip";
    let upstream = says(head, gzip(body)).await;
    let server = sidecar(&upstream.url(), "profile = \"github\"").await;
    let now = [("x-tidegate-timeout", "0")];
    let first = send(&server, "GET", "/api/repos", &now, "").await.expect("an answer");
    assert_eq!((first.status.as_u16(), &first.body[..]), (403, &gzip(body)[..]));
    let second = send(&server, "GET", "/api/repos", &now, "").await.expect("an answer");
    assert_eq!((second.status.as_u16(), upstream.requests().len()), (429, 1), "{}", second.text());
    holds_nothing(&server).await;
}

#[tokio::test]
async fn a_compressed_stream_is_not_held_back_for_an_event_that_is_to_be_hidden() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n";
    let beginning = gzip("data: {\"choices\":[]}\n\n");
    let sent = beginning.clone();
    let upstream = Script::plays(move |mut stage| {
        let said = [head.as_bytes(), &sent].concat();
        async move {
            stage.stream.write_all(&said).await.ok();
            stage.until_gone().await;
        }
    })
    .await;
    let server = sidecar(&upstream.url(), "profile = \"openai\"").await;
    let mut open =
        super::client::open(&server, "POST", "/api/v1/chat/completions", &[], STREAM).await.expect("a head");
    assert_eq!(open.next().await, Some(String::from_utf8_lossy(&beginning).into_owned()));
    open.hang_up();
    holds_nothing(&server).await;
}

#[tokio::test]
async fn a_reply_of_any_length_is_settled_and_takes_no_memory() {
    let text = format!(r#"{{"data": "{}", {}"#, "sea ".repeat(5 << 20), &USAGE[1..]);
    let upstream = says("200 OK\r\ncontent-type: application/json", text.clone().into_bytes()).await;
    let config = format!(
        "buffer_memory = \"64KiB\"\n[services.api]\nupstream = \"{}\"\nconcurrency = 100\n{TOKENS}\n",
        upstream.url()
    );
    let config = Config::parse(&config).expect("valid");
    let server = started(Server::builder().config(config).listen("127.0.0.1:0")).await;
    let reply = send(&server, "POST", "/api/v1/chat/completions", &[], CHAT).await.expect("an answer");
    assert!(reply.body == text.as_bytes());
    assert_eq!(limit(&server, "api/tokens/1h").await["used"], 5_000);
    holds_nothing(&server).await;
}
