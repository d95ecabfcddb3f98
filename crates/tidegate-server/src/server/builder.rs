//! How a sidecar is configured, put together and started.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tidegate::wire::Memory;
use tidegate::{Config, Gate, GateBuilder, OnFailure, StateFile};
use tidegate_core::config::StateFailure;
use tokio::net::{TcpListener, lookup_host};
use tracing::{info, warn};

use super::Server;
use crate::app::App;
use crate::config_file::ConfigFile;
use crate::config_store::{ActiveConfig, ConfigStore, log_ignored, with_defaults};
use crate::configured_limits;
use crate::descriptors::Descriptors;
use crate::events::Events;
use crate::guard::Guard;
use crate::lifecycle::Lifecycle;
use crate::limit_changes::LimitChanges;
use crate::listen::Acceptor;
use crate::loop_counts::LoopCounts;
use crate::outbound_proxies;
use crate::proxy::Proxy;
use crate::services::Services;
use crate::shared::Shared;
use crate::start_error::StartError;
use crate::timeouts::Timeouts;
use crate::v1::Api;
use crate::workers::Workers;

/// Builds a [`Server`].
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until it starts a server"]
pub struct ServerBuilder {
    config: Config,
    config_file: Option<PathBuf>,
    listen: Option<String>,
    socket: Option<PathBuf>,
    insecure_listen: bool,
    timeouts: Timeouts,
    max_connections: Option<usize>,
    workers: Option<NonZeroUsize>,
    state: Option<PathBuf>,
    send_grant_times: bool,
}

impl ServerBuilder {
    /// Sets the services, their limits and the address. A sidecar has its own defaults for what the config leaves open:
    /// calls wait for up to ten minutes, and 429s are retried for as long as that.
    pub fn config(mut self, config: Config) -> ServerBuilder {
        self.config = config;
        self
    }

    /// Reads the config from a file, and reloads it when the file changes.
    pub fn config_file(mut self, path: impl Into<PathBuf>) -> ServerBuilder {
        self.config_file = Some(path.into());
        self
    }

    /// Listens on this Unix socket too, in place of the one in the config. Only the user who starts the server may open it.
    pub fn socket(mut self, path: impl Into<PathBuf>) -> ServerBuilder {
        self.socket = Some(path.into());
        self
    }

    /// Sets the address, in place of the one in the config. Port 0 takes a free port.
    pub fn listen(mut self, listen: impl Into<String>) -> ServerBuilder {
        self.listen = Some(listen.into());
        self
    }

    /// Allows addresses that other machines reach, so that they may spend the quota without a token.
    pub fn insecure_listen(mut self, allowed: bool) -> ServerBuilder {
        self.insecure_listen = allowed;
        self
    }

    /// Sets the folder in which usage, learned limits and changes survive a restart. `~/` is the user's home.
    pub fn state(mut self, folder: impl Into<PathBuf>) -> ServerBuilder {
        self.state = Some(folder.into());
        self
    }

    /// Tells upstreams in a header when each call was granted. Tests check that.
    #[doc(hidden)]
    pub fn tell_when(mut self, tell: bool) -> ServerBuilder {
        self.send_grant_times = tell;
        self
    }

    /// Sets how long the server waits for clients and upstreams.
    pub fn timeouts(mut self, timeouts: Timeouts) -> ServerBuilder {
        self.timeouts = timeouts;
        self
    }

    /// Sets how many connections may be open at once. Further ones wait to be accepted.
    pub fn max_connections(mut self, most: usize) -> ServerBuilder {
        self.max_connections = Some(most);
        self
    }

    /// Sets how many threads serve connections: the current runtime, and a thread of the server's own for each further
    /// one. The default is the current runtime alone.
    pub fn workers(mut self, workers: NonZeroUsize) -> ServerBuilder {
        self.workers = Some(workers);
        self
    }

