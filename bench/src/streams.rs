//! The sidecar under many: streams that flow, and calls that wait.
//!
//! 1,000 streams of server-sent events at once, ten events a second each. An event carries when it was sent, and is
//! measured when the client has it; the same streams on straight connections show what of that is the machine's. The
//! sidecar asks for the usage of every stream and takes it out again, as it does for OpenAI's. Then 10,000 small calls
//! that wait for one slot, and what memory they take.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::harness::{Effort, quantile};
use crate::load::process::{Folder, Process, tidegate};
use crate::load::{self, message};

/// The length of a question, in bytes: one that is short, and one of a request of 1 KiB.
const BRIEF: usize = 100;
const LONG: usize = 930;
const EVERY: Duration = Duration::from_millis(100);
const CONFIG: &str = r#"
[services.openai]
preset = "openai"
upstream = "UPSTREAM"
requests = { limit = "1G/min", algorithm = "token-bucket", burst = "1G" }
tokens = { limit = "9G/min", algorithm = "token-bucket", burst = "9G" }
concurrency = CONCURRENCY
queue = { max_waiting = 20000 }
"#;

pub fn table(effort: Effort) -> Result<()> {
    allow_many_files();
    let (streams, waiting, span) = match effort {
        Effort::Full => (1_000, 10_000, Duration::from_secs(10)),
        Effort::Short => (20, 50, Duration::from_millis(500)),
    };
    let begun = Instant::now();
    let upstream = upstream(begun)?;
    flowing(streams, span, begun, upstream)?;
    queued(waiting, upstream)
}

fn flowing(streams: usize, span: Duration, begun: Instant, upstream: SocketAddr) -> Result<()> {
    let straight = read(upstream, streams, begun, span)?;
    let (_folder, sidecar) = sidecar(upstream, "20000")?;
    let through = read(sidecar.address, streams, begun, span)?;
    let memory = sidecar.resident_mib()?;
    println!("## Streams: {streams} at once, ten events a second each, for {} s\n", span.as_secs_f64());
    println!("| | events/s | p50, ms | p99, ms | slowest, ms | resident, MiB |");
    println!("|---|--:|--:|--:|--:|--:|");
    for (name, delays, memory) in
        [("straight", &straight, String::new()), ("**tidegate**", &through, format!("{memory:.0}"))]
    {
        println!(
            "| {name} | {:.0} | {:.2} | {:.2} | {:.2} | {memory} |",
            delays.len() as f64 / span.as_secs_f64(),
            quantile(delays, 0.5),
            quantile(delays, 0.99),
            quantile(delays, 1.0),
        );
    }
    let p99 = quantile(&through, 0.99);
    println!("\n| aim | measured | |\n|---|--:|---|");
    println!("| every event within 20 ms at p99 | {p99:.2} ms | {} |", met(p99 <= 20.0));
    println!("| resident memory under 100 MiB | {memory:.0} MiB | {} |\n", met(memory < 100.0));
    Ok(())
}

fn queued(waiting: usize, upstream: SocketAddr) -> Result<()> {
    let (_folder, sidecar) = sidecar(upstream, "1")?;
    let before = sidecar.resident_mib()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let memory = runtime.block_on(async {
        let mut connections = Vec::new();
        for _ in 0..=waiting {
            let mut stream = TcpStream::connect(sidecar.address).await?;
            stream.write_all(&request(BRIEF)).await?;
            connections.push(stream);
        }
        while calls(sidecar.address).await? <= waiting {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        sidecar.resident_mib()
    })?;
    println!("## {waiting} small calls that wait for a slot\n");
    println!("| aim | measured | before | a call, KiB | |\n|---|--:|--:|--:|---|");
    let each = (memory - before) * 1024.0 / waiting as f64;
    println!(
        "| resident memory under 200 MiB | {memory:.0} MiB | {before:.0} MiB | {each:.1} | {} |\n",
        met(memory < 200.0)
    );
    Ok(())
}

fn met(met: bool) -> &'static str {
    if met { "met" } else { "**missed**" }
}

