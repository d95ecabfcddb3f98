//! Real clients at limited upstreams: the official openai SDK through the sidecar, beside an oracle.
//!
//! 720 jobs: nine tenths of them there at once, the others of high priority, by a program of their own, and spread over the
//! time that all of them need; two seconds stand for a minute. The SDK is as it comes, its retries on. The oracle has an
//! equal upstream of its own at the same time and sees what it has left. The makespan is by the upstream's own records:
//! from the first request that it counted to the last that it answered.

mod oracle;
mod worlds;

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tidegate_core::Rate;
use tidegate_sim::upstream::http::{LimitedServer, Options, Record};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Effort, quantile};
use crate::load::process::{Folder, Process, tidegate};
use worlds::{UNITS, WINDOW, World};

const RUNS: u64 = 5;
const JOBS: f64 = 720.0;
/// By then an SDK has sent its first request.
const PREPARED: Duration = Duration::from_secs(60);

/// How many jobs there are, and how long those of high priority go on to come.
#[derive(Clone, Copy)]
pub struct Jobs {
    normal: u64,
    high: u64,
    seconds: f64,
}

impl Jobs {
    fn all(jobs: f64) -> Jobs {
        let seconds = jobs / UNITS as f64 * WINDOW.as_secs_f64() * 0.75;
        Jobs { normal: (jobs * 0.9).round() as u64, high: (jobs * 0.1).round() as u64, seconds }
    }

    /// What each program has to do: a share of the normal jobs, or those of high priority.
    fn by_program(self, shares: &[f64]) -> impl Iterator<Item = Jobs> {
        let normal =
            move |share: &f64| Jobs { normal: (self.normal as f64 * share).round() as u64, high: 0, ..self };
        shares.iter().map(normal).chain([Jobs { normal: 0, ..self }])
    }

    /// When a job of high priority comes, from the start.
    fn arrival(&self, number: u64, of: u64) -> Duration {
        Duration::from_secs_f64((number as f64 + 0.5) * self.seconds / of as f64)
    }
}

/// What one run came to.
struct Ran {
    makespan: f64,
    high_p99: f64,
    refused: f64,
    refused_later: f64,
    lost: f64,
    /// When each request was counted, from the first on, and what was answered.
    seen: Vec<(Duration, Option<u16>)>,
    /// The sidecar's limits at the end.
    limits: String,
}

/// The SDK's interpreter, if it is installed.
fn python() -> Option<PathBuf> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/sdks/py/bin/python");
    python.exists().then_some(python)
}

pub fn table(effort: Effort) -> Result<()> {
    println!("## Jobs of the openai SDK at limited upstreams\n");
    let Some(python) = python() else {
        println!("Skipped: the SDKs are not in target/sdks (./test.sh installs them).\n");
        return Ok(());
    };
    let (jobs, runs) = if effort == Effort::Full { (JOBS, RUNS) } else { (60.0, 1) };
    println!("{jobs} jobs; medians of {runs}. Waits of high priority are p99, in seconds.\n");
    println!(
        "| | oracle, s | tidegate ÷ oracle | lost | 429s a job | in steady state | high, oracle | high, tidegate | |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|---|");
    let worlds = worlds::all()?;
    let some = if effort == Effort::Full { worlds.len() } else { 2 };
    for world in &worlds[..some] {
        let pairs: Vec<(Ran, Ran)> =
            (0..runs).map(|run| pair(world, jobs, run, &python)).collect::<Result<_>>()?;
        show(world, &pairs);
    }
    println!();
    Ok(())
}

fn show(world: &World, pairs: &[(Ran, Ran)]) {
    let median = |of: &dyn Fn(&(Ran, Ran)) -> f64| quantile(&pairs.iter().map(of).collect::<Vec<_>>(), 0.5);
    let ratio = median(&|(oracle, ours)| ours.makespan / oracle.makespan);
    let later = median(&|(_, ours)| ours.refused_later);
    let lost = median(&|(_, ours)| ours.lost);
    let high = median(&|(oracle, ours)| ours.high_p99 / oracle.high_p99);
    let met = ratio <= 1.02 && later == 0.0 && lost == 0.0 && high <= 1.5;
    println!(
        "| {} | {:.2} | {ratio:.3} | {lost:.0} | {:.3} | {later:.3} | {:.2} | {:.2} | {} |",
        world.name,
        median(&|(oracle, _)| oracle.makespan),
        median(&|(_, ours)| ours.refused),
        median(&|(oracle, _)| oracle.high_p99),
        median(&|(_, ours)| ours.high_p99),
        if met { "met" } else { "**missed**" },
    );
}

/// One run of one column, half second by half second, and what the sidecar learned: to see what is behind a number.
pub fn trace(column: &str) -> Result<()> {
    let python = python().context("the SDKs are not in target/sdks (./test.sh installs them)")?;
    let worlds = worlds::all()?;
    let world = worlds.iter().find(|world| world.name.contains(column)).context("no such column")?;
    let (oracle, ours) = pair(world, JOBS, 0, &python)?;
    println!("{}: {:.2} s, the oracle {:.2} s", world.name, ours.makespan, oracle.makespan);
    println!("high p99 {:.2} s, the oracle {:.2} s; lost {}", ours.high_p99, oracle.high_p99, ours.lost);
    println!("\n| s | oracle | tidegate | refused |\n|--:|--:|--:|--:|");
    let step = Duration::from_millis(500);
    let count = |ran: &Ran, from: Duration, status| {
        ran.seen.iter().filter(|(at, said)| *said == status && (from..from + step).contains(at)).count()
    };
    let mut from = Duration::ZERO;
    while from.as_secs_f64() < ours.makespan.max(oracle.makespan) {
        println!(
            "| {:.1} | {} | {} | {} |",
            from.as_secs_f64(),
            count(&oracle, from, Some(200)),
            count(&ours, from, Some(200)),
            count(&ours, from, Some(429))
        );
        from += step;
    }
    println!("\n{}", ours.limits);
    Ok(())
}

