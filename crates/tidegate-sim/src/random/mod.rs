//! Random scenarios: small worlds with everything in them, for campaigns.
//!
//! A seed stands for one scenario and one run of it, so it is all that a report of a violation needs. Three
//! families: *any* mixes limits on every level with every fault; *alone* has a single limit, where rank, age and
//! fair shares can be told exactly from outside; *crowded* has many loops with limits of their own. In all of them
//! some upstreams turn calls away or fail, and gates go on as `trouble` draws it.

mod trouble;

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::config::{
    Config, Limits, LoopTypeConfig, QueueConfig, RateLimit, Reserve, ServiceConfig, SettleRule,
};
use tidegate_core::{Algorithm, Dimension, Priority, Rate, WindowName};

use crate::dice::Dice;
use crate::scenario::{
    Arrivals, ClockStep, Crash, Faults, HeaderStyle, LenderSpec, LiveChange, Model, Neighbour, NewLimit,
    Outage, Scenario, UpstreamChange, UpstreamLimit, UpstreamSpec, Workload,
};
use crate::spread::Spread;
use crate::upstream::Reserves;
use trouble::{after_failures, windows};

const MILLI: u64 = 1_000_000;

impl Scenario {
    /// A scenario made of chance.
    #[must_use]
    pub fn random(seed: u64) -> Scenario {
        let mut dice = Dice::part(seed, "scenario", 0);
        match dice.below(5) {
            0 | 1 => alone(&mut dice),
            2 => crowded(&mut dice),
            _ => any(&mut dice),
        }
    }
}

/// Limits on every level, calls of every kind, and everything that can go wrong.
fn any(dice: &mut Dice) -> Scenario {
    let mut config = Config::default();
    let mut names = Vec::new();
    if dice.happens(0.4) {
        config.global = limits(dice, 2, "global", &mut names);
    }
    let mut service = ServiceConfig::default();
    service.limits = limits(dice, 3, "api", &mut names);
    if dice.happens(0.5) {
        let level = limits(dice, 2, "api/endpoint:POST /e", &mut names);
        service.endpoints.insert("POST /e".into(), level);
    }
    if dice.happens(0.5) {
        service.models.insert("m*".into(), limits(dice, 2, "api/model:m*", &mut names));
    }
    service.queue = queue(dice);
    service.settle = if dice.happens(0.2) { SettleRule::Keep } else { SettleRule::Refund };
    after_failures(dice, &mut service);
    let mut other = ServiceConfig::default();
    other.queue = queue(dice);
    after_failures(dice, &mut other);
    if dice.happens(0.5) {
        other.limits = limits(dice, 1, "other", &mut names);
    }
    config.services = BTreeMap::from([("api".into(), service), ("other".into(), other)]);
    let mut heavy = loop_type(dice);
    if dice.happens(0.3) {
        heavy.limits = limits(dice, 1, "loop_type:heavy", &mut names);
    }
    config.loop_types = BTreeMap::from([("heavy".into(), heavy), ("light".into(), loop_type(dice))]);
    if dice.happens(0.4) {
        config.loops = limits(dice, 2, "loop", &mut Vec::new());
    }

    let duration = Duration::from_millis(2_000 + dice.below(15_000));
    let workloads = (0..1 + dice.below(4)).map(|number| workload(dice, number, duration)).collect();
    let mut upstreams = BTreeMap::new();
    for name in ["api", "other"] {
        if dice.happens(0.7) {
            upstreams.insert(name.to_owned(), upstream(dice, duration));
        }
    }
    let faults = faults(dice, duration, &names);
    Scenario {
        config,
        duration,
        warmup: Duration::ZERO,
        phases: Vec::new(),
        upstreams,
        workloads,
        faults,
        wait_for_breakers: dice.happens(0.7),
    }
}

