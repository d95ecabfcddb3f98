//! Plays one world from its start until it is quiet again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::clients::Clients;
use super::ingredients::Ingredient;
use super::met::met;
use super::process::{Folder, Sidecar};
use super::records::Records;
use super::scene::Scene;
use super::troubles::{Life, Stage};
use super::upstreams::Upstreams;
use super::world::{LONG, World};
use super::{judge, probe};

/// How long the last calls may take.
const LAST_CALLS: Duration = Duration::from_secs(20);
/// How long the sidecar has to come to rest once all clients and upstreams have gone.
const REST: Duration = Duration::from_secs(10);
const LONG_REST: Duration = Duration::from_secs(30);
/// How many files it may have open then beyond those it had at first: watches and databases that are opened on first use.
const FILES: usize = 8;

/// What a world came to.
#[derive(Default)]
pub struct Played {
    pub summary: String,
    /// What was wrong.
    pub faults: Vec<String>,
    pub arrivals: usize,
    /// How often each of its ingredients was met.
    pub met: Vec<(Ingredient, usize)>,
}

pub fn play(world: World) -> Played {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(played(Arc::new(world)))
}

async fn played(world: Arc<World>) -> Played {
    let mut rng = Rng::with_seed(world.seed ^ 0x5eed);
    let records = Records::new();
    let mut upstreams = Upstreams::start(&world, &records).await;
    let folder = Arc::new(Folder::new(world.seed));
    folder.configure(&world.config(&upstreams.ports, None));
    let sidecar = match Sidecar::start(&folder, world.workers) {
        Ok(sidecar) => sidecar,
        Err(fault) => {
            let faults = vec![fault, world.config(&upstreams.ports, None), folder.log()];
            return Played { faults, ..Played::default() };
        }
    };
    let scene = Scene::new(world.clone(), records.clone(), sidecar.port);
    for path in ["/probe/x", "/v1/status", "/v1/limits"] {
        scene.request("GET", path, "").await;
    }
    let (files, idle) = (sidecar.files(), sidecar.memory("VmRSS"));
    let ports = upstreams.ports.clone();
    let sidecar = Mutex::new(Life { sidecar, idle });
    let stage = Arc::new(Stage { scene: scene.clone(), folder: folder.clone(), ports, sidecar });

    let mut probes = probe::start(&scene);
    let mut troubles = stage.start(&mut rng);
    let mut clients = Clients::start(&scene, &mut rng);
    tokio::time::sleep(scene.left()).await;
    // The last troubles are over before the last calls are judged.
    finish(&mut troubles, "troubles", &records).await;
    finish(&mut clients.callers, "callers", &records).await;
    clients.intruders.shutdown().await;
    records.all_left();
    probes.shutdown().await;
    let pooled = upstreams.stop().await;

    let mut life = stage.sidecar.lock().await;
    stage.judge_memory(&life);
    // Idle connections to upstreams are swept every quarter of a minute, which only long worlds wait for.
    let lasts = world.duration >= LONG;
    let files = files + FILES + if lasts { 0 } else { pooled };
    let rest = if lasts { LONG_REST } else { REST };
    if let Some(fault) = unrest(async || held(&scene, &life.sidecar, files).await, rest).await {
        records.fault(fault);
    }
    if let Some(fault) = life.sidecar.has_ended() {
        records.fault(fault);
    }
    let log = folder.log();
    if log.contains("panicked") {
        records.fault("the sidecar panicked".to_owned());
    }
    let seen = records.seen();
    let mut faults = judge::faults(&world, &seen);
    if !faults.is_empty() {
        faults.push(format!("the config:\n{}", world.config(&stage.ports, None)));
        let mut last: Vec<&str> = log.lines().rev().take(20).collect();
        last.reverse();
        faults.push(format!("the end of the log:\n{}", last.join("\n")));
    }
    let met = world.ingredients.iter().map(|ingredient| (*ingredient, met(*ingredient, &world, &seen)));
    let (met, arrivals) = (met.collect(), seen.arrivals.len());
    Played { summary: judge::summary(&world, &seen), faults, arrivals, met }
}

/// Waits for tasks to end by themselves; a panic in one of them is a fault of the harness and ends the test.
async fn finish(tasks: &mut JoinSet<()>, what: &str, records: &Records) {
    let ended = async {
        while let Some(ended) = tasks.join_next().await {
            ended.expect("no task of the harness panics");
        }
    };
    if tokio::time::timeout(LAST_CALLS, ended).await.is_err() {
        records.fault(format!("the {what} did not end within {LAST_CALLS:?}"));
    }
}

/// Waits until nothing is held any more; returns what is after so long.
async fn unrest(held: impl AsyncFn() -> Option<String>, rest: Duration) -> Option<String> {
    let since = Instant::now();
    loop {
        let held = held().await?;
        if since.elapsed() > rest {
            return Some(format!("{rest:?} after all have gone: {held}"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn held(scene: &Scene, sidecar: &Sidecar, files: usize) -> Option<String> {
    let Some((_, status)) = scene.request("GET", "/v1/status", "").await else {
        return Some("no status".to_owned());
    };
    let Some((_, limits)) = scene.request("GET", "/v1/limits", "").await else {
        return Some("no limits".to_owned());
    };
    let (Ok(status), Ok(limits)) =
        (serde_json::from_str::<Value>(&status), serde_json::from_str::<Value>(&limits))
    else {
        return Some(format!("no JSON: {status} {limits}"));
    };
    let killed = !scene.records.seen().kills.is_empty();
    let abused = scene.world.has(Ingredient::PermitAbuse);
    let files = (sidecar.files(), files);
    judge::held(&judge::Rest { status: &status, limits: &limits, files, killed, abused })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn what_is_held_for_too_long_is_found() {
        let rest = Duration::from_millis(120);
        assert!(unrest(async || Some("a slot".to_owned()), rest).await.is_some());
        let left = Cell::new(2);
        let for_a_while = async || {
            left.set(left.get() - 1);
            (left.get() > 0).then(|| "a slot".to_owned())
        };
        assert_eq!(unrest(for_a_while, rest).await, None);
    }
}
