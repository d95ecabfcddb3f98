//! `tidegate serve`: the sidecar.

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow};
use clap::Args;
use tidegate::config::ConfigError;
use tidegate::{Config, StateError};
use tidegate_server::{Server, StartError};
use tokio::runtime::Builder;
use tokio::sync::Notify;

use crate::config_file::{config, file};
use crate::log::{self, LogFormat};
use crate::running::{self, Record, Running};
use crate::signals::{Reload, Stop};
use crate::{Misuse, print};

/// The most clients that may be connected where descriptors are plenty. Each waiting call has a connection.
const MAX_CONNECTIONS: usize = 16_384;
/// The command warns at the start if fewer files than this may be open.
const FEW_FILES: usize = 1_024;
/// The most files that the process itself has open, mainly its state and its sockets, and those of each worker thread.
/// Measured: 19 in all with two threads and state.
const OWN_FILES: usize = 20;
const WORKER_FILES: usize = 4;

/// Serve APIs through one base URL, within their limits.
///
/// A program changes its base URL to http://127.0.0.1:8429/{service} and nothing else; docs/sidecar.md tells more.
/// Without a config every preset with a fixed URL is served under its name. The first line on standard output is the
/// URL it listens on; logs go to standard error, and TIDEGATE_LOG says how many of them (info, debug).
#[derive(Args)]
pub struct Serve {
    /// The config file; tidegate.toml in the working directory if there is one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to listen, if not where the config says; port 0 takes one that is free.
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// A Unix socket to listen on too, if not the one that the config names; only you may use it.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The folder in which what was spent survives a restart, if not the one that the config names; if none does,
    /// ~/.local/state/tidegate, but none at port 0.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Keep what was spent in memory only.
    #[arg(long, conflicts_with = "state")]
    no_state: bool,
    /// Tell upstreams in a header when each call was let go.
    #[arg(long, hide = true)]
    tell_when: bool,
    /// Listen also where other machines reach it, and anybody there may spend your quota.
    #[arg(long)]
    insecure_listen: bool,
    /// How many threads serve; as many as there are processors if not said.
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroUsize>,
    /// How long calls that are under way may go on when it is told to stop, in seconds; told again, it stops at once.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    drain: u64,
    /// How logs are written.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log: LogFormat,
    /// End when nobody holds this lock any more: how `tidegate run` starts a sidecar.
    #[cfg(unix)]
    #[arg(long, value_name = "LOCK", hide = true)]
    while_used: Option<PathBuf>,
}

impl Serve {
    pub fn run(self) -> anyhow::Result<()> {
        let last_lines = log::init(self.log).context("cannot start a thread for the log")?;
        let workers = self.workers.unwrap_or_else(processors);
        let max_connections = connections(allow_many_files(), workers);
        let runtime = Builder::new_current_thread().enable_all().build().context("cannot start a runtime")?;
        runtime.block_on(async {
            let mut stop = Stop::new().context("cannot wait for a signal")?;
            #[cfg(unix)]
            let lock = self.while_used.as_deref().map(crate::run::Watched::open).transpose()?;
            let mut reload = Reload::new().context("cannot wait for a signal")?;
            let builder = Server::builder()
                .insecure_listen(self.insecure_listen)
                .tell_when(self.tell_when)
                .max_connections(max_connections)
                .workers(workers);
            let builder = match self.state_folder()? {
                Some(folder) => builder.state(folder),
                None => builder,
            };
            let file = file(self.config);
            let builder = match &file {
                Some(file) => builder.config_file(file),
                None => builder.config(Config::default()),
            };
            let builder = match self.socket {
                Some(socket) => builder.socket(socket),
                None => builder,
            };
            let builder = match self.listen {
                Some(listen) => builder.listen(listen),
                None => builder,
            };
            let server = builder.start().await.map_err(with_advice)?;
            #[cfg(unix)]
            let private = lock.is_some() && server.listen().ends_with(":0");
            #[cfg(not(unix))]
            let private = false;
            let record = recorded(&server, file.as_deref(), private);
            print(&format!("{}\n", server.url()))?;
            #[cfg(unix)]
            let unused = crate::run::unused(lock);
            #[cfg(not(unix))]
            let unused = std::future::pending::<()>();
            let mut unused = pin!(unused);
            // Kept to the end: a `run` that waits for the lock must find the address free.
            let _lock = loop {
                tokio::select! {
                    () = stop.received() => break None,
                    lock = &mut unused => break Some(lock),
                    () = reload.received() => server.reload(),
                }
            };
            // A sidecar that is ending must not be found.
            drop(record);
            let hurried = Notify::new();
            let told_again = async {
                stop.received().await;
                hurried.notify_one();
                stop.received().await;
            };
            tokio::select! {
                () = server.stop_unless(Duration::from_secs(self.drain), hurried.notified()) => {}
                () = told_again => {
                    tracing::error!("stopped by a third signal: the last state may not be written");
                    drop(last_lines);
                    // Exits here and does not return: the runtime would wait for tasks that still write.
                    std::process::exit(1);
                }
            }
            Ok(())
        })
    }
}