/// One limit, and nothing else in the way.
fn alone(dice: &mut Dice) -> Scenario {
    let mut config = Config::default();
    let mut service = ServiceConfig::default();
    let mut names = Vec::new();
    if dice.happens(0.2) {
        service.limits.concurrency = Some(1 + dice.below(5));
    } else {
        let mut limit = rate(dice, Dimension::Requests);
        limit.rate = per(5 + dice.below(60), Duration::from_millis(*dice.pick(&[500, 1000, 3000])));
        limit.burst = limit.burst.map(|burst| burst.min(limit.rate.units()));
        names.push((format!("api/requests/{}", WindowName(limit.rate.window())), limit.clone()));
        service.limits.rates.push(limit);
    }
    service.queue = queue(dice);
    service.queue.max_waiting = 10_000;
    service.queue.aging = Duration::from_millis(*dice.pick(&[100, 300, 1000, 30_000]));
    after_failures(dice, &mut service);
    config.services = BTreeMap::from([("api".into(), service)]);
    config.loop_types =
        BTreeMap::from([("heavy".into(), loop_type(dice)), ("light".into(), loop_type(dice))]);
    let duration = Duration::from_millis(5_000 + dice.below(20_000));
    let sizes = if dice.happens(0.5) { Spread::Exactly(1) } else { Spread::Between(1, 5) };
    let workloads = (0..2 + dice.below(4)).map(|number| {
        let mut load = workload(dice, number, duration);
        (load.service, load.endpoint, load.models) = ("api".into(), None, Vec::new());
        load.cost = vec![(Dimension::Requests, sizes)];
        load.estimate = Spread::Exactly(100);
        load.timeout = Some(Duration::from_secs(600));
        load.priority = Some(*dice.pick(&Priority::ALL));
        load
    });
    let workloads = workloads.collect();
    let latency = Spread::Between(0, 300 * MILLI);
    // Windows and breakers are limits too: where they come and go, less can be told.
    let spec = match dice.happens(0.25) {
        true => upstream(dice, duration),
        false => UpstreamSpec { latency, ..UpstreamSpec::default() },
    };
    let upstreams = BTreeMap::from([("api".to_owned(), spec)]);
    let changes = if dice.happens(0.2) { changes(dice, duration, &names) } else { Vec::new() };
    let faults = Faults { changes, ..Faults::default() };
    Scenario {
        config,
        duration,
        warmup: Duration::ZERO,
        phases: Vec::new(),
        upstreams,
        workloads,
        faults,
        wait_for_breakers: dice.happens(0.7),
    }
}

/// Many loops, each with limits of its own.
fn crowded(dice: &mut Dice) -> Scenario {
    let mut scenario = any(dice);
    scenario.config.loops = limits(dice, 2, "loop", &mut Vec::new());
    for load in &mut scenario.workloads {
        load.loops = 1 + dice.below(80);
        if let Arrivals::Closed { workers, .. } = &mut load.arrivals {
            *workers = 1;
        }
    }
    scenario
}

/// A level's limits; what it adds is also told by name.
fn limits(dice: &mut Dice, most: u64, level: &str, names: &mut Vec<(String, RateLimit)>) -> Limits {
    let mut limits = Limits::default();
    for _ in 0..1 + dice.below(most) {
        match dice.below(8) {
            0 | 1 => {
                let slots = 1 + dice.below(8);
                limits.concurrency = Some(slots);
                let throttles = level != "loop" && dice.happens(0.5);
                limits.throttled_concurrency = throttles.then(|| 1 + dice.below(slots));
            }
            2 => limits.byte_budget = Some(1 + dice.below(60)),
            _ => {
                let dimension = dice.pick(&[
                    Dimension::Requests,
                    Dimension::Requests,
                    Dimension::Tokens,
                    Dimension::Bytes,
                ]);
                let limit = rate(dice, dimension.clone());
                let name = format!("{level}/{dimension}/{}", WindowName(limit.rate.window()));
                if names.iter().all(|(known, _)| *known != name)
                    && limits.rates.iter().all(|known| {
                        (&known.dimension, known.rate.window()) != (&limit.dimension, limit.rate.window())
                    })
                {
                    names.push((name, limit.clone()));
                    limits.rates.push(limit);
                }
            }
        }
    }
    if level != "loop" && limits.concurrency.is_none() && dice.happens(0.15) {
        limits.throttled_concurrency = Some(1 + dice.below(4));
    }
    limits.reserve = reserve(dice);
    limits
}

