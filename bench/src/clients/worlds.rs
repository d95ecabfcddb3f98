//! The upstreams that jobs are done at, and what the sidecar is told of each.

use std::time::Duration;

use anyhow::Result;
use tidegate_core::{Dimension, Rate};
use tidegate_sim::{HeaderStyle, Model, Spread, UpstreamLimit, UpstreamSpec};

/// What stands for a minute.
pub const WINDOW: Duration = Duration::from_secs(2);
/// Requests in a window.
pub const UNITS: u64 = 120;

/// One column of the table.
pub struct World {
    pub name: &'static str,
    pub spec: UpstreamSpec,
    /// The lines of the service in the sidecar's config.
    pub told: String,
    /// The share of the jobs that each process has.
    pub processes: &'static [f64],
    /// From when on the limit is half of what it was.
    pub halves: Option<Duration>,
}

const ONE: &[f64] = &[1.0];
const BUCKET: &str = r#"{ limit = "120/2s", algorithm = "token-bucket", burst = 120 }"#;
const FIXED: &str = r#"{ limit = "120/2s", algorithm = "fixed-window" }"#;
const SLIDING: &str = r#"{ limit = "120/2s", algorithm = "sliding-window", burst = 120 }"#;
/// As it is without a word about how the upstream counts.
const PLAIN: &str = r#""120/2s""#;

pub fn all() -> Result<Vec<World>> {
    let world = |name, model, told: &str| -> Result<World> {
        let limit = UpstreamLimit {
            model,
            dimension: Dimension::Requests,
            rate: Rate::new(UNITS, WINDOW)?,
            burst: (model == Model::Gcra).then_some(2),
            hidden: false,
        };
        let spec = UpstreamSpec {
            limits: vec![limit],
            headers: HeaderStyle::OpenAi,
            latency: Spread::spans(Duration::from_millis(50), Duration::from_millis(150)),
            ..UpstreamSpec::default()
        };
        // What is a minute elsewhere is two seconds here, so a pause of a second is one of 33 ms.
        let told = format!("requests = {told}\nretry = {{ initial = \"33ms\", max = \"2s\" }}\n");
        Ok(World { name, spec, told, processes: ONE, halves: None })
    };
    let mut uneven = world("4 processes, uneven", Model::TokenBucket, BUCKET)?;
    uneven.processes = &[0.5, 0.25, 0.15, 0.1];
    let mut bare = world("GCRA, bare 429", Model::Gcra, PLAIN)?;
    bare.spec.headers = HeaderStyle::None;
    let mut halves = world("limit halves", Model::TokenBucket, BUCKET)?;
    halves.halves = Some(2 * WINDOW);
    let mut failing = world("5 % 5xx + resets", Model::TokenBucket, BUCKET)?;
    (failing.spec.errors, failing.spec.lost) = (0.05, 0.01);
    let mut costly = world("refusals cost", Model::SlidingLog, SLIDING)?;
    costly.spec.refused_cost = true;
    costly.told += "failures_count = true\n";
    Ok(vec![
        world("bucket", Model::TokenBucket, BUCKET)?,
        world("fixed window", Model::FixedWindow, FIXED)?,
        world("sliding log", Model::SlidingLog, SLIDING)?,
        uneven,
        bare,
        halves,
        failing,
        costly,
    ])
}
