//! What a state file costs: a gate with one beside the same gate without.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tidegate::{Call, Config, Gate, Outcome, StateFile};

use crate::harness::Effort;

/// Four limits on the way, none of which binds.
const CONFIG: &str = "[global]
requests = \"1200k/min\"
[services.api]
requests = [\"1200k/min\", \"100M/day\"]
tokens = \"1200k/min\"
concurrency = 1000
";
/// Decisions a second.
const RATE: u64 = 10_000;
/// Loops with a limit of their own each.
const LOOPS: usize = 10_000;

/// Median, 99th percentile.
#[derive(Clone, Copy)]
struct Times {
    median: Duration,
    p99: Duration,
}

pub fn table(effort: Effort) -> Result<()> {
    let (rounds, run) = match effort {
        Effort::Full => (15, Duration::from_secs(2)),
        Effort::Short => (2, Duration::from_millis(200)),
    };
    let folder = Folder::new("cost");
    let memory = Gate::builder().config(config()?).build()?;
    let disk = Gate::builder().config(config()?).state(StateFile::open(&folder.0)?).build()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let (mut writes, mut spent) = (0, Duration::ZERO);
    for _ in 0..rounds {
        without.push(runtime.block_on(paced(&memory, run)));
        let (before, begun) = (disk.state_writes(), Instant::now());
        with.push(runtime.block_on(paced(&disk, run)));
        writes += disk.state_writes() - before;
        spent += begun.elapsed();
    }
    disk.close().context("the disk is well")?;
    let size = |name: &str| std::fs::metadata(folder.0.join(name)).map_or(0, |file| file.len());
    let bytes = size("state.db") + size("state.db-wal");
    println!("\n## State that survives\n");
    println!(
        "`cargo run --release -p tidegate-bench -- state`: {RATE} decisions a second, four rates and a bound on their way;"
    );
    println!("medians of {rounds} runs of {run:?} each, in turn.\n");
    println!("| | in memory | with a state file | ratio | aim |");
    println!("|---|--:|--:|--:|---|");
    for (name, aim, of) in [
        ("`acquire`, median", "≤ 1.2", (|times: &Times| times.median) as fn(&Times) -> Duration),
        ("`acquire`, p99", "≤ 1.2, or + 50 µs", |times: &Times| times.p99),
    ] {
        let (without, with) = (middle(&without, of), middle(&with, of));
        let ratio = with.as_secs_f64() / without.as_secs_f64();
        println!("| {name} | {without:.2?} | {with:.2?} | {ratio:.2} | {aim} |");
    }
    println!(
        "| transactions a second, one sync each | | {:.1} | | < 20 |",
        writes as f64 / spent.as_secs_f64()
    );
    println!("| bytes on disk afterwards | | {} KiB | | |", bytes / 1024);
    let (ready, rows) = start(effort)?;
    println!("| ready with {rows} limits in the file | | {ready:.0?} | | < 300 ms |");
    Ok(())
}

/// Calls at a steady rate, and how long each had to wait for its permit.
async fn paced(gate: &Gate, run: Duration) -> Times {
    let mut took = Vec::new();
    let begun = Instant::now();
    let call = Call::to("api").tokens(1);
    while begun.elapsed() < run {
        let due = begun + Duration::from_nanos(1_000_000_000 / RATE) * took.len() as u32;
        while Instant::now() < due {
            std::hint::spin_loop();
        }
        let asked = Instant::now();
        let permit = gate.acquire(&call).await;
        took.push(asked.elapsed());
        if let Ok(permit) = permit {
            permit.finish(Outcome::done());
        }
    }
    took.sort_unstable();
    Times { median: took[took.len() / 2], p99: took[took.len() * 99 / 100] }
}

/// How long it takes until a gate is ready whose file has that many limits.
fn start(effort: Effort) -> Result<(Duration, usize)> {
    let loops = if effort == Effort::Full { LOOPS } else { 100 };
    let folder = Folder::new("start");
    let text = "[services.api]\n[loops]\nrequests = \"100/h\"\n";
    let open = |folder: &Path| -> Result<Gate> {
        let state = StateFile::open(folder)?;
        Ok(Gate::builder().config(Config::parse(text)?).state(state).build()?)
    };
    let gate = open(&folder.0)?;
    for n in 0..loops {
        gate.acquire_blocking(Call::to("api").loop_id(&format!("loop-{n}")))?.finish(Outcome::done());
    }
    gate.close().context("the disk is well")?;
    drop(gate);
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        let gate = open(&folder.0)?;
        times.push(begun.elapsed());
        gate.close().context("the disk is well")?;
    }
    times.sort_unstable();
    Ok((times[times.len() / 2], loops))
}

fn middle(runs: &[Times], of: fn(&Times) -> Duration) -> Duration {
    let mut all: Vec<Duration> = runs.iter().map(of).collect();
    all.sort_unstable();
    all[all.len() / 2]
}

fn config() -> Result<Config> {
    Ok(Config::parse(CONFIG)?)
}

/// A folder that is gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        Folder(std::env::temp_dir().join(format!("tidegate-bench-state-{name}-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
