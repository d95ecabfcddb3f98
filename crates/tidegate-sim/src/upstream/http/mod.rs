//! A limited HTTP upstream: the models of this crate behind a loopback port, on the real clock.
//!
//! [`LimitedServer`] stands in for an API in tests, examples and benchmarks. It accepts, refuses, fails, delays
//! and loses requests as its [`UpstreamSpec`] says, answers in the shapes of OpenAI and Anthropic, streams
//! included, and keeps an exact record of every request, so that what a client claims can be held against what
//! arrived.
//!
//! | request | answer |
//! |---|---|
//! | `POST …/chat/completions`, `…/responses`, `…/embeddings` | OpenAI's, with `usage`; the first two also as events |
//! | `POST …/messages` | Anthropic's, with `usage`; also as events |
//! | anything else | JSON that says what was asked |
//! | `GET /_sim/counts`, `GET /_sim/records`, `POST /_sim/change` | the server's own count, its records, another limit |
//!
//! A request is counted once it has arrived whole, and after the spec's `jitter`. The `latency` is what an
//! accepted one takes; events are spread over it evenly. Refusals and failures are answered at once. What it
//! counts as tokens is told in [`Asked`]; what is not a request at all gets a 400 or 413, is recorded, and
//! reaches no limit.
//!
//! ```
//! use tidegate_sim::UpstreamSpec;
//! use tidegate_sim::upstream::http::{LimitedServer, Options};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let server = LimitedServer::start(&UpstreamSpec::default(), Options::default()).await?;
//! println!("listening on {}", server.url());
//! assert_eq!(server.counts().upstream.us.received, 0);
//! # Ok::<(), std::io::Error>(())
//! # }).unwrap();
//! ```

mod anthropic;
mod asked;
mod control;
mod errors;
mod events;
mod openai;
mod record;
mod serve;
mod state;

pub use asked::{Asked, Shape};
pub use record::{Record, ServerCounts};

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Rate;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::scenario::UpstreamSpec;
use state::Shared;

/// How a server is run, whatever it models.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens; port 0 takes one that is free.
    pub listen: SocketAddr,
    /// What its chances are drawn from.
    pub seed: u64,
    /// How many records it keeps: beyond that the oldest are dropped. Counts are exact for ever.
    pub keep: usize,
    /// How long a client may take to send its headers, and its body.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            seed: 0,
            keep: 1_000_000,
            patience: Duration::from_secs(30),
        }
    }
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct LimitedServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl LimitedServer {
    /// Starts one in the current runtime. The times of the spec count from now.
    ///
    /// # Errors
    /// If it cannot listen where it should.
    pub async fn start(spec: &UpstreamSpec, options: Options) -> io::Result<LimitedServer> {
        let listener = TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(spec, &options));
        let accepting = tokio::spawn(serve::accept(listener, shared.clone()));
        Ok(LimitedServer { address, shared, accepting })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL, without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request that it kept, in the order in which they were counted.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        self.shared.state().records.iter().cloned().collect()
    }

    /// What came, and what became of it.
    #[must_use]
    pub fn counts(&self) -> ServerCounts {
        self.shared.state().counts()
    }

    /// The same as JSON, with the state of the limits: what `GET /_sim/counts` answers.
    #[must_use]
    pub fn counts_json(&self) -> serde_json::Value {
        control::counts(&self.shared)
    }

    /// Makes a limit another, by its place in the spec's list.
    ///
    /// # Panics
    /// If there is no such limit.
    pub fn change(&self, limit: usize, rate: Rate) {
        let now = self.shared.now();
        self.shared.state().upstream.change(limit, rate, now);
    }
}

impl Drop for LimitedServer {
    /// Stops listening and drops all connections.
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
