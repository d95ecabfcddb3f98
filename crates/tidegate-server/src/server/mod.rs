//! A running sidecar, and how it ends.

mod builder;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{Config, Gate};
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::app::App;
use crate::config_file::ConfigFile;
use crate::config_store::with_defaults;
use crate::events::Event;
use crate::lifecycle::Phase;
use crate::listen::Acceptor;
#[cfg(unix)]
use crate::listen::unix::SocketFile;
use crate::start_error::StartError;
use crate::workers::Workers;

pub use builder::ServerBuilder;

/// How long calls may take to be answered with 503 after the time to drain.
const REFUSE_WITHIN: Duration = Duration::from_millis(300);

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
    /// The address as it was written.
    listen: String,
    app: Arc<App>,
    /// The tasks that accept, sweep and watch. They end with the server.
    tasks: Vec<JoinHandle<()>>,
    file: Option<Arc<ConfigFile>>,
    /// Kept until the end: upgraded connections go on there after their HTTP connection is over.
    _workers: Arc<Workers>,
    #[cfg(unix)]
    socket: Option<SocketFile>,
}

impl Server {
    /// Returns a builder with all defaults.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// Returns the address that the server listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address as the builder or the config has it.
    #[must_use]
    pub fn listen(&self) -> &str {
        &self.listen
    }

    /// Returns the address as a URL, without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the gate behind the server.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.app.shared.gate
    }

    /// Reads the config file again, if there is one, and puts it into force. Errors are logged and shown in `/v1/status`.
    pub fn reload(&self) {
        if let Some(file) = &self.file {
            file.reload(&self.app.shared, true);
        }
    }

    #[cfg(unix)]
    fn listen_on(&mut self, path: &Path, listening: Arc<Acceptor>) -> Result<(), StartError> {
        let bound = crate::listen::unix::bind(path);
        let (listener, socket) =
            bound.map_err(|cause| StartError::Listen { listen: path.display().to_string(), cause })?;
        info!(socket = %path.display(), "listening");
        self.socket = Some(socket);
        self.tasks.push(tokio::spawn(listening.accept(listener)));
        Ok(())
    }

    #[cfg(not(unix))]
    fn listen_on(&mut self, path: &Path, _: Arc<Acceptor>) -> Result<(), StartError> {
        let cause = std::io::ErrorKind::Unsupported.into();
        Err(StartError::Listen { listen: path.display().to_string(), cause })
    }

    /// Starts the tasks that run beside connections.
    fn spawn_maintenance(&mut self) {
        let App { shared, proxy, api, .. } = &*self.app;
        self.tasks.push(tokio::spawn(api.expire_permits()));
        let events = shared.clone();
        self.tasks.push(tokio::spawn(async move { events.events.follow(&events.gate).await }));
        self.tasks.push(tokio::spawn(proxy.sweep()));
        if let Some(file) = self.file.clone() {
            self.tasks.push(tokio::spawn(file.follow(shared.clone())));
        }
    }

    /// Puts another config into force. Usage, waiting calls and open connections stay.
    ///
    /// # Errors
    /// Returns an error if the config is invalid. The old one stays in force as a whole.
    pub fn reconfigure(&self, config: Config) -> Result<(), StartError> {
        self.app.shared.config.reconfigure(with_defaults(config))
    }

    /// Stops the server. No new connection is accepted, and connections without a call are closed within about a second.
    /// Calls that are under way have until `patience` is over. Then those whose reply has not begun are answered with 503,
    /// and the others are cut off.
    pub async fn stop(self, patience: Duration) {
        self.stop_unless(patience, std::future::pending()).await;
    }

    /// Stops as [`Server::stop`] does. Patience is over at once when `hurried` is ready.
    pub async fn stop_unless(mut self, patience: Duration, hurried: impl Future<Output = ()>) {
        let shared = self.app.shared.clone();
        let (lifecycle, connections) = (&shared.lifecycle, shared.lifecycle.connections());
        match lifecycle.calls() {
            0 => info!(connections, "stopping: connections are closed, since no call is under way"),
            1 => info!(connections, "stopping: waiting up to {patience:?} for 1 call"),
            calls => info!(connections, "stopping: waiting up to {patience:?} for {calls} calls"),
        }
        lifecycle.stop_taking_calls();
        shared.events.publish(|| Event::Stopping);
        lifecycle.enter(Phase::Draining);
        #[cfg(unix)]
        drop(self.socket.take());
        let drained = tokio::select! {
            // Ready once the last connection is gone.
            drained = tokio::time::timeout(patience, lifecycle.drained()) => drained.is_ok(),
            () = hurried => false,
        };
        if !drained {
            warn!(calls = lifecycle.calls(), "cutting off what is still under way");
            lifecycle.enter(Phase::Refusing);
            // A reply that has begun is not waited for.
            tokio::time::timeout(REFUSE_WITHIN, lifecycle.drained()).await.ok();
            lifecycle.enter(Phase::Cut);
            lifecycle.drained().await;
        }
        let gate = shared.gate.clone();
        // The disk may be slow.
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
        self.app.shared.lifecycle.enter(Phase::Cut);
    }
}
