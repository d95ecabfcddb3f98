//! A reqwest client that knows its limits.
//!
//! The program sends requests as it always did. The middleware lets them go when there is room, sends those again
//! that were refused or failed, and settles what each really cost from the usage in its reply.
//!
//! ```sh
//! cargo run --features reqwest --example reqwest_client
//! ```

mod common;

use reqwest_middleware::ClientBuilder;
use tidegate::reqwest::{Attempts, Limited};
use tidegate::{Call, Priority};
use tokio::task::JoinSet;

const CALLS: usize = 90;
const QUESTION: &str = r#"{"model": "sea-1", "messages": [{"role": "user", "content": "What is the sea?"}]}"#;

#[tokio::main]
pub async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let server = common::upstream(0.03).await?;
    let limited = Limited::new(common::gate()?, Call::to("api")).repeatable();
    let client = ClientBuilder::new(reqwest::Client::new()).with(limited).build();
    let url = format!("{}/v1/chat/completions", server.url());
    let mut summary = common::Summary::begin();

    let mut calls = JoinSet::new();
    for priority in [Priority::Low, Priority::High] {
        for _ in 0..CALLS {
            let call = Call::to("api").priority(priority);
            let request = client.post(&url).body(QUESTION).with_extension(call);
            calls.spawn(async move {
                let reply = request.send().await?.error_for_status()?;
                let attempts = reply.extensions().get::<Attempts>().copied();
                reply.bytes().await?;
                Ok::<_, reqwest_middleware::Error>((
                    priority,
                    attempts.map(|attempts| attempts.waited).unwrap_or_default(),
                ))
            });
        }
    }
    while let Some(call) = calls.join_next().await {
        let (priority, waited) = call??;
        summary.done(priority, waited);
    }
    summary.print("reqwest", 2 * CALLS, &server);
    Ok(())
}