fn rate(dice: &mut Dice, dimension: Dimension) -> RateLimit {
    let units = match dimension {
        Dimension::Requests => 1 + dice.below(40),
        _ => 20 + dice.below(400),
    };
    let window = Duration::from_millis(*dice.pick(&[100, 500, 1000, 1000, 5000]));
    let mut limit = RateLimit::plain(dimension, per(units, window));
    match dice.below(5) {
        0 | 1 => {
            limit.algorithm = Some(Algorithm::TokenBucket);
            limit.burst = dice.happens(0.6).then(|| 1 + dice.below(2 * units));
        }
        2 => limit.burst = Some(units),
        3 => limit.burst = dice.happens(0.6).then(|| 1 + dice.below(units)),
        _ => limit.algorithm = Some(Algorithm::FixedWindow),
    }
    limit
}

fn reserve(dice: &mut Dice) -> Reserve {
    let mut reserve = Reserve::default();
    if dice.happens(0.25) {
        reserve.share[Priority::High as usize] = 0.3;
    }
    if dice.happens(0.1) {
        reserve.share[Priority::Critical as usize] = 0.2;
    }
    reserve
}

fn queue(dice: &mut Dice) -> QueueConfig {
    let mut queue = QueueConfig::default();
    queue.aging = Duration::from_millis(*dice.pick(&[50, 300, 2000, 30_000]));
    queue.aging_share = *dice.pick(&[0.1, 0.1, 0.5, 1.0]);
    queue.max_waiting = *dice.pick(&[5, 40, 10_000]);
    queue.timeout = Some(Duration::from_millis(*dice.pick(&[500, 3000, 60_000])));
    queue
}

fn loop_type(dice: &mut Dice) -> LoopTypeConfig {
    let mut loop_type = LoopTypeConfig::default();
    loop_type.weight = *dice.pick(&[1.0, 2.0, 3.0, 0.5]);
    loop_type
}

fn workload(dice: &mut Dice, number: u64, duration: Duration) -> Workload {
    let arrivals = match dice.below(5) {
        0 | 1 => Arrivals::Closed {
            workers: 1 + dice.below(4),
            think: Spread::Between(0, dice.below(400) * MILLI),
            calls: dice.happens(0.2).then(|| 1 + dice.below(50)),
        },
        2 => Arrivals::Bursts {
            every: Duration::from_millis(300 + dice.below(3_000)),
            size: 1 + dice.below(60),
        },
        _ => Arrivals::Poisson(per(1 + dice.below(100), Duration::from_millis(1000))),
    };
    let service = if dice.happens(0.8) { "api" } else { "other" };
    let mut load = Workload::new(&format!("load{number}"), service, arrivals);
    load.endpoint = dice.happens(0.5).then(|| "POST /e".into());
    load.models = match dice.below(3) {
        0 => Vec::new(),
        1 => vec![("m-large".into(), 1.0)],
        _ => vec![("m-large".into(), 2.0), ("tiny".into(), 1.0)],
    };
    load.loops = *dice.pick(&[0, 1, 3, 8]);
    load.loop_type = dice.pick(&[None, Some("heavy"), Some("light")]).map(str::to_owned);
    load.priority = dice.happens(0.8).then(|| *dice.pick(&Priority::ALL));
    load.cost = vec![
        (Dimension::Requests, *dice.pick(&[Spread::Exactly(1), Spread::Exactly(1), Spread::Between(0, 3)])),
        (Dimension::Tokens, *dice.pick(&[Spread::Exactly(1), Spread::Between(0, 20)])),
        (Dimension::Bytes, *dice.pick(&[Spread::Exactly(1), Spread::Between(0, 40)])),
    ];
    load.estimate = *dice.pick(&[Spread::Exactly(100), Spread::Exactly(100), Spread::Between(20, 250)]);
    load.estimated = dice.happens(0.3);
    load.timeout = dice.happens(0.5).then(|| Duration::from_millis(*dice.pick(&[0, 200, 2_000, 20_000])));
    load.cancel = *dice.pick(&[0.0, 0.0, 0.2, 0.6]);
    load.patience = Spread::Between(0, *dice.pick(&[200, 2_000]) * MILLI);
    load.repeatable = dice.happens(0.8);
    if dice.happens(0.2) {
        load.from = duration / 3;
    }
    if dice.happens(0.2) {
        load.until = Some(duration / 2);
    }
    load
}