impl Serve {
    /// Returns the folder for state: the named one, else the one in the config, else the default one. A sidecar on a free
    /// port is one of many, and has no state unless a folder is named.
    fn state_folder(&self) -> Result<Option<PathBuf>, Misuse> {
        if self.no_state || self.state.is_some() {
            return Ok(self.state.clone());
        }
        let config = config(self.config.as_deref())?;
        if let Some(folder) = &config.state.path {
            return Ok(Some(folder.into()));
        }
        if self.listen.as_ref().unwrap_or(&config.listen).ends_with(":0") {
            return Ok(None);
        }
        let named = |variable: &str| {
            std::env::var_os(variable).filter(|folder| !folder.is_empty()).map(PathBuf::from)
        };
        let states = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")));
        if states.is_none() {
            tracing::warn!(
                "there is no home to keep state in: a restart forgets what was spent. Name a folder with --state"
            );
        }
        Ok(states.map(|folder| folder.join("tidegate")))
    }
}

/// Records the sidecar for the commands that look for it. Without a record it is found by its address alone.
fn recorded(server: &Server, config: Option<&Path>, private: bool) -> Option<Record> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let running = Running {
        listen: server.listen().to_owned(),
        address: server.address().to_string(),
        config: config.map(running::canonical),
        state: server.gate().state_path().map(running::canonical),
        since: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
        private,
    };
    running::record(&running)
        .inspect_err(|error| tracing::warn!("commands find this sidecar by its address alone: {error:#}"))
        .ok()
}

/// Adds advice to an error, and marks it as a misuse if the arguments or the config are to blame.
fn with_advice(error: StartError) -> anyhow::Error {
    match error {
        StartError::State(StateError::InUse { path, owner }) => {
            let used = running::canonical(&path);
            let holder = running::all().into_iter().find(|running| running.state.as_deref() == Some(&*used));
            let (holder, address) = match holder {
                Some(holder) => {
                    (format!("{owner}, the sidecar on http://{}", holder.address), holder.address)
                }
                None => (owner, "its address".into()),
            };
            anyhow!(
                "{} is in use by {holder}. Either use that one (write `listen = \"{address}\"`, or point base URLs at \
                 it), or give this one a folder of its own (--state DIR, or `[state] path`): the two then count apart, \
                 so write into each its share of a quota that they have in common",
                path.display()
            )
        }
        StartError::Listen { ref listen, ref cause } if cause.kind() == io::ErrorKind::AddrInUse => {
            let is_socket = listen.contains('/');
            let elsewhere = if is_socket {
                "--socket PATH, or `listen_unix` in the config"
            } else {
                "--listen ADDR, or `listen` in the config"
            };
            match running::at(listen) {
                Some(holder) => anyhow!(
                    "{error}: the sidecar that runs with {} listens there. Either use that one (http://{}), or have this \
                     one listen elsewhere ({elsewhere}) with a state folder of its own (--state DIR)",
                    holder.config.map_or_else(|| "no config".into(), |config| config.display().to_string()),
                    holder.address
                ),
                None => {
                    anyhow!("{error}: another program listens there. Choose another address ({elsewhere})")
                }
            }
        }
        StartError::Listen { .. } | StartError::State(_) => error.into(),
        StartError::File(ConfigError::Unreadable { path, cause }) => {
            Misuse(format!("cannot read the config {}: {cause}", path.display())).into()
        }
        error => Misuse(error.to_string()).into(),
    }
}

/// Raises the limit on open files as far as the system allows: every waiting call has a connection, and every connection is
/// a file. Returns the limit, if there is one.
fn allow_many_files() -> Option<u64> {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // If the limit cannot be raised, fewer calls wait at a time.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        getrlimit(Resource::Nofile).current
    }
    #[cfg(not(unix))]
    None
}

/// Returns how many clients may be connected where this many files may be open. The rest is for the process itself and for
/// connections to upstreams: half where files are few, a quarter where they are many.
fn connections(files: Option<u64>, workers: NonZeroUsize) -> usize {
    let files = files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
    let free = files.saturating_sub(OWN_FILES.saturating_add(workers.get().saturating_mul(WORKER_FILES)));
    let upstreams = (free / 4).max((free / 2).min(128));
    let most = (free - upstreams).clamp(4, MAX_CONNECTIONS);
    if files < FEW_FILES {
        tracing::info!(
            files,
            "few files may be open at once (ulimit -n): at most {most} clients are connected"
        );
    }
    most
}

/// Returns how many processors may be used.
fn processors() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_kept_for_upstreams_and_for_the_process() {
        let connections = |files| connections(files, NonZeroUsize::new(2).expect("some"));
        assert_eq!(connections(None), MAX_CONNECTIONS);
        assert_eq!(connections(Some(1 << 20)), MAX_CONNECTIONS);
        assert_eq!(connections(Some(4_096)), 3_051);
        assert_eq!(connections(Some(64)), 18);
        assert_eq!(connections(Some(8)), 4);
    }
}