/// The oracle and the sidecar at the same time, each with an upstream of its own.
fn pair(world: &World, jobs: f64, run: u64, python: &Path) -> Result<(Ran, Ran)> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let start =
        || runtime.block_on(LimitedServer::start(&world.spec, Options { seed: run, ..Options::default() }));
    let (theirs, ours) = (Arc::new(start()?), Arc::new(start()?));
    let folder = Folder::new("clients")?;
    let config = folder.write(
        "tidegate.toml",
        &format!("[services.openai]\npreset = \"openai\"\nupstream = \"{}\"\n{}", ours.url(), world.told),
    )?;
    let mut command = tidegate(&["serve", "--listen", "127.0.0.1:0", "--config"])?;
    command.arg(config).current_dir(folder.path());
    let sidecar = Process::telling(command)?;
    let shares = Jobs::all(jobs).by_program(world.processes);
    let mut programs: Vec<Program> =
        shares.map(|jobs| Program::start(python, &folder, &sidecar, jobs)).collect::<Result<_>>()?;
    let (others, high) = programs.split_at_mut(world.processes.len());
    others.iter_mut().try_for_each(Program::go)?;
    // An SDK prepares all of its requests before it sends the first one, which takes as long as the machine lets it. The
    // oracle and the jobs of high priority wait for that: nobody can spend a quota for calls that are not there.
    let begun = Instant::now();
    while ours.records().is_empty() {
        if begun.elapsed() > PREPARED {
            bail!("the SDK has sent nothing");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let oracle = runtime.spawn(oracle::run(theirs.clone(), Jobs::all(jobs)));
    high.iter_mut().try_for_each(Program::go)?;
    if let Some(after) = world.halves {
        let servers = [theirs.clone(), ours.clone()];
        let half = Rate::new(UNITS / 2, WINDOW)?;
        runtime.spawn(async move {
            tokio::time::sleep(after).await;
            servers.iter().for_each(|server| server.change(0, half));
        });
    }
    let said: Vec<Value> = programs.into_iter().map(Program::end).collect::<Result<_>>()?;
    let took: Vec<f64> = said
        .iter()
        .flat_map(|said| said["high"].as_array().into_iter().flatten())
        .filter_map(Value::as_f64)
        .collect();
    let lost = said.iter().map(|said| said["errors"].as_array().map_or(0, Vec::len)).sum::<usize>();
    let their_high = runtime.block_on(oracle)??;
    let mut ran = Ran::new(&ours.records(), &took, lost, jobs, world)?;
    ran.limits = runtime.block_on(limits(sidecar.address))?;
    Ok((Ran::new(&theirs.records(), &their_high, 0, jobs, world)?, ran))
}

/// What the sidecar says of its limits.
async fn limits(sidecar: SocketAddr) -> Result<String> {
    let mut stream = TcpStream::connect(sidecar).await?;
    let request = format!("GET /v1/limits HTTP/1.1\r\nhost: {sidecar}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await?;
    Ok(reply.split_once("\r\n\r\n").context("a body")?.1.to_owned())
}

impl Ran {
    fn new(records: &[Record], high: &[f64], lost: usize, jobs: f64, world: &World) -> Result<Ran> {
        let first = records.first().context("nothing was sent")?.at;
        let answered = records.iter().filter(|record| record.status == Some(200));
        let last = answered.filter_map(|record| record.ended).max().context("nothing was answered")?;
        let refused = |from: Duration| {
            let refused =
                records.iter().filter(|record| record.status == Some(429) && record.at - first >= from);
            refused.count() as f64 / jobs
        };
        // One window to find out, after the start and after a change.
        let steady = world.halves.unwrap_or_default() + WINDOW;
        Ok(Ran {
            makespan: (last - first).as_secs_f64(),
            high_p99: if high.is_empty() { f64::INFINITY } else { quantile(high, 0.99) },
            refused: refused(Duration::ZERO),
            refused_later: refused(steady),
            lost: lost as f64,
            seen: records.iter().map(|record| (record.at - first, record.status)).collect(),
            limits: String::new(),
        })
    }
}

/// A Python program that does jobs.
struct Program {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Program {
    fn start(python: &Path, folder: &Folder, sidecar: &Process, jobs: Jobs) -> Result<Program> {
        let script: PathBuf = folder.write("jobs.py", include_str!("jobs.py"))?;
        // Those with much to do leave the processor to the upstream, which elsewhere has one of its own.
        let mut command = Command::new("nice");
        command.args(["-n", if jobs.high > 0 { "0" } else { "15" }]).arg(python);
        command.arg(script).args([jobs.normal.to_string(), jobs.high.to_string(), jobs.seconds.to_string()]);
        command.env("OPENAI_BASE_URL", format!("http://{}/openai/v1", sidecar.address));
        command.env("NO_PROXY", "127.0.0.1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut program = Program { said: BufReader::new(child.stdout.take().context("piped")?), child };
        if program.line()? != "ready" {
            bail!("the SDK's program does not start");
        }
        Ok(program)
    }

    fn go(&mut self) -> Result<()> {
        Ok(self.child.stdin.take().context("piped")?.write_all(b"go\n")?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    fn end(mut self) -> Result<Value> {
        let said = serde_json::from_str(&self.line()?)?;
        self.child.wait()?;
        Ok(said)
    }
}