fn sidecar(upstream: SocketAddr, concurrency: &str) -> Result<(Folder, Process)> {
    let folder = Folder::new("streams")?;
    let config =
        CONFIG.replace("UPSTREAM", &format!("http://{upstream}")).replace("CONCURRENCY", concurrency);
    let config = folder.write("tidegate.toml", &config)?;
    let mut command = tidegate(&["serve", "--listen", "127.0.0.1:0", "--config"])?;
    command.arg(config).current_dir(folder.path());
    Ok((folder, Process::telling(command)?))
}

/// Answers every request with events that never end. They say when they were sent, in microseconds.
fn upstream(begun: Instant) -> Result<SocketAddr> {
    Ok(load::upstream::serve(move |stream| stream_events(stream, begun))?.address)
}

async fn stream_events(mut stream: TcpStream, begun: Instant) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut seen = Vec::new();
    while message(&seen).is_none() {
        if stream.read_buf(&mut seen).await? == 0 {
            bail!("no request");
        }
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    let mut ticks = interval_at(Instant::now() + EVERY, EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let sent = begun.elapsed().as_micros();
        let event = format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"choices\":\
             [{{\"index\":0,\"delta\":{{\"content\":\"sea \"}},\"finish_reason\":null}}],\"sent\":{sent}}}\n\n"
        );
        stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await?;
    }
}

/// Reads so many streams for so long once all of them flow, and says how old events were, in milliseconds.
fn read(from: SocketAddr, streams: usize, begun: Instant, span: Duration) -> Result<Vec<f64>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut open = Vec::new();
        for number in 0..streams {
            // Spread over the time between two events, as those of many users are.
            tokio::time::sleep_until(Instant::now() + EVERY.div_f64(streams as f64)).await;
            let mut stream = TcpStream::connect(from).await.with_context(|| format!("stream {number}"))?;
            stream.set_nodelay(true)?;
            stream.write_all(&request(LONG)).await?;
            open.push(stream);
        }
        let from = Instant::now() + 5 * EVERY;
        let mut readers = JoinSet::new();
        for stream in open {
            readers.spawn(delays(stream, begun, from, from + span));
        }
        let mut all = Vec::new();
        while let Some(read) = readers.join_next().await {
            all.extend(read??);
        }
        if all.is_empty() {
            bail!("no event came");
        }
        Ok(all)
    })
}

async fn delays(mut stream: TcpStream, begun: Instant, from: Instant, until: Instant) -> Result<Vec<f64>> {
    let mut delays = Vec::new();
    let mut seen = Vec::with_capacity(4 << 10);
    loop {
        let read = tokio::time::timeout_at(until, stream.read_buf(&mut seen)).await;
        let Ok(read) = read else { return Ok(delays) };
        if read? == 0 {
            bail!("a stream ended: {}", String::from_utf8_lossy(&seen));
        }
        let now = Instant::now();
        while let Some(end) = seen.windows(2).position(|window| window == b"\n\n") {
            let event = String::from_utf8_lossy(&seen[..end]);
            let (_, sent) =
                event.rsplit_once("\"sent\":").with_context(|| format!("not an event: {event}"))?;
            let sent: f64 = sent.trim_end_matches('}').parse()?;
            if now >= from {
                delays.push((now.duration_since(begun).as_micros() as f64 - sent) / 1e3);
            }
            seen.drain(..end + 2);
        }
    }
}

/// A chat with a question of so many bytes, whose answer is to be streamed.
fn request(bytes: usize) -> Vec<u8> {
    let words = "The sea comes and goes, and what it brings it takes. ".repeat(20);
    let body = format!(
        r#"{{"model":"gpt-4o","max_tokens":16,"stream":true,"messages":[{{"role":"user","content":"{}"}}]}}"#,
        &words[..bytes]
    );
    format!(
        "POST /openai/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         authorization: Bearer sk-1234\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// How many calls the sidecar has, by its own word.
async fn calls(sidecar: SocketAddr) -> Result<usize> {
    let mut stream = TcpStream::connect(sidecar).await?;
    stream.write_all(b"GET /v1/status HTTP/1.0\r\nhost: localhost\r\n\r\n").await?;
    let mut said = String::new();
    stream.read_to_string(&mut said).await?;
    let calls = said.split_once("\"calls\":").and_then(|(_, rest)| rest.split([',', '}']).next());
    Ok(calls.with_context(|| format!("no calls in {said}"))?.trim().parse()?)
}

/// Every stream and every call has a connection, and every connection is a file.
fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
