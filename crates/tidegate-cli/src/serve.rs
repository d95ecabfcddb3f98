//! `tidegate serve`: the sidecar.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tidegate::Config;
use tidegate::config::ConfigError;
use tidegate_server::{Server, StartError};
use tokio::runtime::Builder;

use crate::log::{self, LogFormat};
use crate::signals::{Reload, Stop};
use crate::{Misuse, print};

/// The config that is used if there is one and none is named.
const CONFIG: &str = "tidegate.toml";

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
    /// How long calls that are under way may go on when it is told to stop, in seconds.
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
        log::init(self.log);
        allow_many_files();
        let runtime = Builder::new_current_thread().enable_all().build().context("cannot start a runtime")?;
        runtime.block_on(async {
            let stop = Stop::new().context("cannot wait for a signal")?;
            #[cfg(unix)]
            let lock = self.while_used.as_deref().map(crate::run::Watched::open).transpose()?;
            let mut reload = Reload::new().context("cannot wait for a signal")?;
            let builder = Server::builder()
                .insecure_listen(self.insecure_listen)
                .tell_when(self.tell_when)
                .workers(self.workers.unwrap_or_else(processors));
            let builder = match self.state_folder()? {
                Some(folder) => builder.state(folder),
                None => builder,
            };
            let builder = match file(self.config) {
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
            let server = builder.start().await.map_err(in_words)?;
            print(&format!("{}\n", server.url()))?;
            #[cfg(unix)]
            let unused = crate::run::unused(lock);
            #[cfg(not(unix))]
            let unused = std::future::pending::<()>();
            let (mut stop, mut unused) = (pin!(stop.told()), pin!(unused));
            // Kept to the end: whoever waits for it is to find nobody listening.
            let _lock = loop {
                tokio::select! {
                    () = &mut stop => break None,
                    lock = &mut unused => break Some(lock),
                    () = reload.told() => server.reload(),
                }
            };
            server.stop(Duration::from_secs(self.drain)).await;
            Ok(())
        })
    }
}

impl Serve {
    /// The folder for state that was named, else the one that the config names, else the usual one. A sidecar that listens
    /// wherever there is room is one of many, and has none unless it is told so.
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

/// The config that was named, else the one that is there, else an empty one.
pub fn config(named: Option<&Path>) -> Result<Config, Misuse> {
    let path = match named {
        Some(path) => path,
        None if Path::new(CONFIG).exists() => Path::new(CONFIG),
        None => return Ok(Config::default()),
    };
    Config::load(path).map_err(|error| match error {
        ConfigError::Unreadable { path, cause } => {
            Misuse(format!("cannot read the config {}: {cause}", path.display()))
        }
        error => Misuse(error.to_string()),
    })
}

/// The file that was named, else the one that is there.
fn file(named: Option<PathBuf>) -> Option<PathBuf> {
    named.or_else(|| Some(PathBuf::from(CONFIG)).filter(|path| path.exists()))
}

/// Whether the call, the config or the world is to blame.
fn in_words(error: StartError) -> anyhow::Error {
    match error {
        StartError::Listen { .. } | StartError::State(_) => error.into(),
        StartError::File(ConfigError::Unreadable { path, cause }) => {
            Misuse(format!("cannot read the config {}: {cause}", path.display())).into()
        }
        error => Misuse(error.to_string()).into(),
    }
}

/// Every call that waits has a connection, and every connection is a file: as many as the system allows.
fn allow_many_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // What cannot be had is not worth a word: then fewer calls wait at a time.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// As many as may be used.
fn processors() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
