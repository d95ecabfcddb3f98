//! Reports with known numbers.

use std::path::Path;
use std::time::Duration;

use tidegate_sim::{
    GroupReport, Invariant, LimitReport, LoopReport, Outage, Phase, Report, Scenario, Series, ServiceReport,
    ServiceSeries, UpstreamSpec, Violation, Waits,
};

pub struct Run {
    pub scenario: Scenario,
    pub report: Report,
}

const STEPS: u64 = 120;

/// A run over some services that are all the same.
pub fn run(services: usize, duration: Duration) -> Run {
    let mut text =
        "[[simulation.workload]]\narrivals = { poisson = \"5/min\" }\nservice = \"openai\"\n".to_owned();
    for index in 0..services {
        text += &format!("[services.service-{index}]\nrequests = \"600/min\"\n");
    }
    let text = text.replace("\"openai\"", if services == 0 { "\"openai\"" } else { "\"service-0\"" });
    let mut scenario = Scenario::parse(&text, "sample", &|_| None, Path::new("."))
        .unwrap_or_else(|errors| panic!("{errors}"));
    let at = |share: u32| duration * share / 100;
    for index in 0..services {
        let outages = vec![Outage { at: at(50), lasts: at(8) }];
        scenario
            .upstreams
            .insert(format!("service-{index}"), UpstreamSpec { outages, ..UpstreamSpec::default() });
    }
    let user = GroupReport {
        name: "high".into(),
        calls: 119,
        went: 119,
        succeeded: 119,
        wait: waits(63, 171, 110_000),
        ..GroupReport::default()
    };
    let agents = GroupReport {
        name: "low".into(),
        calls: 6_000,
        went: 5_864,
        succeeded: 5_864,
        refused: 5,
        timed_out: 11,
        shed: 7,
        cancelled: 3,
        unfinished: 110,
        wait: waits(30_460, 65_170, 9_980_000),
        ..GroupReport::default()
    };
    let named = |group: &GroupReport, name: &str| GroupReport { name: name.into(), ..group.clone() };
    let report = Report {
        seed: 7,
        duration,
        events: 12_345,
        peak_waiting: 40,
        services: (0..services).map(service).collect(),
        workloads: vec![named(&user, "user"), named(&agents, "agents")],
        priorities: vec![user, agents],
        loops: vec![one_loop("agents-1", 4_400, 0.75), one_loop("agents-2", 1_464, 0.25)],
        loop_count: 50,
        series: Series {
            step: duration / STEPS as u32,
            services: (0..services).map(|_| series(duration)).collect(),
            down: vec![(at(70), at(72))],
        },
        violation: None,
        digest: 0xdead_beef,
        story: vec!["4711  it went".into()],
    };
    Run { scenario, report }
}

/// A run in which a promise was not kept.
pub fn broken() -> Run {
    let mut run = run(1, Duration::from_secs(600));
    run.report.violation = Some(Violation {
        invariant: Invariant::NoOvershoot,
        message: "601 of 600 in a minute".into(),
        event: 4_711,
        at: Duration::from_secs(110),
        story: vec!["4710  a call came".into(), "4711  it went".into()],
    });
    run
}

/// A run in which nothing happened.
pub fn empty() -> Run {
    let mut run = run(0, Duration::from_secs(600));
    run.report.priorities.clear();
    run.report.workloads.clear();
    run.report.loops.clear();
    run
}

fn service(index: usize) -> ServiceReport {
    let limit = |name: String, used| LimitReport { name, supply: 6_000.0, used, neighbours: 40 };
    ServiceReport {
        name: format!("service-{index}"),
        limits: vec![limit(format!("service-{index}/requests/1m"), 5_983)],
        upstream: vec![limit("requests/1m".into(), 5_400)],
        sent: 5_983,
        accepted: 5_900,
        rejected: 60,
        failed: 23,
        lost: 0,
        retries: 83,
        windows: 2,
        in_windows: Duration::from_millis(12_500),
        breaker_openings: 1,
        phases: vec![Phase {
            from: Duration::from_secs(60),
            until: Duration::from_secs(120),
            sent: 620,
            accepted: 600,
            rejected: 20,
            rejected_late: 3,
            upstream: vec![limit("requests/1m".into(), 600)],
        }],
    }
}

/// What goes swells and ebbs below the limit; there is a time of trouble.
fn series(duration: Duration) -> ServiceSeries {
    let steps = 0..STEPS;
    let trouble = |step: u64| (24..27).contains(&step);
    ServiceSeries {
        granted: steps
            .clone()
            .map(|step| if trouble(step) { [2, 0, 1, 0] } else { [30 + step % 20, 0, step % 5, 0] })
            .collect(),
        rejected: steps.clone().map(|step| if trouble(step) { 20 } else { 0 }).collect(),
        failed: steps.clone().map(|step| if (60..69).contains(&step) { 7 } else { 0 }).collect(),
        waiting: steps.clone().map(|step| step.min(40)).collect(),
        allowed: steps.map(|step| Some(if step < 80 { 50.0 } else { 40.0 })).collect(),
        backoff: vec![(duration / 5, duration * 22 / 100)],
    }
}

fn waits(p50: u64, p99: u64, max: u64) -> Waits {
    Waits {
        p50: Duration::from_millis(p50),
        p99: Duration::from_millis(p99),
        max: Duration::from_millis(max),
    }
}

fn one_loop(name: &str, went: u64, share: f64) -> LoopReport {
    LoopReport { name: name.into(), workload: "agents".into(), went, share }
}
