//! Plays one world from its start until it is quiet again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::clients::Clients;
use super::ingredients::Ingredient;
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
/// The longest wait that a report may cause where the windows of the service are shorter, in milliseconds.
const LONGEST_WAIT: u64 = 3_600_000;
/// The most debt that a report may leave, in multiples of N.
const DEBT: u64 = 4;
/// How many files it may have open then beyond those it had at first: watches and databases that are opened on first use.
const FILES: usize = 8;

/// What the world came to, and what was wrong.
pub fn play(world: World) -> (String, Vec<String>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(played(Arc::new(world)))
}

async fn played(world: Arc<World>) -> (String, Vec<String>) {
    let mut rng = Rng::with_seed(world.seed ^ 0x5eed);
    let records = Records::new();
    let mut upstreams = Upstreams::start(&world, &records).await;
    let folder = Arc::new(Folder::new(world.seed));
    folder.configure(&world.config(&upstreams.ports, None));
    let sidecar = match Sidecar::start(&folder, world.workers) {
        Ok(sidecar) => sidecar,
        Err(fault) => {
            return (String::new(), vec![fault, world.config(&upstreams.ports, None), folder.log()]);
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
    if let Some(fault) = unrest(&stage, &life.sidecar, files, rest).await {
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
    (judge::summary(&world, &seen), faults)
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

/// What is still held though nothing goes on any more.
async fn unrest(stage: &Stage, sidecar: &Sidecar, files: usize, rest: Duration) -> Option<String> {
    let since = Instant::now();
    loop {
        let held = held(stage, sidecar, files).await?;
        if since.elapsed() > rest {
            return Some(format!("{rest:?} after all have gone: {held}"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn held(stage: &Stage, sidecar: &Sidecar, files: usize) -> Option<String> {
    let scene = &stage.scene;
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
    for what in ["calls", "permits", "waiting", "buffered_bytes"] {
        if status[what].as_u64() != Some(0) {
            return Some(format!("{what} is {}", status[what]));
        }
    }
    // Slots of calls that were in flight at a kill are held for a time.
    let killed = !scene.records.seen().kills.is_empty();
    for limit in limits["limits"].as_array().into_iter().flatten() {
        let in_flight = limit["name"].as_str().is_some_and(|name| name.ends_with("concurrency")) && !killed;
        if limit["waiting"].as_u64() != Some(0) || (in_flight && limit["used"].as_u64() != Some(0)) {
            return Some(limit.to_string());
        }
    }
    if sidecar.files() > files {
        return Some(format!("{} files are open where at most {files} may be", sidecar.files()));
    }
    if scene.world.has(Ingredient::PermitAbuse) {
        return absurd(&status, &limits);
    }
    None
}

/// What absurd reports have left behind beyond what they may.
fn absurd(status: &Value, limits: &Value) -> Option<String> {
    let windows = status["backoffs"].as_array().into_iter().flatten();
    let mut open = windows.filter(|window| window["open_for_ms"].as_u64().is_none_or(|ms| ms > LONGEST_WAIT));
    if let Some(window) = open.next() {
        return Some(format!("a window beyond all measure: {window}"));
    }
    let units = |limit: &Value, what: &str| limit[what].as_u64().unwrap_or(u64::MAX);
    // By the written N, where there is one: what is in force may be less.
    let mut limits = limits["limits"].as_array().into_iter().flatten();
    let owes = |limit: &&Value| units(limit, "used") > units(limit, "units").saturating_mul(1 + DEBT);
    limits.find(owes).map(|limit| format!("a debt beyond all measure: {limit}"))
}
