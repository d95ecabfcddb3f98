//! The permit API over the Unix socket: how many acquire + complete pairs a second.
//!
//! The sidecar and its clients are in one process, on runtimes of their own; a client is a connection on which a permit is
//! asked for, completed, and the next one asked for. So the processor time is that of both sides.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tidegate::Config;
use tidegate_server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::harness::{Effort, cpu_seconds, quantile};

const RUNS: usize = 5;
/// Limits that never bind: what is measured is the way there and back.
const CONFIG: &str = "[global]\nconcurrency = 400\n[services.git]\nconcurrency = 100\n\
    requests = { limit = \"1G/min\", algorithm = \"token-bucket\", burst = \"1G\" }\n";

pub fn table(effort: Effort) -> Result<()> {
    let span = Duration::from_millis(if effort == Effort::Full { 3_000 } else { 50 });
    let socket = std::env::temp_dir().join(format!("tidegate-bench-{}.sock", std::process::id()));
    let server_runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let client_runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let builder = Server::builder().config(Config::parse(CONFIG)?).listen("127.0.0.1:0").socket(&socket);
    let server = server_runtime.block_on(builder.start())?;
    println!("## Permits over the Unix socket: acquire and complete\n");
    println!(
        "| connections | pairs/s, median of {RUNS} | slowest run | fastest run | CPU of both sides, µs a pair |"
    );
    println!("|--:|--:|--:|--:|--:|");
    for connections in [1, 16, 64] {
        let mut rates = Vec::new();
        let mut cpu = Vec::new();
        for _ in 0..RUNS {
            let before = cpu_seconds();
            let start = Instant::now();
            let pairs = client_runtime.block_on(run(&socket, connections, start + span))?;
            rates.push(pairs as f64 / start.elapsed().as_secs_f64());
            cpu.push((cpu_seconds() - before) * 1e6 / pairs as f64);
        }
        println!(
            "| {connections} | {:.0} | {:.0} | {:.0} | {:.1} |",
            quantile(&rates, 0.5),
            quantile(&rates, 0.0),
            quantile(&rates, 1.0),
            quantile(&cpu, 0.5)
        );
    }
    println!();
    server_runtime.block_on(server.stop(Duration::from_secs(1)));
    Ok(())
}

/// How many pairs all clients together got done until then.
async fn run(socket: &PathBuf, connections: usize, until: Instant) -> Result<u64> {
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let stream = UnixStream::connect(socket).await.context("it listens")?;
        clients.spawn(client(stream, until));
    }
    let mut pairs = 0;
    while let Some(done) = clients.join_next().await {
        pairs += done??;
    }
    Ok(pairs)
}

async fn client(mut stream: UnixStream, until: Instant) -> Result<u64> {
    let mut pairs = 0;
    let mut said = Vec::with_capacity(1_024);
    while Instant::now() < until {
        post(&mut stream, "/v1/acquire", r#"{"service":"git"}"#, &mut said).await?;
        let text = std::str::from_utf8(&said)?;
        let (_, permit) = text.split_once("\"permit\":\"").context("a permit")?;
        let path = format!("/v1/permits/{}/complete", &permit[..32]);
        post(&mut stream, &path, r#"{"status":200}"#, &mut said).await?;
        pairs += 1;
    }
    Ok(pairs)
}

/// Sends a request and reads its whole answer into `said`.
async fn post(stream: &mut UnixStream, path: &str, body: &str, said: &mut Vec<u8>) -> Result<()> {
    let length = body.len();
    let request =
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await?;
    said.clear();
    loop {
        if stream.read_buf(said).await? == 0 {
            bail!("it hung up");
        }
        let Some(head) = said.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let text = std::str::from_utf8(&said[..head])?;
        if !text.starts_with("HTTP/1.1 200") {
            bail!("{}", String::from_utf8_lossy(said));
        }
        let length = text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        let length: usize = length.context("a length")?.parse()?;
        if said.len() >= head + 4 + length {
            return Ok(());
        }
    }
}