fn upstream(dice: &mut Dice, duration: Duration) -> UpstreamSpec {
    let limits: Vec<UpstreamLimit> = (0..dice.below(3))
        .map(|_| {
            let models =
                [Model::FixedWindow, Model::SlidingLog, Model::TokenBucket, Model::Gcra, Model::Concurrency];
            UpstreamLimit {
                model: *dice.pick(&models),
                dimension: dice.pick(&[Dimension::Requests, Dimension::Tokens]).clone(),
                rate: per(5 + dice.below(60), Duration::from_millis(1000)),
                burst: dice.happens(0.3).then(|| 5 + dice.below(20)),
                hidden: dice.happens(0.2),
            }
        })
        .collect();
    let changes = match limits.len() {
        0 => Vec::new(),
        count if dice.happens(0.3) => vec![UpstreamChange {
            at: duration / 2,
            limit: dice.below(count as u64) as usize,
            rate: per(3 + dice.below(60), Duration::from_millis(1000)),
        }],
        _ => Vec::new(),
    };
    let neighbour = Neighbour {
        rate: per(1 + dice.below(20), Duration::from_secs(1)),
        from: Duration::ZERO,
        until: None,
        tokens: Spread::Between(0, 10),
    };
    UpstreamSpec {
        limits,
        headers: dice.pick(&HeaderStyle::NAMED).1,
        refused_cost: dice.happens(0.3),
        reserves: Reserves::Nothing,
        jitter: Spread::Between(0, dice.below(80) * MILLI),
        latency: *dice.pick(&[
            Spread::ZERO,
            Spread::Between(MILLI, 500 * MILLI),
            Spread::Tailed { p50: 50 * MILLI, p99: 900 * MILLI },
        ]),
        knee: None,
        errors: *dice.pick(&[0.0, 0.05, 0.3]),
        resets: *dice.pick(&[0.0, 0.0, 0.05]),
        lost: *dice.pick(&[0.0, 0.0, 0.02]),
        outages: match dice.happens(0.2) {
            true => vec![Outage { at: duration / 3, lasts: Duration::from_secs(1) }],
            false => Vec::new(),
        },
        neighbours: if dice.happens(0.3) { vec![neighbour] } else { Vec::new() },
        changes,
    }
}

fn faults(dice: &mut Dice, duration: Duration, names: &[(String, RateLimit)]) -> Faults {
    let lenders = match names.first() {
        Some((limit, rate)) if dice.happens(0.2) => vec![LenderSpec {
            limit: limit.clone(),
            size: (rate.rate.units() / 4).max(2),
            delay: Spread::Between(0, 100 * MILLI),
            fails: *dice.pick(&[0.0, 0.2]),
            forgets: *dice.pick(&[0.0, 0.1]),
            usable: Duration::from_millis(500 + dice.below(5_000)),
        }],
        _ => Vec::new(),
    };
    Faults {
        crashes: match dice.happens(0.2) {
            true => vec![Crash { at: duration / 2, down: Duration::from_millis(dice.below(2_000)) }],
            false => Vec::new(),
        },
        clock_steps: match dice.happens(0.2) {
            true => vec![ClockStep { at: duration / 4, by_ms: dice.below(120_000) as i64 - 60_000 }],
            false => Vec::new(),
        },
        lenders,
        timer_late: dice.happens(0.2).then_some(Spread::Between(0, 5 * MILLI)),
        changes: if dice.happens(0.3) { changes(dice, duration, names) } else { Vec::new() },
        windows: if dice.happens(0.2) { windows(dice, duration, names) } else { Vec::new() },
    }
}

fn changes(dice: &mut Dice, duration: Duration, names: &[(String, RateLimit)]) -> Vec<LiveChange> {
    if names.is_empty() {
        return Vec::new();
    }
    let change = |part: u32, dice: &mut Dice| {
        let (limit, rate) = dice.pick(names).clone();
        let units = (rate.rate.units() * *dice.pick(&[1, 2, 4]) / 2).max(1);
        let to = NewLimit::Rate(per(units, rate.rate.window()));
        LiveChange { at: duration / part, limit, to }
    };
    vec![change(3, dice), change(2, dice)]
}

fn per(units: u64, window: Duration) -> Rate {
    Rate::new(units, window).expect("rates here are made of small numbers")
}
