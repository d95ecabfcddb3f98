//! A client that sees what the upstream has left: it sends a call as soon as that will be accepted, the high ones first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tidegate_sim::upstream::http::LimitedServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::Jobs;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(1);

/// Does all jobs and says how long each of high priority took, in seconds.
pub async fn run(server: Arc<LimitedServer>, jobs: Jobs) -> Result<Vec<f64>> {
    let start = Instant::now();
    let mut high: VecDeque<Instant> =
        (0..jobs.high).map(|number| start + jobs.arrival(number, jobs.high)).collect();
    let mut normal = jobs.normal;
    let (mut sent, mut done, mut took) = (0, 0, Vec::new());
    let mut under_way = JoinSet::new();
    while done < jobs.normal + jobs.high {
        let seen = server.counts_json();
        let count = |value: &serde_json::Value| value.as_u64().context("a count");
        let not_there_yet = sent - count(&seen["us"]["received"])?;
        for _ in not_there_yet..count(&seen["limits"][0]["remaining"])? {
            let since = match high.front().copied().filter(|arrived| *arrived <= Instant::now()) {
                Some(arrived) => {
                    high.pop_front();
                    Some(arrived)
                }
                None if normal > 0 => {
                    normal -= 1;
                    None
                }
                None => break,
            };
            sent += 1;
            let address = server.address();
            under_way.spawn(async move { (since, call(address).await) });
        }
        sleep(LOOK).await;
        while let Some(ended) = under_way.try_join_next() {
            match ended? {
                (since, Ok(true)) => {
                    done += 1;
                    took.extend(since.map(|since| since.elapsed().as_secs_f64()));
                }
                // It failed: once more.
                (Some(since), _) => high.push_front(since),
                (None, _) => normal += 1,
            }
        }
    }
    Ok(took)
}

/// Whether a call succeeds.
async fn call(address: std::net::SocketAddr) -> Result<bool> {
    let mut stream = TcpStream::connect(address).await?;
    let body = r#"{"model":"sim","max_tokens":8,"messages":[{"role":"user","content":"What is a tide?"}]}"#;
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: sim\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).await?;
    Ok(reply.starts_with(b"HTTP/1.1 200"))
}
