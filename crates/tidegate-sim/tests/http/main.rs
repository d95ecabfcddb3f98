//! The limited HTTP upstream, as a client meets it.

mod client;
mod counts;
mod manners;
mod shapes;

use std::time::Duration;

use tidegate_core::{Dimension, Rate};
use tidegate_sim::upstream::http::{LimitedServer, Options};
use tidegate_sim::{HeaderStyle, Model, UpstreamLimit, UpstreamSpec};

/// A limit of so many a minute, in a bucket.
fn a_minute(dimension: Dimension, units: u64) -> UpstreamLimit {
    let rate = Rate::new(units, Duration::from_secs(60)).unwrap();
    UpstreamLimit { model: Model::TokenBucket, dimension, rate, burst: None, hidden: false }
}

fn slots(units: u64) -> UpstreamLimit {
    UpstreamLimit { model: Model::Concurrency, ..a_minute(Dimension::Requests, units) }
}

fn styled(headers: HeaderStyle, limits: &[UpstreamLimit]) -> UpstreamSpec {
    UpstreamSpec { headers, limits: limits.to_vec(), ..UpstreamSpec::default() }
}

async fn started(spec: &UpstreamSpec) -> LimitedServer {
    LimitedServer::start(spec, Options::default()).await.unwrap()
}

/// Waits until something is so; a minute is more than anything here may take.
async fn until(mut so: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to pass");
}
