//! A sidecar that runs: how it is made, and how it ends.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tidegate::{ChangeError, Config, Gate};
use tokio::net::{TcpListener, lookup_host};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::app::App;
use crate::guard::Guard;
use crate::in_force;
use crate::listen::{Listening, Phase};
use crate::proxy::{Services, UpstreamError};

/// A sidecar that runs until it is stopped or dropped.
///
/// ```
/// use tidegate::Config;
/// use tidegate_server::Server;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = Config::parse("[services.local]\nupstream = \"http://127.0.0.1:9000\"\nrequests = \"120/2s\"\n")?;
/// let server = Server::builder().config(config).listen("127.0.0.1:0").start().await?;
/// println!("base URL: {}/local", server.url());
/// server.stop(std::time::Duration::from_secs(10)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    app: Arc<App>,
    phase: watch::Sender<Phase>,
    accepting: JoinHandle<()>,
}

/// How to make a [`Server`].
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until it starts a server"]
pub struct ServerBuilder {
    config: Config,
    listen: Option<String>,
    anywhere: bool,
    times: Times,
    max_connections: Option<usize>,
}

/// How long the sidecar waits for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// For a client's head; a connection on which nothing is asked for so long is closed.
    pub client_head: Duration,
    /// For the next bytes of a client's body, and for a client that takes none of its reply.
    pub client: Duration,
    /// For a connection to an upstream.
    pub connect: Duration,
    /// For the head of an upstream's reply, and the first event of a stream that may be a refusal.
    pub upstream_head: Duration,
    /// For the next bytes of an upstream's reply.
    pub upstream: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Times {
            client_head: Duration::from_secs(75),
            client: Duration::from_secs(60),
            connect: Duration::from_secs(10),
            // Models think for long before they say a word.
            upstream_head: Duration::from_secs(900),
            upstream: Duration::from_secs(300),
        }
    }
}

/// Why a sidecar does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// It cannot listen there.
    #[error("cannot listen on {listen}: {cause}")]
    Listen {
        /// Where.
        listen: String,
        /// Why not.
        #[source]
        cause: std::io::Error,
    },
    /// Anybody on the network could spend the quota.
    #[error(
        "{0} can be reached from other machines, and whoever reaches it may spend your quota: listen on \
         127.0.0.1, or say --insecure-listen if that is what you want"
    )]
    Exposed(SocketAddr),
    /// A service cannot be forwarded to.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The config holds what cannot be.
    #[error(transparent)]
    Config(#[from] ChangeError),
}

impl ServerBuilder {
    /// The services, their limits and where to listen. What the config leaves open is as suits a sidecar: calls wait
    /// for up to ten minutes, and 429s are tried again for as long as that.
    pub fn config(mut self, config: Config) -> ServerBuilder {
        self.config = config;
        self
    }

    /// Where to listen, if not where the config says; port 0 takes one that is free.
    pub fn listen(mut self, listen: impl Into<String>) -> ServerBuilder {
        self.listen = Some(listen.into());
        self
    }

    /// Listens wherever it is told to, also where other machines reach it and anybody may spend the quota.
    pub fn insecure_listen(mut self, anywhere: bool) -> ServerBuilder {
        self.anywhere = anywhere;
        self
    }

    /// How long to wait for others.
    pub fn times(mut self, times: Times) -> ServerBuilder {
        self.times = times;
        self
    }

    /// How many connections may be open at once; more wait to be accepted.
    pub fn max_connections(mut self, most: usize) -> ServerBuilder {
        self.max_connections = Some(most);
        self
    }

    /// Starts it in the current runtime.
    ///
    /// # Errors
    /// If it cannot listen where it should or must not, or if a service cannot be forwarded to.
    pub async fn start(self) -> Result<Server, StartError> {
        let config = with_defaults(self.config);
        let listen = self.listen.unwrap_or_else(|| config.listen.clone());
        let cause = |cause| StartError::Listen { listen: listen.clone(), cause };
        let addresses: Vec<SocketAddr> = lookup_host(&*listen).await.map_err(cause)?.collect();
        if let Some(address) = addresses.iter().find(|address| !is_own(address.ip()))
            && !self.anywhere
        {
            return Err(StartError::Exposed(*address));
        }
        let services = Services::new(&config)?;
        let gate =
            Gate::builder().config(config.clone()).refusals_count(false).wait_for_breakers(true).build()?;
        let listener = TcpListener::bind(&addresses[..]).await.map_err(cause)?;
        let address = listener.local_addr().map_err(cause)?;
        log_limits(&config);
        info!(%address, services = config.services.len(), "listening");
        if !is_own(address.ip()) {
            warn!(%address, "whoever reaches this address may spend the quota");
        }
        let guard = Guard::new(&listen, address);
        let app = Arc::new(App::new(gate, config, services, guard, self.times));
        let (phase, phases) = watch::channel(Phase::Serving);
        let listening = Listening::new(app.clone(), phases, self.max_connections);
        let accepting = tokio::spawn(listening.accept(listener));
        Ok(Server { address, app, phase, accepting })
    }
}

impl Server {
    /// A server that differs from the default.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
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

    /// The gate behind it.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.app.gate
    }

    /// Puts another config into force. What was spent, who waits and which connections are open stays.
    ///
    /// # Errors
    /// If the config holds what cannot be; then the old one stays in force as a whole.
    pub fn reconfigure(&self, config: Config) -> Result<(), StartError> {
        self.app.reconfigure(with_defaults(config))
    }

    /// Stops: nobody new is let in, calls that are under way have until `patience` is over, and then are cut off.
    pub async fn stop(self, patience: Duration) {
        info!(calls = self.app.calls(), "stopping");
        self.app.stop();
        self.phase.send_replace(Phase::Draining);
        // Closed once the last connection is gone.
        if tokio::time::timeout(patience, self.phase.closed()).await.is_err() {
            warn!(calls = self.app.calls(), "cutting off what is still under way");
            self.phase.send_replace(Phase::Cut);
            self.phase.closed().await;
        }
        info!("stopped");
    }
}

impl Drop for Server {
    /// Stops listening and drops all connections.
    fn drop(&mut self) {
        self.accepting.abort();
        self.phase.send_replace(Phase::Cut);
    }
}

/// How long a call waits unless the config says otherwise.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The config as it is in a sidecar.
fn with_defaults(mut config: Config) -> Config {
    if config.services.is_empty() {
        config.services = tidegate_core::presets::served();
    }
    for service in config.services.values_mut() {
        service.queue.timeout.get_or_insert(TIMEOUT);
    }
    config
}

fn log_limits(config: &Config) {
    for limit in in_force::limits(config) {
        info!(limit = limit.name, amount = limit.amount, from = limit.from(), "limit");
    }
}

fn is_own(address: IpAddr) -> bool {
    address.is_loopback()
}
