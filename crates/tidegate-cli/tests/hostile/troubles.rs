//! What happens to the sidecar itself: its config changes, it is stopped for a while, it is killed, its state is gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::ingredients::Ingredient;
use super::process::{Folder, Sidecar};
use super::scene::Scene;
use super::{clients, judge};

/// How long the sidecar is stopped.
const PAUSE: Duration = Duration::from_millis(1300);
/// How many clients keep the sidecar at work when it is stopped, and for how long before and after.
const HAMMERS: usize = 16;
const HAMMERED: Duration = Duration::from_millis(60);
/// By when removed state files are written anew, on a machine that is slow.
const WRITTEN_ANEW: Duration = Duration::from_millis(2500);

/// The sidecar in the hands of its troubles, one at a time.
pub struct Stage {
    pub scene: Arc<Scene>,
    pub folder: Arc<Folder>,
    pub ports: Vec<u16>,
    pub sidecar: Mutex<Life>,
}

/// The process, and what the idle one had.
pub struct Life {
    pub sidecar: Sidecar,
    /// Memory in KiB.
    pub idle: u64,
}

impl Stage {
    pub fn start(self: &Arc<Stage>, rng: &mut Rng) -> JoinSet<()> {
        let mut troubles = JoinSet::new();
        for ingredient in &self.scene.world.ingredients {
            let (stage, mut rng) = (self.clone(), rng.fork());
            match ingredient {
                Ingredient::Reloads => troubles.spawn(async move { stage.reloads(&mut rng).await }),
                Ingredient::Pauses => troubles.spawn(async move { stage.pauses(&mut rng).await }),
                Ingredient::Kills => troubles.spawn(async move { stage.kills(&mut rng, false).await }),
                Ingredient::StateRemoved => troubles.spawn(async move { stage.kills(&mut rng, true).await }),
                _ => continue,
            };
        }
        troubles
    }

    /// Takes a service out of the config, and puts it back.
    async fn reloads(&self, rng: &mut Rng) {
        let world = &self.scene.world;
        while self.scene.left() > Duration::from_millis(600) {
            self.scene.rest(rng, 300..1_000).await;
            let without = rng.usize(..world.services.len() - 1);
            let now = self.scene.records.now();
            self.scene.records.seen().taken_out.push((now, without));
            self.folder.configure(&world.config(&self.ports, Some(without)));
            self.scene.rest(rng, 100..500).await;
            self.folder.configure(&world.config(&self.ports, None));
        }
        self.folder.configure(&world.config(&self.ports, None));
    }

    async fn pauses(&self, rng: &mut Rng) {
        while self.scene.left() > PAUSE {
            self.scene.rest(rng, 500..2_000).await;
            let life = self.sidecar.lock().await;
            let records = &self.scene.records;
            // Many are at work in the sidecar when it is stopped.
            let mut hammers = JoinSet::new();
            for _ in 0..HAMMERS {
                hammers.spawn(clients::hammer(self.scene.clone(), rng.fork(), rng.usize(..2)));
            }
            tokio::time::sleep(HAMMERED).await;
            let from = records.now();
            life.sidecar.signal(Signal::STOP);
            tokio::time::sleep(PAUSE).await;
            // Written down before it goes on, and generously: what arrives by the old end may have left before the pause.
            {
                let mut seen = records.seen();
                life.sidecar.signal(Signal::CONT);
                seen.pauses.push((from, records.now()));
            }
            tokio::time::sleep(HAMMERED).await;
            hammers.shutdown().await;
        }
    }

    /// Kills the sidecar and starts it again on the same state, or on what is left of it.
    async fn kills(&self, rng: &mut Rng, removes: bool) {
        while self.scene.left() > Duration::from_millis(500) {
            self.scene.rest(rng, 400..2_000).await;
            let mut life = self.sidecar.lock().await;
            if removes && !self.state_survives().await {
                return;
            }
            self.judge_memory(&life);
            let killed = self.scene.records.now();
            life.sidecar.kill();
            match Sidecar::start(&self.folder, self.scene.world.workers) {
                Ok(sidecar) => {
                    self.scene.port.store(sidecar.port, Ordering::Release);
                    life.sidecar = sidecar;
                    let started = self.scene.records.now();
                    self.scene.records.seen().kills.push((killed, started));
                }
                Err(fault) => {
                    self.scene.records.fault(fault);
                    return;
                }
            }
        }
    }

    /// Removes the state files, and waits until they are written anew. Where they are not, the sidecar must say so: whether
    /// a kill may follow without a limit passed.
    async fn state_survives(&self) -> bool {
        self.folder.remove_state();
        self.scene.records.seen().removals += 1;
        let since = Instant::now();
        while !self.folder.has_state() {
            if since.elapsed() > WRITTEN_ANEW {
                let status = self.scene.request("GET", "/v1/status", "").await.unwrap_or_default().1;
                if status.contains("\"trouble\":null") {
                    self.scene.records.fault("the state is gone, and the sidecar sees no trouble".to_owned());
                }
                return false;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // What stands in the new file is whole when it can be seen; what was spent since the removal is part of it.
        true
    }

    /// Judges the most memory that it had.
    pub fn judge_memory(&self, life: &Life) {
        let most = life.sidecar.memory("VmHWM");
        if let Some(fault) = judge::memory(most, life.idle, self.scene.world.buffer_memory) {
            self.scene.records.fault(fault);
        }
    }
}
