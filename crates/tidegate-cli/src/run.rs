//! `tidegate run`: runs an unchanged program behind a sidecar.
//!
//! The program finds the sidecar by the variables that its SDKs take their base URL from. A running sidecar is used; else
//! one is started that lives for as long as a `run` needs it. [`lease`] explains what happens when processes start, end or
//! are killed at the same time. Everything else is the program's own: its standard streams, its signals, its exit code.

mod lease;
mod notices;
mod program;
mod start;
mod variables;

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use clap::Args;
use tidegate::Priority;

use crate::config_file::{config, config_path};
use crate::running;
use crate::sidecar::{Sidecar, Token};
use lease::Lease;
pub use lease::Watched;
use notices::{Own, Theirs};
use program::Ended;
use variables::Caller;

/// Run a program with its SDKs' base URLs set to a sidecar's.
///
/// Uses the sidecar that runs with the config or listens where it says, or starts one that ends with the last `run` that
/// uses it. Sets
/// OPENAI_BASE_URL, ANTHROPIC_BASE_URL and the like for every service that has one, and TIDEGATE_URL. The program's
/// exit code is this command's; 128 + n if signal n ended it. A sidecar that was started with another config is used and
/// named on standard error; so is, at the end, a program of which no call came through.
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
    /// The folder in which what was spent survives, as for `serve`, if a sidecar is started.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Say nothing on standard error of a sidecar with another config, or of a program that never came through it.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    token: Token,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The sidecar that is used.
struct Joined {
    lease: Lease,
    sidecar: Sidecar,
    /// Whether this `run` found the sidecar. Otherwise this `run` started it.
    was_there: bool,
}

/// Waits until no `run` uses the sidecar behind a lock. Returns the lock, which must be kept until that sidecar is gone.
/// Without a lock, waits for ever.
pub async fn unused(lock: Option<Watched>) -> File {
    let Some(lock) = lock else { return std::future::pending().await };
    let (tell, told) = tokio::sync::oneshot::channel();
    // A thread outside of the runtime: the runtime would wait for a blocking task of its own when the sidecar stops.
    std::thread::spawn(move || tell.send(lock.unused()).ok());
    match told.await {
        Ok(file) => file,
        Err(_) => std::future::pending().await,
    }
}

impl Run {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Joined { lease, sidecar, was_there } = self.join()?;
        let status = sidecar.get("/v1/status")?;
        let caller = self.caller();
        let set = caller.variables(&sidecar.url(), &variables::services(&status));
        let theirs = Theirs { url: sidecar.url(), status: &status, set: &set };
        if set.is_empty() {
            self.say(format!("no service on {} has a base URL variable: nothing is set", theirs.url));
        }
        if was_there {
            let file = config_path(self.config.as_deref());
            let config = config(self.config.as_deref()).ok();
            let own = Own { file, config: config.as_ref(), state: self.state.as_deref() };
            notices::other_sidecar(&own, &theirs, &caller).into_iter().for_each(|line| self.say(line));
        }
        let loop_type = self.loop_type.as_deref().and_then(|name| theirs.unknown_loop_type(name));
        loop_type.into_iter().for_each(|line| self.say(line));

        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).envs(&set).env("TIDEGATE_URL", sidecar.url());
        command.envs(variables::past_proxies(|name| std::env::var(name).ok()));
        // Other loops may have the same name.
        let before = if self.quiet { None } else { sidecar.calls_of(&caller.loop_id) };
        let began = Instant::now();
        let ended = program::run(command, &lease)?;
        if let (Ended::Ran(_), Some(before)) = (&ended, before)
            && !set.is_empty()
            && sidecar.calls_of(&caller.loop_id) == Some(before)
            // A sidecar that was restarted meanwhile counts from zero again.
            && sidecar.has_run_for(began.elapsed())
        {
            self.say(notices::never_came(&caller.loop_id, &theirs));
        }
        lease.give_back();
        Ok(ended.code())
    }

    /// Finds the sidecar that runs with the config file, else the one that listens where the file says, else starts one.
    fn join(&self) -> anyhow::Result<Joined> {
        if let Some(listen) = self.running() {
            let lease = Lease::take(&listen)?;
            if let Some(sidecar) = Sidecar::listening(&listen, &self.token)? {
                return Ok(Joined { lease, sidecar, was_there: true });
            }
            // It ended before the lease was taken.
        }
        let listen = config(self.config.as_deref())?.listen.clone();
        let lease = Lease::take(&listen)?;
        let found = lease.is_shared().then(|| Sidecar::listening(&listen, &self.token)).transpose()?;
        if let Some(sidecar) = found.flatten() {
            return Ok(Joined { lease, sidecar, was_there: true });
        }
        let options = start::Options { config: self.config.as_deref(), state: self.state.as_deref() };
        let (sidecar, was_there) = start::sidecar(&lease, &options, &listen, &self.token)?;
        Ok(Joined { lease, sidecar, was_there })
    }

    /// Returns the address of the sidecar that was started with the config file, whatever the file says now. A sidecar that
    /// another `run` started for itself alone ends with that `run`, and is not shared.
    fn running(&self) -> Option<String> {
        let running = running::with_config(config_path(self.config.as_deref()))?;
        match (running.listen.ends_with(":0"), running.private) {
            (false, _) => Some(running.listen),
            (true, false) => Some(running.address),
            (true, true) => None,
        }
    }

    /// Writes a line to standard error, unless `quiet`.
    fn say(&self, line: String) {
        if !self.quiet {
            eprintln!("tidegate: {line}");
        }
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
