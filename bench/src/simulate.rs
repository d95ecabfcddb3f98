//! The simulator: a day of calls with every promise checked, and an hour with a hundred thousand waiting.
//!
//! Each scenario is played twice, as `tidegate simulate` does: once with all checks on, and once more without to
//! see that it is the same run. What is reported is the processor time of both.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use tidegate_core::{Config, Rate};
use tidegate_sim::{
    Arrivals, Faults, Options, Report, Scenario, Spread, UpstreamLimit, UpstreamSpec, Workload, prove,
};

use crate::harness::{Effort, cpu_seconds};

/// Four levels with eight limits in all.
const EIGHT_LIMITS: &str = r#"
[global]
requests = "6600/min"
concurrency = 400

[services.api]
requests = ["6300/min", "380k/h"]
tokens = "4M/min"
concurrency = 300

[services.api.models."m*"]
requests = "6200/min"
tokens = "3500k/min"
"#;

const ONE_SERVICE: &str = r#"
[services.api]
requests = "3000/min"
queue = { timeout = "2h", max_waiting = 200000 }

[loops]
requests = "600/min"
"#;

pub fn table(effort: Effort) -> Result<()> {
    let part = if effort == Effort::Short { 1000 } else { 1 };
    println!("## The simulator, all checks on, and each run played twice\n");
    println!("| | events | calls that went | most waiting | CPU, s | memory at most, MB |");
    println!("|---|--:|--:|--:|--:|--:|");
    row("a day of 100 calls/s over 8 limits", &a_day(part)?)?;
    row("an hour of 1,000 loops, 100,000 waiting", &an_hour(part)?)
}

fn row(name: &str, scenario: &Scenario) -> Result<()> {
    forget_peak_memory();
    let start = cpu_seconds();
    let report = play(scenario)?;
    let cpu = cpu_seconds() - start;
    let went: u64 = report.workloads.iter().map(|load| load.went).sum();
    println!(
        "| {name} | {} | {went} | {} | {:.1} | {} |",
        report.events,
        report.peak_waiting,
        cpu,
        peak_memory()
    );
    Ok(())
}

fn play(scenario: &Scenario) -> Result<Report> {
    let report = prove(scenario, 1, &Options::default())?;
    if let Some(violation) = &report.violation {
        anyhow::bail!("{}: {}", violation.invariant.name(), violation.message);
    }
    Ok(report)
}

fn a_day(part: u32) -> Result<Scenario> {
    let mut users = Workload::new("users", "api", Arrivals::Poisson(per_minute(600)?));
    users.priority = Some(tidegate_core::Priority::High);
    let agents = Workload::new("agents", "api", Arrivals::Poisson(per_minute(5_400)?));
    let workloads = [users, agents].map(|load| Workload {
        models: vec![("m-large".into(), 1.0)],
        loops: 50,
        cost: vec![(tidegate_core::Dimension::Tokens, Spread::Between(100, 900))],
        timeout: Some(Duration::from_secs(60)),
        ..load
    });
    let limit = UpstreamLimit {
        model: tidegate_sim::Model::SlidingLog,
        dimension: tidegate_core::Dimension::Requests,
        rate: per_minute(6_400)?,
        burst: None,
        hidden: false,
    };
    scenario(EIGHT_LIMITS, Duration::from_secs(86_400) / part, workloads.into(), vec![limit])
}

fn an_hour(part: u32) -> Result<Scenario> {
    let size = 100_000 / u64::from(part.min(100));
    let burst = Arrivals::Bursts { every: Duration::from_secs(7200), size };
    let steady = Arrivals::Poisson(per_minute(1_500)?);
    let workloads = [("burst", burst), ("steady", steady)].map(|(name, arrivals)| Workload {
        loops: 500,
        timeout: Some(Duration::from_secs(7200)),
        ..Workload::new(name, "api", arrivals)
    });
    scenario(ONE_SERVICE, Duration::from_secs(3600) / part, workloads.into(), Vec::new())
}

fn scenario(
    config: &str,
    duration: Duration,
    workloads: Vec<Workload>,
    limits: Vec<UpstreamLimit>,
) -> Result<Scenario> {
    let second = Duration::from_secs(1);
    let upstream = UpstreamSpec {
        limits,
        jitter: Spread::spans(second / 50, second / 12),
        latency: Spread::Tailed { p50: 400_000_000, p99: 2_000_000_000 },
        ..UpstreamSpec::default()
    };
    Ok(Scenario {
        config: Config::parse(config, "bench")?,
        duration,
        warmup: Duration::ZERO,
        phases: Vec::new(),
        upstreams: BTreeMap::from([("api".into(), upstream)]),
        workloads,
        faults: Faults::default(),
        wait_for_breakers: true,
    })
}

fn per_minute(units: u64) -> Result<Rate> {
    Ok(Rate::new(units, Duration::from_secs(60))?)
}

/// Begins to watch memory anew, where the system lets us; else what earlier tables needed is counted as well.
fn forget_peak_memory() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that this process has had since, in megabytes, where the system tells.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.map_or("–".into(), |kilobytes| (kilobytes / 1024).to_string())
}
