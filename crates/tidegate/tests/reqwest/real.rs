//! Against a real upstream on a loopback port, which counts for itself. On the real clock.

use std::time::Duration;

use reqwest_middleware::ClientBuilder;
use tidegate::reqwest::Limited;
use tidegate::{Call, Config, Dimension, Gate};
use tidegate_core::Rate;
use tidegate_sim::upstream::http::{LimitedServer, Options};
use tidegate_sim::{HeaderStyle, Model, UpstreamLimit, UpstreamSpec};

/// So many an hour: nothing comes back while a test runs.
const AN_HOUR: Duration = Duration::from_secs(3600);

async fn upstream(dimension: Dimension, units: u64, window: Duration) -> LimitedServer {
    let rate = Rate::new(units, window).expect("a rate");
    let limit = UpstreamLimit { model: Model::TokenBucket, dimension, rate, burst: None, hidden: false };
    let spec =
        UpstreamSpec { limits: vec![limit], headers: HeaderStyle::RetryAfter, ..UpstreamSpec::default() };
    LimitedServer::start(&spec, Options::default()).await.expect("it listens")
}

fn gate(limits: &str) -> Gate {
    let config = Config::parse(&format!("[services.api]\nconcurrency = 4\n{limits}")).expect("valid");
    Gate::builder().config(config).build().expect("valid")
}

async fn ask(gate: &Gate, server: &LimitedServer, body: &'static str) -> String {
    let limited = Limited::new(gate.clone(), Call::to("api"));
    let client = ClientBuilder::new(reqwest::Client::new()).with(limited).build();
    let request = client.post(format!("{}/v1/chat/completions", server.url())).body(body);
    let reply = request.header("x-sim-output-tokens", "30").send().await.expect("answered");
    assert!(reply.status().is_success(), "{}", reply.status());
    reply.text().await.expect("a body")
}

#[tokio::test]
async fn what_the_gate_counts_is_what_the_upstream_counts() {
    let server = upstream(Dimension::Tokens, 10_000, AN_HOUR).await;
    let gate = gate("tokens = { limit = \"10k/h\", burst = 10000 }\n");
    let whole = r#"{"messages": [{"role": "user", "content": "What is the sea?"}], "max_tokens": 100}"#;
    assert!(ask(&gate, &server, whole).await.contains("\"usage\""));
    let events = r#"{"messages": [{"role": "user", "content": "What is the sea?"}], "max_tokens": 100,
        "stream": true, "stream_options": {"include_usage": true}}"#;
    assert!(ask(&gate, &server, events).await.ends_with("data: [DONE]\n\n"));

    let (ours, theirs) =
        (gate.limit("api/tokens/1h").expect("known").used, server.counts().upstream.us.units[0]);
    assert_eq!((ours, theirs), (68, 68), "four tokens sent and thirty received, twice");
    assert_eq!(gate.limit("api/concurrency").expect("known").used, 0);
}

#[tokio::test]
async fn a_limit_that_only_the_upstream_knows_loses_nothing() {
    let server = upstream(Dimension::Requests, 10, Duration::from_millis(500)).await;
    let gate = gate("retry = { max_retries = 20 }\n");
    let asks = (0..40).map(|_| {
        let (gate, server) = (&gate, &server);
        async move { ask(gate, server, r#"{"messages": []}"#).await }
    });
    all(asks).await;
    let us = server.counts().upstream.us;
    assert_eq!(us.accepted, 40);
    assert!(us.refused > 0, "it was met");
}

/// All of them at once.
async fn all<F: Future>(futures: impl Iterator<Item = F>) {
    let mut waiting: Vec<_> = futures.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        waiting.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if waiting.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
