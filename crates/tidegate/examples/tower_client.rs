//! Any tower service behind a gate: here hyper's client.
//!
//! The layer asks for a permit in `poll_ready`, so `ready` waits until the next request may go.
//!
//! ```sh
//! cargo run --features tower --example tower_client
//! ```

mod common;

use std::time::Instant;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tidegate::tower::{BoxError, GateLayer};
use tidegate::{Call, Priority};
use tower::{Service, ServiceBuilder, ServiceExt};

const CALLS: usize = 100;

#[tokio::main]
pub async fn main() -> Result<(), BoxError> {
    let server = common::upstream(0.0).await?;
    let gate = common::gate()?;
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();

    // One service a priority; all of them spend from the same limit.
    let limited = |priority| {
        let layer = GateLayer::new(gate.clone(), Call::to("api").priority(priority));
        ServiceBuilder::new().layer(layer).service(client.clone())
    };
    let mut summary = common::Summary::begin();
    let mut calls = tokio::task::JoinSet::new();
    for (priority, service) in
        [(Priority::Low, limited(Priority::Low)), (Priority::High, limited(Priority::High))]
    {
        for _ in 0..CALLS {
            let (mut service, url) = (service.clone(), server.url());
            calls.spawn(async move {
                let start = Instant::now();
                loop {
                    let ready = service.ready().await?;
                    let waited = start.elapsed();
                    let reply = ready.call(Request::get(&url).body(Empty::new())?).await?;
                    if reply.status().is_success() {
                        reply.into_body().collect().await?;
                        return Ok::<_, BoxError>((priority, waited));
                    }
                }
            });
        }
    }
    while let Some(call) = calls.join_next().await {
        let (priority, waited) = call??;
        summary.done(priority, waited);
    }
    summary.print("tower", 2 * CALLS, &server);
    Ok(())
}
