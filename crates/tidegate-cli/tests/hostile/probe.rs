//! Calls that go the whole way under no limit, and show how long that takes at the moment.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::task::JoinSet;

use super::scene::Scene;
use super::wire;

/// Several, so that each thread of the sidecar is likely to carry one.
const PROBES: usize = 4;

pub fn start(scene: &Arc<Scene>) -> JoinSet<()> {
    let mut probes = JoinSet::new();
    for _ in 0..PROBES {
        probes.spawn(probe(scene.clone()));
    }
    probes
}

async fn probe(scene: Arc<Scene>) {
    loop {
        if let Some(stream) = scene.connect().await {
            let mut stream = BufReader::new(stream);
            while let Some(took) = one(&scene, &mut stream).await {
                // Rests at least twice as long as it works: a machine that is slow is not made slower.
                tokio::time::sleep(Duration::from_millis(15).max(2 * took)).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// How long one took; none if the connection is gone.
async fn one(scene: &Scene, stream: &mut BufReader<tokio::net::TcpStream>) -> Option<Duration> {
    let sent = scene.records.now();
    let number = {
        let mut seen = scene.records.seen();
        seen.probes.push((sent, None));
        seen.probes.len() - 1
    };
    // A limit over all calls would hold the probes back too: then they ask the sidecar itself.
    let path = if scene.world.has_global_limit() { "/healthz" } else { "/probe/x" };
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.get_mut().write_all(head.as_bytes()).await.ok()?;
    let head = wire::head(stream).await?;
    wire::body(stream, &head, 0).await.ok()?;
    let back = scene.records.now();
    scene.records.seen().probes[number].1 = Some(back);
    Some(back - sent)
}
