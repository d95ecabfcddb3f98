//! The sidecar as its clients and upstreams meet it: over sockets, against an upstream that counts for itself, or one
//! that plays a part. After each case it must hold nothing.

mod accounting;
mod changing;
mod client;
mod compressed;
mod explaining;
mod faults;
mod forwarding;
mod gone;
mod guard;
mod hints;
mod idle;
mod learning;
mod memory;
mod permits;
mod refusals;
mod retries;
mod script;
#[cfg(unix)]
mod socket;
mod stopping;
mod streams;
mod tokens;
mod upgrades;
mod workers;

use std::time::Duration;

use serde_json::Value;
use tidegate::Config;
use tidegate_core::{Dimension, Rate};
use tidegate_server::{Server, ServerBuilder, Timeouts};
use tidegate_sim::upstream::http::{LimitedServer, Options};
use tidegate_sim::{Model, UpstreamLimit, UpstreamSpec};

use client::{Reply, get};

const CHAT: &str =
    r#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "What is the sea?"}], "max_tokens": 8}"#;
const STREAM: &str = r#"{"model": "gpt-4o", "stream": true, "messages": [{"role": "user", "content": "What is the sea?"}], "max_tokens": 8}"#;

/// Shorter than any test would wait, and longer than anything takes that is to succeed.
const SHORT: Timeouts = Timeouts {
    client_head: Duration::from_millis(500),
    client: Duration::from_millis(500),
    connect: Duration::from_millis(500),
    upstream_head: Duration::from_millis(500),
    upstream: Duration::from_millis(500),
    upstream_idle: Duration::from_millis(500),
};

/// A sidecar in front of one upstream, under these keys of its service.
async fn sidecar(upstream: &str, keys: &str) -> Server {
    started(builder(upstream, keys)).await
}

/// The same with little patience.
async fn impatient(upstream: &str, keys: &str) -> Server {
    started(builder(upstream, keys).timeouts(SHORT)).await
}

fn builder(upstream: &str, keys: &str) -> ServerBuilder {
    let config = format!("[services.api]\nupstream = \"{upstream}\"\nconcurrency = 100\n{keys}\n");
    Server::builder().config(Config::parse(&config).expect("valid")).listen("127.0.0.1:0")
}

async fn started(builder: ServerBuilder) -> Server {
    builder.start().await.expect("it starts")
}

/// An upstream that accepts everything at once, or what its limits allow.
async fn upstream(limits: &[UpstreamLimit]) -> LimitedServer {
    let spec = UpstreamSpec { limits: limits.to_vec(), ..UpstreamSpec::default() };
    LimitedServer::start(&spec, Options::default()).await.expect("it starts")
}

fn a_second(requests: u64) -> UpstreamLimit {
    let rate = Rate::new(requests, Duration::from_secs(1)).expect("valid");
    UpstreamLimit {
        model: Model::TokenBucket,
        dimension: Dimension::Requests,
        rate,
        burst: None,
        hidden: false,
    }
}

/// What the sidecar says of itself.
async fn status(server: &Server) -> Value {
    get(server, "/v1/status").await.json()
}

async fn limit(server: &Server, name: &str) -> Value {
    let limits = get(server, "/v1/limits").await.json();
    let limits = limits["limits"].as_array().expect("a list");
    limits
        .iter()
        .find(|limit| limit["name"] == name)
        .cloned()
        .unwrap_or_else(|| panic!("no {name} in {limits:?}"))
}

/// Whatever happened, it is over: no call, no permit, no place in the queue and no byte is held.
async fn holds_nothing(server: &Server) {
    let mut last = Value::Null;
    for _ in 0..300 {
        let status = status(server).await;
        let slots = limit(server, "api/concurrency").await;
        last =
            serde_json::json!([status["calls"], status["waiting"], status["buffered_bytes"], slots["used"]]);
        if last == serde_json::json!([0, 0, 0, 0]) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("calls, waiting, bytes, slots: {last}");
}

/// Waits until something is so; half a minute is more than anything here may take.
async fn until<F: Future<Output = bool>>(mut so: impl FnMut() -> F) {
    for _ in 0..3_000 {
        if so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to pass");
}

fn number(reply: &Reply, header: &str) -> u64 {
    let value = reply.headers.get(header).unwrap_or_else(|| panic!("no {header} in {reply:?}"));
    value.to_str().expect("text").parse().expect("a number")
}
