//! `tidegate run`: a program that nobody wants to touch, behind a sidecar.
//!
//! The program finds the sidecar by the variables that its SDKs take their base URL from. A sidecar that runs is
//! used; else one is started that lives for as long as a `run` needs it ([`lease`] tells how, whoever starts, ends or
//! is killed when). Everything else is the program's own: its standard streams, its signals, its exit code.

mod lease;
mod program;
mod start;
mod variables;

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;
use tidegate::Priority;

use crate::serve::config;
use crate::sidecar::{Sidecar, Token};
use lease::Lease;
pub use lease::Watched;
use variables::Caller;

/// Run a program with its SDKs' base URLs set to a sidecar's.
///
/// Uses the sidecar that listens where the config says, or starts one that ends with the last `run` that uses it. Sets
/// OPENAI_BASE_URL, ANTHROPIC_BASE_URL and the like for every service that has one, and TIDEGATE_URL. The program's
/// exit code is this command's; 128 + n if signal n ended it.
#[derive(Args)]
pub struct Run {
    /// Who calls, for fair shares and reports; the program's name and process if not said.
    #[arg(long = "loop", value_name = "NAME")]
    loop_id: Option<String>,
    /// Its type, as [loop_types.…] in the config names it.
    #[arg(long, value_name = "TYPE")]
    loop_type: Option<String>,
    /// critical, high, normal or low; its loop type's if not said.
    #[arg(long)]
    priority: Option<Priority>,
    /// The config file; tidegate.toml in the working directory if there is one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    token: Token,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Waits until no `run` uses the sidecar behind a lock, and gives the lock, which is to be kept until that sidecar is
/// gone. Without one, waits for ever.
pub async fn unused(lock: Option<Watched>) -> File {
    let Some(lock) = lock else { return std::future::pending().await };
    let (tell, told) = tokio::sync::oneshot::channel();
    // A thread, and none of the runtime's: one of those could not be left waiting when the sidecar is told to stop.
    std::thread::spawn(move || tell.send(lock.unused()).ok());
    match told.await {
        Ok(file) => file,
        Err(_) => std::future::pending().await,
    }
}

impl Run {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let listen = config(self.config.as_deref())?.listen.clone();
        let lease = Lease::take(&listen)?;
        let sidecar = match lease
            .is_shared()
            .then(|| Sidecar::listening(&listen, &self.token))
            .transpose()?
            .flatten()
        {
            Some(sidecar) => sidecar,
            None => start::sidecar(&lease, self.config.as_deref(), &listen, &self.token)?,
        };
        let services = variables::services(&sidecar.get("/v1/status")?);
        let set = self.caller().variables(&sidecar.url(), &services);
        if set.is_empty() {
            eprintln!("tidegate: no service on {} has a base URL variable: nothing is set", sidecar.url());
        }
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).envs(set).env("TIDEGATE_URL", sidecar.url());
        command.envs(variables::past_proxies(|name| std::env::var(name).ok()));
        let code = program::run(command, &lease)?;
        lease.give_back();
        Ok(code)
    }

    fn caller(&self) -> Caller {
        let program = Path::new(&self.command[0]).file_name().unwrap_or(&self.command[0]);
        let named = || format!("{}-{}", program.to_string_lossy(), std::process::id());
        Caller {
            loop_id: self.loop_id.clone().unwrap_or_else(named),
            loop_type: self.loop_type.clone(),
            priority: self.priority,
        }
    }
}
