//! What the examples share: an API with a limit to call, and a summary of what became of it.

#![allow(dead_code, reason = "no example needs all of it")]

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use tidegate::{Config, Dimension, Gate, Priority};
use tidegate_core::Rate;
use tidegate_sim::upstream::http::{LimitedServer, Options};
use tidegate_sim::{HeaderStyle, Model, Spread, UpstreamLimit, UpstreamSpec};

/// So many requests a second: what the upstream allows, and what the gate is told.
pub const PER_SECOND: u64 = 100;

/// A gate that knows the upstream's limit.
pub fn gate() -> Result<Gate, Box<dyn std::error::Error + Send + Sync>> {
    let text = format!("[services.api]\nrequests = \"{PER_SECOND}/s\"\nretry = {{ initial = \"100ms\" }}\n");
    let config = Config::parse(&text)?;
    Ok(Gate::builder().config(config).build()?)
}

/// An API on a loopback port that refuses whatever is above its limit in any second, and takes 20 to 60 ms. The
/// share of `errors` fails with a 5xx.
pub async fn upstream(errors: f64) -> io::Result<LimitedServer> {
    let rate = Rate::new(PER_SECOND, Duration::from_secs(1)).expect("a rate");
    let limit = UpstreamLimit {
        model: Model::SlidingLog,
        dimension: Dimension::Requests,
        rate,
        burst: None,
        hidden: false,
    };
    let spec = UpstreamSpec {
        limits: vec![limit],
        headers: HeaderStyle::OpenAi,
        latency: Spread::Between(20_000_000, 60_000_000),
        errors,
        ..UpstreamSpec::default()
    };
    LimitedServer::start(&spec, Options::default()).await
}

/// How long calls waited, by their priority.
pub struct Summary {
    since: Instant,
    waits: BTreeMap<Priority, Vec<Duration>>,
}

impl Summary {
    pub fn begin() -> Summary {
        Summary { since: Instant::now(), waits: BTreeMap::new() }
    }

    /// A call is done, which waited so long for its turn.
    pub fn done(&mut self, priority: Priority, waited: Duration) {
        self.waits.entry(priority).or_default().push(waited);
    }

    /// Prints what became of all calls, and holds it against the upstream's own count: every call was answered,
    /// and was accepted exactly once.
    pub fn print(mut self, title: &str, calls: usize, server: &LimitedServer) {
        let took = self.since.elapsed();
        let us = server.counts().upstream.us;
        let used = (us.accepted + us.failed) as f64 / (PER_SECOND as f64 * took.as_secs_f64());
        println!("{title}: {calls} calls in {:.1} s", took.as_secs_f64());
        println!(
            "  used {:.0} %, {} accepted, {} failed, {} rejected",
            used * 100.0,
            us.accepted,
            us.failed,
            us.refused
        );
        println!("  priority  calls  wait p50       max");
        let mut done = 0;
        for (priority, waits) in self.waits.iter_mut().rev() {
            waits.sort();
            let (p50, max) = (waits[waits.len() / 2], waits[waits.len() - 1]);
            println!(
                "  {:8} {:6} {:6} ms {:6} ms",
                priority.name(),
                waits.len(),
                p50.as_millis(),
                max.as_millis()
            );
            done += waits.len();
        }
        assert_eq!((done, us.accepted), (calls, calls as u64), "a call was lost, or made twice");
    }
}
