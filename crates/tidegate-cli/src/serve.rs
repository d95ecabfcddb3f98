//! `tidegate serve`: the sidecar.

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tidegate::Config;
use tidegate::config::ConfigError;
use tidegate_server::{Server, StartError};

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
    /// Listen also where other machines reach it, and anybody there may spend your quota.
    #[arg(long)]
    insecure_listen: bool,
    /// How long calls that are under way may go on when it is told to stop, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    drain: u64,
    /// How logs are written.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log: LogFormat,
}

impl Serve {
    pub fn run(self) -> anyhow::Result<()> {
        log::init(self.log);
        allow_many_files();
        let runtime = tokio::runtime::Runtime::new().context("cannot start a runtime")?;
        runtime.block_on(async {
            let stop = Stop::new().context("cannot wait for a signal")?;
            let mut reload = Reload::new().context("cannot wait for a signal")?;
            let builder = Server::builder().insecure_listen(self.insecure_listen);
            let builder = match config(self.config) {
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
            let mut stop = pin!(stop.told());
            loop {
                tokio::select! {
                    () = &mut stop => break,
                    () = reload.told() => server.reload(),
                }
            }
            server.stop(Duration::from_secs(self.drain)).await;
            Ok(())
        })
    }
}

/// The file that was named, else the one that is there.
fn config(named: Option<PathBuf>) -> Option<PathBuf> {
    named.or_else(|| Some(PathBuf::from(CONFIG)).filter(|path| path.exists()))
}

/// Whether the call, the config or the world is to blame.
fn in_words(error: StartError) -> anyhow::Error {
    match error {
        StartError::Listen { .. } => error.into(),
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
