//! `tidegate demo`: shows in ten seconds what tidegate does, without a key and without a network.
//!
//! Two equal APIs accept twenty requests a second each. On both, three loops have the same jobs: a user, a few agents and a
//! batch. On one side they call as programs do that know of no limits and retry after a pause. On the other they go through
//! a sidecar. Both sides run at the same time, in real time, and each API counts its refusals.

mod jobs;
mod show;
mod tally;

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use tidegate::Config;
use tidegate_core::{Dimension, Rate};
use tidegate_server::Server;
use tidegate_sim::upstream::http::{LimitedServer, Options};
use tidegate_sim::{Model, Spread, UpstreamLimit, UpstreamSpec};

use crate::print;
use jobs::{LOOPS, Manner, Side};
use tally::{Count, Tally};

/// See it work: three loops share a limited API, with tidegate and without. Needs no key and no network.
#[derive(Args)]
pub struct Demo {
    /// JSON at the end, and nothing before it.
    #[arg(long)]
    json: bool,
}

/// The requests a second that each API accepts.
const RATE: u64 = 20;

/// How often the table is drawn on a terminal, and a line is written elsewhere.
const FRAME: Duration = Duration::from_millis(100);
const LINE: Duration = Duration::from_secs(1);

impl Demo {
    pub fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Runtime::new().context("cannot start a runtime")?;
        let (naive, governed, sidecar) = runtime.block_on(start())?;
        let url = sidecar.url();
        let through = url.strip_prefix("http://").unwrap_or(&url);
        let sides = [
            Stage::new(&naive, Side::new(naive.address().to_string(), Manner::TriesAgain)),
            Stage::new(&governed, Side::new(through.to_owned(), Manner::ThroughTheSidecar)),
        ];
        let drawn = !self.json && io::stdout().is_terminal();
        if !self.json {
            print(&show::opening(RATE))?;
        }
        let began = Instant::now();
        std::thread::scope(|scope| {
            for stage in &sides {
                scope.spawn(|| stage.side.run(&stage.tally));
            }
            let pause = if drawn { FRAME } else { LINE };
            let mut frame = 0_u32;
            while !sides.iter().all(|stage| stage.tally.is_over()) {
                frame += 1;
                // Sleeps until a time and not for a duration, so that rounds do not drift.
                let next = began + pause * frame;
                while Instant::now() < next && !sides.iter().all(|stage| stage.tally.is_over()) {
                    std::thread::sleep(FRAME.min(next.saturating_duration_since(Instant::now())));
                }
                let now = sides.each_ref().map(Stage::count);
                match (self.json, drawn) {
                    (true, _) => {}
                    (_, true) => print(&show::frame(&now, frame > 1))?,
                    (_, false) => print(&show::line(began.elapsed(), &now))?,
                }
            }
            anyhow::Ok(())
        })?;
        let end = sides.each_ref().map(Stage::count);
        print(&if self.json { format!("{}\n", show::json(&end)) } else { show::summary(&end, drawn) })
    }
}

/// One side of the demo: an API, its callers and their results.
struct Stage<'a> {
    api: &'a LimitedServer,
    side: Side,
    tally: Arc<Tally>,
}

impl Stage<'_> {
    fn new(api: &LimitedServer, side: Side) -> Stage<'_> {
        Stage { api, side, tally: Arc::new(Tally::new(LOOPS.len())) }
    }

    /// Returns the state of the side. Refusals are the API's own count, not the client's.
    fn count(&self) -> Count {
        let refused = self.api.counts().statuses.get(&429).copied().unwrap_or_default();
        self.tally.count(refused)
    }
}

async fn start() -> anyhow::Result<(LimitedServer, LimitedServer, Server)> {
    let rate = Rate::new(RATE, Duration::from_secs(1)).context("a rate")?;
    let limit = UpstreamLimit {
        model: Model::TokenBucket,
        dimension: Dimension::Requests,
        rate,
        burst: Some(RATE / 4),
        hidden: false,
    };
    let ms = |ms: u64| ms * 1_000_000;
    let spec = UpstreamSpec {
        limits: vec![limit],
        latency: Spread::Between(ms(80), ms(240)),
        ..UpstreamSpec::default()
    };
    let api = || async {
        LimitedServer::start(&spec, Options::default()).await.context("cannot listen on a loopback port")
    };
    let (naive, governed) = (api().await?, api().await?);
    let config = format!("[services.api]\nupstream = \"{}\"\nrequests = \"{RATE}/s\"\n", governed.url());
    let config = Config::parse(&config).context("the demo's config")?;
    let sidecar = Server::builder().config(config).listen("127.0.0.1:0").start().await?;
    Ok((naive, governed, sidecar))
}