    /// Starts the server in the current runtime.
    ///
    /// # Errors
    /// Returns an error if the server cannot or must not listen on the address, or if a service cannot be forwarded to.
    pub async fn start(self) -> Result<Server, StartError> {
        let (file, config) = match self.config_file {
            Some(path) => ConfigFile::load(path).map(|(file, config)| (Some(Arc::new(file)), config))?,
            None => (None, self.config),
        };
        let config = with_defaults(config);
        let listen = self.listen.unwrap_or_else(|| config.listen.clone());
        let cause = |cause| StartError::Listen { listen: listen.clone(), cause };
        let addresses: Vec<SocketAddr> = lookup_host(&*listen).await.map_err(cause)?.collect();
        if let Some(address) = addresses.iter().find(|address| !address.ip().is_loopback())
            && !self.insecure_listen
            && config.auth.tokens.is_empty()
        {
            return Err(StartError::Exposed(*address));
        }
        let services = Services::new(&config)?;
        outbound_proxies::check_env()?;
        let listener = TcpListener::bind(&addresses[..]).await.map_err(cause)?;
        let address = listener.local_addr().map_err(cause)?;
        // Only after the port is taken: a second sidecar on the same port must fail before it touches the state.
        let builder = Gate::builder().refusals_count(false).wait_for_breakers(true).remote(true);
        let (gate, changes) = match self.state {
            Some(folder) => with_state(builder, folder, &config)?,
            None => (builder.config(config.clone()).build()?, LimitChanges::default()),
        };
        log_limits(&config);
        log_ignored(&config);
        info!(%address, services = config.services.len(), "listening");
        if !address.ip().is_loopback() && config.auth.tokens.is_empty() {
            warn!(%address, "every program that reaches this address may spend the quota");
        }
        let guard = Guard::new(&listen, address, self.insecure_listen);
        let socket = self.socket.or_else(|| config.listen_unix.as_deref().map(in_home));
        let clock_offset = self.send_grant_times.then(|| clock_offset(&gate));
        let memory = Arc::new(Memory::new(config.buffer_memory));
        let active = ActiveConfig::new(config, changes, services);
        let shared = Arc::new(Shared {
            config: ConfigStore::new(gate.clone(), memory.clone(), guard.exposed(), active),
            gate,
            memory,
            events: Events::new(),
            lifecycle: Arc::new(Lifecycle::new()),
            loop_counts: LoopCounts::default(),
            timeouts: self.timeouts,
        });
        let descriptors = Arc::new(Descriptors::default());
        let proxy = Proxy::new(shared.clone(), &descriptors, clock_offset);
        let api = Api::new(shared.clone(), file.clone());
        let app = Arc::new(App::new(shared, proxy, api, guard));
        let workers =
            Workers::start(self.workers.unwrap_or(NonZeroUsize::MIN)).map_err(StartError::Workers)?;
        let workers = Arc::new(workers);
        let listening = Acceptor::new(app.clone(), descriptors, self.max_connections, workers.clone());
        let listening = Arc::new(listening);
        let mut server = Server {
            address,
            listen,
            app,
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
        server.spawn_maintenance();
        Ok(server)
    }
}

/// Builds a gate whose state is in a folder, with the config and the changes of limits that were kept there.
fn with_state(
    builder: GateBuilder,
    folder: PathBuf,
    config: &Config,
) -> Result<(Gate, LimitChanges), StartError> {
    let folder = folder.to_str().map_or_else(|| folder.clone(), in_home);
    let file = StateFile::open(folder)?.on_failure(match config.state.on_failure {
        StateFailure::Refuse => OnFailure::Refuse,
        StateFailure::Memory => OnFailure::Memory,
    });
    info!(file = %file.path().display(), "state");
    let kept = file.kept_changes().unwrap_or_default();
    let mut changes = LimitChanges::from_kept(config, &kept);
    let gate = builder.config(changes.over(config)).state(file).build()?;
    Ok((gate, changes))
}

/// Measures how far wall-clock time is ahead of the gate's, in nanoseconds: the reading that took least of 100.
fn clock_offset(gate: &Gate) -> u64 {
    let wall =
        || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let readings = (0..100).map(|_| {
        let before = wall();
        let gates = gate.now().0;
        (wall().saturating_sub(before), before.wrapping_sub(gates))
    });
    readings.min().map_or(0, |(_, offset)| offset)
}

/// Returns a path whose `~/` is replaced by the user's home.
fn in_home(path: &str) -> PathBuf {
    let home = path.strip_prefix("~/").zip(std::env::var_os("HOME"));
    home.map_or_else(|| path.into(), |(rest, home)| Path::new(&home).join(rest))
}

fn log_limits(config: &Config) {
    for limit in configured_limits::limits(config) {
        info!(limit = limit.name, amount = limit.amount, from = limit.from(), "limit");
    }
}
