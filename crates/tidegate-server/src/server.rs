//! A sidecar that runs: how it is made, and how it ends.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tidegate::{ChangeError, Config, ConfigError, Gate, GateBuilder, OnFailure, StateError, StateFile};
use tidegate_core::config::StateFailure;
use tokio::net::{TcpListener, lookup_host};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::app::App;
use crate::guard::Guard;
use crate::in_force;
#[cfg(unix)]
use crate::listen::unix::SocketFile;
use crate::listen::{Listening, Phase};
use crate::live::Changes;
use crate::proxy::{ProxyError, check_proxies};
use crate::reload::{ConfigFile, Reloads};
use crate::services::{Services, UpstreamError};
use crate::timeouts::Timeouts;
use crate::workers::Workers;

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
    /// As it was written.
    listen: String,
    app: Arc<App>,
    phase: watch::Sender<Phase>,
    /// What accepts, sweeps and watches; ended with the server.
    tasks: Vec<JoinHandle<()>>,
    file: Option<Arc<ConfigFile>>,
    /// Until the end: what a connection has become goes on there when the connection is over.
    _workers: Arc<Workers>,
    #[cfg(unix)]
    socket: Option<SocketFile>,
}

/// How to make a [`Server`].
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until it starts a server"]
pub struct ServerBuilder {
    config: Config,
    config_file: Option<PathBuf>,
    listen: Option<String>,
    socket: Option<PathBuf>,
    anywhere: bool,
    timeouts: Timeouts,
    max_connections: Option<usize>,
    workers: Option<NonZeroUsize>,
    state: Option<PathBuf>,
    tell_when: bool,
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
        /// Why not. Part of the text, and so no `source`: reporters that print the chain would print it twice.
        cause: std::io::Error,
    },
    /// There are no threads to be had.
    #[error("cannot start a thread: {0}")]
    Workers(std::io::Error),
    /// Anybody on the network could spend the quota.
    #[error(
        "{0} can be reached from other machines, and whoever reaches it may spend your quota: listen on \
         127.0.0.1, give out tokens in [auth], or say --insecure-listen if that is what you want"
    )]
    Exposed(SocketAddr),
    /// A service cannot be forwarded to.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// A proxy that the environment names cannot be used.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// The config file cannot be read, or says something that cannot be.
    #[error(transparent)]
    File(#[from] ConfigError),
    /// The config holds what cannot be.
    #[error(transparent)]
    Config(#[from] ChangeError),
    /// There is no state to be had.
    #[error(transparent)]
    State(#[from] StateError),
}

impl ServerBuilder {
    /// The services, their limits and where to listen. What the config leaves open is as suits a sidecar: calls wait
    /// for up to ten minutes, and 429s are tried again for as long as that.
    pub fn config(mut self, config: Config) -> ServerBuilder {
        self.config = config;
        self
    }

    /// The same from a file, which is then followed: what is written to it comes into force.
    pub fn config_file(mut self, path: impl Into<PathBuf>) -> ServerBuilder {
        self.config_file = Some(path.into());
        self
    }

    /// A Unix socket to listen on too, if not the one that the config names. Only whoever starts the server may use it.
    pub fn socket(mut self, path: impl Into<PathBuf>) -> ServerBuilder {
        self.socket = Some(path.into());
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

    /// The folder in which what was spent, learned and changed survives a restart. `~/` is the user's home.
    pub fn state(mut self, folder: impl Into<PathBuf>) -> ServerBuilder {
        self.state = Some(folder.into());
        self
    }

    /// Tells upstreams when each call was let go, in a header: for those who check that.
    #[doc(hidden)]
    pub fn tell_when(mut self, tell: bool) -> ServerBuilder {
        self.tell_when = tell;
        self
    }

    /// How long to wait for others.
    pub fn timeouts(mut self, timeouts: Timeouts) -> ServerBuilder {
        self.timeouts = timeouts;
        self
    }

    /// How many connections may be open at once; more wait to be accepted.
    pub fn max_connections(mut self, most: usize) -> ServerBuilder {
        self.max_connections = Some(most);
        self
    }

    /// How many threads serve connections: the current runtime, and threads of its own for the rest. The current runtime
    /// alone if not said.
    pub fn workers(mut self, workers: NonZeroUsize) -> ServerBuilder {
        self.workers = Some(workers);
        self
    }

    /// Starts it in the current runtime.
    ///
    /// # Errors
    /// If it cannot listen where it should or must not, or if a service cannot be forwarded to.
    pub async fn start(self) -> Result<Server, StartError> {
        let (file, config) = match self.config_file {
            Some(path) => ConfigFile::load(path).map(|(file, config)| (Some(Arc::new(file)), config))?,
            None => (None, self.config),
        };
        let config = with_defaults(config);
        let listen = self.listen.unwrap_or_else(|| config.listen.clone());
        let cause = |cause| StartError::Listen { listen: listen.clone(), cause };
        let addresses: Vec<SocketAddr> = lookup_host(&*listen).await.map_err(cause)?.collect();
        if let Some(address) = addresses.iter().find(|address| !is_own(address.ip()))
            && !self.anywhere
            && config.auth.tokens.is_empty()
        {
            return Err(StartError::Exposed(*address));
        }
        let services = Services::new(&config)?;
        check_proxies()?;
        let listener = TcpListener::bind(&addresses[..]).await.map_err(cause)?;
        let address = listener.local_addr().map_err(cause)?;
        // After it is known that nobody else listens there: who comes second is told that, and touches no state.
        let builder = Gate::builder().refusals_count(false).wait_for_breakers(true).remote(true);
        let (gate, changes) = match self.state {
            Some(folder) => with_state(builder, folder, &config)?,
            None => (builder.config(config.clone()).build()?, Changes::default()),
        };
        log_limits(&config);
        log_ignored(&config);
        info!(%address, services = config.services.len(), "listening");
        if !is_own(address.ip()) && config.auth.tokens.is_empty() {
            warn!(%address, "whoever reaches this address may spend the quota");
        }
        let guard = Guard::new(&listen, address, self.anywhere);
        let socket = self.socket.or_else(|| config.listen_unix.as_deref().map(at_home));
        let (phase, phases) = watch::channel(Phase::Serving);
        let stamped = self.tell_when.then(|| ahead(&gate));
        let mut app = App::new(gate, config, changes, services, guard, self.timeouts, phase.clone());
        app.stamped = stamped;
        let app = Arc::new(app);
        let workers =
            Workers::start(self.workers.unwrap_or(NonZeroUsize::MIN)).map_err(StartError::Workers)?;
        let workers = Arc::new(workers);
        let listening = Listening::new(app.clone(), phases, self.max_connections, workers.clone());
        let listening = Arc::new(listening);
        *app.reloads.lock() = Reloads::of(file.as_deref());
        let mut server = Server {
            address,
            listen,
            app,
            phase,
            tasks: Vec::new(),
            file,
            _workers: workers,
            #[cfg(unix)]
            socket: None,
        };
        if let Some(path) = socket {
            server.listen_on(&path, listening.clone())?;
        }
        server.tasks.push(tokio::spawn(listening.accept(listener)));
        server.tend();
        Ok(server)
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

    /// Where it was told to listen, as the builder or the config has it.
    #[must_use]
    pub fn listen(&self) -> &str {
        &self.listen
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

    /// Reads the config file again, if there is one, and puts what it says into force. What is wrong with it is logged, and
    /// shown in `/v1/status`.
    pub fn reload(&self) {
        if let Some(file) = &self.file {
            file.reload(&self.app, true);
        }
    }

    #[cfg(unix)]
    fn listen_on(&mut self, path: &Path, listening: Arc<Listening>) -> Result<(), StartError> {
        let bound = crate::listen::unix::bind(path);
        let (listener, socket) =
            bound.map_err(|cause| StartError::Listen { listen: path.display().to_string(), cause })?;
        info!(socket = %path.display(), "listening");
        self.socket = Some(socket);
        self.tasks.push(tokio::spawn(listening.accept(listener)));
        Ok(())
    }

    #[cfg(not(unix))]
    fn listen_on(&mut self, path: &Path, _: Arc<Listening>) -> Result<(), StartError> {
        let cause = std::io::ErrorKind::Unsupported.into();
        Err(StartError::Listen { listen: path.display().to_string(), cause })
    }

    /// Starts what goes on beside connections.
    fn tend(&mut self) {
        self.tasks.push(tokio::spawn(self.app.permits.clone().expire()));
        let app = self.app.clone();
        self.tasks.push(tokio::spawn(async move { app.events.follow(&app.gate).await }));
        for client in [self.app.client.clone(), self.app.upgrades.clone()] {
            self.tasks.push(tokio::spawn(async move { client.sweep().await }));
        }
        if let Some(file) = self.file.clone() {
            self.tasks.push(tokio::spawn(file.follow(self.app.clone())));
        }
    }

    /// Puts another config into force. What was spent, who waits and which connections are open stays.
    ///
    /// # Errors
    /// If the config holds what cannot be; then the old one stays in force as a whole.
    pub fn reconfigure(&self, config: Config) -> Result<(), StartError> {
        self.app.reconfigure(with_defaults(config))
    }

    /// Stops: no new connection is accepted, connections without a call are closed within about a second, and calls that
    /// are under way have until `patience` is over. Then those whose reply has not begun are answered with 503, and the
    /// others are cut off.
    pub async fn stop(self, patience: Duration) {
        self.stop_unless(patience, std::future::pending()).await;
    }

    /// Stops as [`Server::stop`] does; patience is over at once when `hurried` is ready.
    pub async fn stop_unless(mut self, patience: Duration, hurried: impl Future<Output = ()>) {
        let connections = self.app.connections();
        match self.app.calls() {
            0 => info!(connections, "stopping: connections are closed, since no call is under way"),
            1 => info!(connections, "stopping: waiting up to {patience:?} for 1 call"),
            calls => info!(connections, "stopping: waiting up to {patience:?} for {calls} calls"),
        }
        self.app.stop();
        self.phase.send_replace(Phase::Draining);
        #[cfg(unix)]
        drop(self.socket.take());
        let drained = tokio::select! {
            // Closed once the last connection is gone.
            drained = tokio::time::timeout(patience, self.phase.closed()) => drained.is_ok(),
            () = hurried => false,
        };
        if !drained {
            warn!(calls = self.app.calls(), "cutting off what is still under way");
            self.app.refuse();
            self.phase.send_replace(Phase::Refusing);
            // A reply that has begun is not waited for.
            tokio::time::timeout(LAST_WORDS, self.phase.closed()).await.ok();
            self.phase.send_replace(Phase::Cut);
            self.phase.closed().await;
        }
        let gate = self.app.gate.clone();
        // The disk may take its time.
        let closed = tokio::task::spawn_blocking(move || gate.close()).await;
        if let Ok(Err(error)) = closed {
            warn!(%error, "the last state could not be written");
        }
        info!("stopped");
    }
}

impl Drop for Server {
    /// Stops listening and drops all connections.
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.phase.send_replace(Phase::Cut);
    }
}

/// How long it may take to answer calls with 503 when patience is over.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// How long a call waits unless the config says otherwise.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The config as it is in a sidecar.
pub(crate) fn with_defaults(mut config: Config) -> Config {
    if config.services.is_empty() {
        config.services = tidegate_core::presets::served();
    }
    for service in config.services.values_mut() {
        service.queue.timeout.get_or_insert(TIMEOUT);
    }
    config
}

/// A gate whose state is in that folder, under the config and what was changed by hand before.
fn with_state(builder: GateBuilder, folder: PathBuf, config: &Config) -> Result<(Gate, Changes), StartError> {
    let folder = folder.to_str().map_or_else(|| folder.clone(), at_home);
    let file = StateFile::open(folder)?.on_failure(match config.state.on_failure {
        StateFailure::Refuse => OnFailure::Refuse,
        StateFailure::Memory => OnFailure::Memory,
    });
    info!(file = %file.path().display(), "state");
    let kept = file.kept_changes().unwrap_or_default();
    let mut changes = Changes::from_kept(config, &kept);
    let gate = builder.config(changes.over(config)).state(file).build()?;
    Ok((gate, changes))
}

/// What wall-clock time is ahead of the gate's, as nearly as can be told.
fn ahead(gate: &Gate) -> u64 {
    let wall =
        || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let readings = (0..100).map(|_| {
        let before = wall();
        let gates = gate.now().0;
        (wall().saturating_sub(before), before.wrapping_sub(gates))
    });
    readings.min().map_or(0, |(_, ahead)| ahead)
}

/// A path that may begin at the user's home.
fn at_home(path: &str) -> PathBuf {
    let home = path.strip_prefix("~/").zip(std::env::var_os("HOME"));
    home.map_or_else(|| path.into(), |(rest, home)| Path::new(&home).join(rest))
}

fn log_limits(config: &Config) {
    for limit in in_force::limits(config) {
        info!(limit = limit.name, amount = limit.amount, from = limit.from(), "limit");
    }
}

/// Logs the keys that have no effect.
pub(crate) fn log_ignored(config: &Config) {
    for ignored in config.ignored() {
        warn!("config: {ignored}");
    }
}

fn is_own(address: IpAddr) -> bool {
    address.is_loopback()
}
