//! The sidecar beside other proxies: what a call costs on its way through.
//!
//! A POST of 1 KiB of JSON and an answer with its usage, 64 keep-alive connections, as many workers in one proxy as in the
//! other. The sidecar reads the body, decides over eight limits of which none binds, and settles by the answer; nginx
//! passes bytes on. Throughput is with clients that ask as soon as they are answered. Latency is at a quarter of nginx's
//! throughput, and what a proxy adds is its p99 without that of a straight connection in the same round. There a proxy
//! with one worker has a core of its own, and clients and upstream, on one thread, the other: else the kernel has them
//! take turns on one core now and then, and what is measured is for how long it lets each.

mod instructions;
mod others;

pub use instructions::table as instructions;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::harness::{Effort, quantile};
use crate::load::clients::{Pace, ask, ask_from};
use crate::load::process::{Folder, Process, cores, keep_to, tidegate};
use crate::load::upstream::{self, Upstream};

const CONNECTIONS: u32 = 64;
const RUNS: usize = 5;
/// Of latency there are more and shorter ones: the machine is away for some milliseconds now and then, which is the p99 of
/// whoever it hits.
const PACED_RUNS: usize = 15;
/// One, where a call has one core to be on at a time, and what both take by themselves on a machine with two.
const WORKERS: [usize; 2] = [1, 2];
/// What the upstream says to everything.
const ANSWER: &str = r#"{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant","content":"The sea comes and goes."},"finish_reason":"stop"}],"usage":{"prompt_tokens":240,"completion_tokens":6,"total_tokens":246}}"#;
const PATH: &str = "/openai/v1/chat/completions";
/// What clients show, and LiteLLM asks for.
const KEY: &str = "sk-5f0c7a1e9b3d4c6280e1f2a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7";
/// Eight limits that a call meets, and none of which holds it.
const CONFIG: &str = r#"
[global]
requests = { limit = "1G/min", algorithm = "token-bucket", burst = "1G" }
concurrency = 1000
[services.openai]
preset = "openai"
upstream = "UPSTREAM"
requests = [
  { limit = "1G/min", algorithm = "token-bucket", burst = "1G" },
  { limit = "9G/day", algorithm = "token-bucket", burst = "9G" },
]
tokens = { limit = "9G/min", algorithm = "token-bucket", burst = "9G" }
concurrency = 1000
[services.openai.endpoints."POST /v1/chat/completions"]
requests = { limit = "1G/min", algorithm = "token-bucket", burst = "1G" }
[services.openai.models."gpt-4o*"]
tokens = { limit = "9G/min", algorithm = "token-bucket", burst = "9G" }
"#;

/// What was measured of a proxy, run by run.
#[derive(Default)]
struct Measured {
    per_second: Vec<f64>,
    cpu_micros: Vec<f64>,
    p99_millis: Vec<f64>,
}

pub fn table(effort: Effort) -> Result<()> {
    let span = Duration::from_millis(if effort == Effort::Full { 3_000 } else { 200 });
    let upstream = upstream::start(reply())?;
    for workers in WORKERS {
        let each = if workers == 1 { "one worker".to_owned() } else { format!("{workers} workers") };
        println!("## Proxies: a POST of 1 KiB, {CONNECTIONS} connections, {each} each\n");
        let folder = Folder::new("proxy")?;
        let Some(nginx) = others::nginx(&folder, upstream.address, workers)? else {
            println!("Skipped: there is no nginx (apt-get install nginx).\n");
            return Ok(());
        };
        let sidecar = sidecar(&folder, upstream.address, workers)?;
        let round = Round::play(&upstream, &nginx, &sidecar, workers, span)?;
        // It takes longer to start than all else here together.
        let wanted = effort == Effort::Full && workers == 1;
        let litellm = if wanted { others::litellm(&folder, upstream.address, KEY)? } else { None };
        let litellm = litellm.map(|litellm| measure_litellm(&litellm, span)).transpose()?;
        round.show(litellm.as_ref());
    }
    Ok(())
}

/// Two proxies with as many workers, and no proxy at all, in turn.
struct Round {
    /// A quarter of nginx's throughput.
    quarter: f64,
    straight: Measured,
    nginx: Measured,
    sidecar: Measured,
}

impl Round {
    fn play(
        upstream: &Upstream,
        nginx: &Process,
        sidecar: &Process,
        workers: usize,
        span: Duration,
    ) -> Result<Round> {
        let (mut straight, mut theirs, mut ours) = <(Measured, Measured, Measured)>::default();
        for _ in 0..RUNS {
            theirs.run_flat(nginx, PATH, span)?;
            ours.run_flat(sidecar, PATH, span)?;
        }
        let quarter = quantile(&theirs.per_second, 0.5) / 4.0;
        let all = cores()?;
        if let ([first, second, ..], 1) = (&all[..], workers) {
            keep_to(std::process::id(), &[*first])?;
            nginx.keep_to(&[*second])?;
            sidecar.keep_to(&[*second])?;
        }
        let span = span.mul_f64(RUNS as f64 / PACED_RUNS as f64);
        for _ in 0..PACED_RUNS {
            straight.run_paced(upstream, upstream.address, quarter, span)?;
            theirs.run_paced(upstream, nginx.address, quarter, span)?;
            ours.run_paced(upstream, sidecar.address, quarter, span)?;
        }
        keep_to(std::process::id(), &all)?;
        Ok(Round { quarter, straight, nginx: theirs, sidecar: ours })
    }
}

