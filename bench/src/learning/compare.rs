//! Our client beside common ones, each in the same worlds: what it used of the quota, and what was rejected.

use std::time::Duration;

use anyhow::Result;
use tidegate_sim::{HeaderStyle, Model, UpstreamSpec, simulate};

use super::clients::drive::{Counted, drive};
use super::clients::{Aimd, Backoff, Bucket, Client, Cubic};
use super::measure::{Measure, Supply};
use super::play::{on_all_processors, quickly};
use super::scene::{Scene, WINDOW};
use super::show::per_cent;

/// Calls a minute.
const RATE: u64 = 600;

/// A world in which all clients are compared.
pub struct Column {
    /// What it is called.
    pub name: &'static str,
    scene: Scene,
    of: Supply,
}

/// A client, in every world.
pub struct Line {
    /// What it is called.
    pub name: &'static str,
    /// By column.
    pub cells: Vec<Shares>,
}

/// The mean over all seeds.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// Of the quota.
    pub used: f64,
    /// Of what was sent.
    pub rejected: f64,
}

/// Whose behaviour is compared.
#[derive(Clone, Copy)]
enum Who {
    Ours,
    Theirs(fn() -> Box<dyn Client>),
}

const CLIENTS: [(&str, Who); 5] = [
    ("tidegate", Who::Ours),
    ("token bucket, burst = limit", Who::Theirs(|| Box::new(Bucket::new(RATE)))),
    ("AIMD × 0.7", Who::Theirs(|| Box::new(Aimd::new()))),
    ("CUBIC, as AWS does it", Who::Theirs(|| Box::new(Cubic::new()))),
    ("exponential backoff only", Who::Theirs(|| Box::new(Backoff))),
];

/// The worlds. Replies say all that there is to say; only ours reads more of it than `Retry-After`.
pub fn columns() -> Vec<Column> {
    let alone = |name, model| Column {
        name,
        scene: Scene::alone(RATE, model, HeaderStyle::OpenAi),
        of: Supply::Rate,
    };
    let mut hidden = alone("fixed + hidden 10/s", Model::FixedWindow);
    hidden.scene.limits += ", { requests = \"10/s\", hidden = true }";
    let mut neighbour = alone("bucket + neighbour 30 %", Model::TokenBucket);
    neighbour.scene.upstream = "neighbours = [{ requests = \"180/min\" }]\n".into();
    neighbour.of = Supply::LeftByOthers;
    let mut cost = alone("sliding log, refusals cost", Model::SlidingLog);
    cost.scene.upstream = "refused_cost = true\n".into();
    cost.scene.ours += "failures_count = true\n";
    vec![
        alone("fixed 60 s", Model::FixedWindow),
        alone("sliding log", Model::SlidingLog),
        alone("bucket 600", Model::TokenBucket),
        alone("GCRA burst 10", Model::Gcra),
        hidden,
        neighbour,
        cost,
    ]
}

/// Plays every client in every world.
pub fn compare(columns: &[Column], seeds: u64) -> Result<Vec<Line>> {
    let runs: Vec<(Who, &Column, u64)> = CLIENTS
        .iter()
        .flat_map(|(_, who)| columns.iter().map(move |column| (*who, column)))
        .flat_map(|(who, column)| (1..=seeds).map(move |seed| (who, column, seed)))
        .collect();
    let seen = on_all_processors(&runs, |(who, column, seed)| one(*who, column, *seed))?;
    let cells: Vec<Shares> = seen.chunks(seeds as usize).map(mean).collect();
    let lines = CLIENTS.iter().zip(cells.chunks(columns.len()));
    Ok(lines.map(|((name, _), cells)| Line { name, cells: cells.to_vec() }).collect())
}

/// Prints the table.
pub fn show(columns: &[Column], lines: &[Line]) {
    println!("### Beside other clients, at {RATE}/min\n");
    println!("Used, and rejected of what was sent.\n");
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    println!("| | {} |", names.join(" | "));
    println!("|---{}|", "|--:".repeat(columns.len()));
    for line in lines {
        let cell = |shares: &Shares| format!("{} / {}", short(shares.used), short(shares.rejected));
        let cells: Vec<String> = line.cells.iter().map(cell).collect();
        println!("| {} | {} |", line.name, cells.join(" | "));
    }
    println!();
}

fn short(share: f64) -> String {
    per_cent(share).trim_end_matches(" %").to_owned()
}

fn one(who: Who, column: &Column, seed: u64) -> Result<Shares> {
    let scene = &column.scene;
    let scenario = scene.scenario(&[WINDOW])?;
    match who {
        Who::Ours => {
            let measure = Measure { of: column.of, ..Measure::after_first_window(scene.lasts) };
            let seen = measure.read(&simulate(&scenario, seed, &quickly())?);
            Ok(Shares { used: seen.used, rejected: seen.rejected })
        }
        Who::Theirs(client) => {
            let spec = &scenario.upstreams["api"];
            let counted =
                drive(&mut *client(), spec, scene.workers, scenario.warmup, scenario.duration, seed);
            Ok(shares(&counted, spec, column.of, (scenario.warmup, scenario.duration)))
        }
    }
}

fn shares(counted: &Counted, spec: &UpstreamSpec, of: Supply, (from, until): (Duration, Duration)) -> Shares {
    let Counted { warm, last } = counted;
    let supply = spec.supply(0, from, until);
    let others = (last.neighbours.units[0] - warm.neighbours.units[0]) as f64;
    let supply = if matches!(of, Supply::LeftByOthers) { supply - others } else { supply };
    let used = (last.us.units[0] - warm.us.units[0]) as f64 / supply;
    Shares { used: used.min(1.0), rejected: last.us.refused as f64 / last.us.received.max(1) as f64 }
}

fn mean(seen: &[Shares]) -> Shares {
    let mean = |of: fn(&Shares) -> f64| seen.iter().map(of).sum::<f64>() / seen.len() as f64;
    Shares { used: mean(|shares| shares.used), rejected: mean(|shares| shares.rejected) }
}