fn measure_litellm(litellm: &Process, span: Duration) -> Result<Measured> {
    let mut measured = Measured::default();
    let path = "/v1/chat/completions";
    ask(litellm.address, request(path), 8, Pace::Flat, span)?;
    for _ in 0..RUNS {
        measured.run_flat(litellm, path, span)?;
    }
    Ok(measured)
}

impl Measured {
    fn run_flat(&mut self, proxy: &Process, path: &str, span: Duration) -> Result<()> {
        let before = proxy.cpu_seconds()?;
        let answered = ask(proxy.address, request(path), CONNECTIONS, Pace::Flat, span)?;
        self.cpu_micros.push((proxy.cpu_seconds()? - before) * 1e6 / answered.seconds.len() as f64);
        self.per_second.push(answered.per_second());
        Ok(())
    }

    fn run_paced(&mut self, beside: &Upstream, to: SocketAddr, rate: f64, span: Duration) -> Result<()> {
        let pace = Pace::PerSecond(rate);
        let answered = ask_from(&beside.thread, to, request(PATH), CONNECTIONS, pace, span)?;
        self.p99_millis.push(quantile(&answered.seconds, 0.99) * 1e3);
        Ok(())
    }
}

/// [`ANSWER`] as HTTP/1.1.
fn reply() -> &'static [u8] {
    let length = ANSWER.len();
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    (head + ANSWER).leak().as_bytes()
}

/// A chat of 1 KiB, as an SDK would send it.
fn request(path: &str) -> Vec<u8> {
    let words = "The sea comes and goes, and what it brings it takes. ".repeat(20);
    let begin = r#"{"model":"gpt-4o","max_tokens":16,"messages":[{"role":"user","content":""#;
    let end = r#""}]}"#;
    let body = format!("{begin}{}{end}", &words[..1024 - begin.len() - end.len()]);
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\naccept: application/json\r\ncontent-type: application/json\r\n\
         user-agent: tidegate-bench\r\nauthorization: Bearer {KEY}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn config(folder: &Folder, upstream: SocketAddr) -> Result<PathBuf> {
    folder.write("tidegate.toml", &CONFIG.replace("UPSTREAM", &format!("http://{upstream}")))
}

fn sidecar(folder: &Folder, upstream: SocketAddr, workers: usize) -> Result<Process> {
    let config = config(folder, upstream)?;
    let workers = workers.to_string();
    let mut command = tidegate(&["serve", "--listen", "127.0.0.1:0", "--workers", &workers, "--config"])?;
    command.arg(config).current_dir(folder.path());
    Process::telling(command)
}

impl Round {
    fn show(&self, litellm: Option<&Measured>) {
        let Round { quarter, straight, nginx: theirs, sidecar: ours } = self;
        let median = |values: &[f64]| quantile(values, 0.5);
        let between = |ours: &[f64], theirs: &[f64]| {
            median(&ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>())
        };
        let added = |measured: &Measured| {
            let each = measured.p99_millis.iter().zip(&straight.p99_millis);
            median(&each.map(|(through, straight)| through - straight).collect::<Vec<_>>())
        };
        println!(
            "Medians of {RUNS} runs in turn, of latency {PACED_RUNS}; ratios are of runs next to each other.\n"
        );
        println!(
            "| | requests/s | of nginx | CPU, µs a request | of nginx | p99 at {quarter:.0}/s, ms | added, ms |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|");
        println!("| straight | | | | | {:.2} | |", median(&straight.p99_millis));
        for (name, measured) in [("nginx `proxy_pass`", theirs), ("**tidegate**", ours)] {
            println!(
                "| {name} | {:.0} | {:.2} | {:.1} | {:.2} | {:.2} | {:.2} |",
                median(&measured.per_second),
                between(&measured.per_second, &theirs.per_second),
                median(&measured.cpu_micros),
                between(&measured.cpu_micros, &theirs.cpu_micros),
                median(&measured.p99_millis),
                added(measured),
            );
        }
        if let Some(litellm) = litellm {
            let (rate, cpu) = (median(&litellm.per_second), median(&litellm.cpu_micros));
            println!(
                "| LiteLLM's proxy | {rate:.0} | | {cpu:.1} | {:.0} | | |",
                cpu / median(&theirs.cpu_micros)
            );
        }
        println!("\n| aim | measured | |");
        println!("|---|--:|---|");
        let row = |aim: &str, measured: f64, met: bool| {
            println!("| {aim} | {measured:.3} | {} |", if met { "met" } else { "**missed**" });
        };
        let cpu = between(&ours.cpu_micros, &theirs.cpu_micros);
        row("CPU a request at most 2 × nginx's", cpu, cpu <= 2.0);
        let rate = between(&ours.per_second, &theirs.per_second);
        row("at least half of nginx's throughput", rate, rate >= 0.5);
        let most = 2.0 * added(theirs).max(0.0) + 0.5;
        row(
            &format!("added p99 at most 2 × nginx's + 0.5 ms: {most:.2} ms"),
            added(ours),
            added(ours) <= most,
        );
        match litellm {
            Some(litellm) => {
                let share = median(&ours.cpu_micros) / median(&litellm.cpu_micros);
                row("CPU a request at most 1/20 of LiteLLM's", share, share <= 0.05);
            }
            None => println!("| CPU a request at most 1/20 of LiteLLM's | | not measured |"),
        }
        println!();
    }
}
