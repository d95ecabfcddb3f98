//! Starts a sidecar for this `run` and for those that come later.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::lease::Lease;
use crate::sidecar::{Sidecar, Token};

/// The arguments of a sidecar that is started.
pub struct Options<'r> {
    pub config: Option<&'r Path>,
    pub state: Option<&'r Path>,
}

/// Starts a sidecar that ends when the lock behind `lease` is free, or finds the one that another `run` started meanwhile.
/// Returns which of the two it was.
pub fn sidecar(
    lease: &Lease,
    options: &Options<'_>,
    listen: &str,
    token: &Token,
) -> anyhow::Result<(Sidecar, bool)> {
    let log = lease.log();
    // Appended to, so that two sidecars that start at once do not overwrite each other's lines.
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&log);
    let file = file.with_context(|| format!("cannot write the log {}", log.display()))?;
    let before = file.metadata().map(|found| found.len()).unwrap_or_default();

    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command.args(["serve", "--drain", "5", "--while-used"]).arg(lease.path());
    for (option, path) in [("--config", options.config), ("--state", options.state)] {
        if let Some(path) = path {
            command.arg(option).arg(path);
        }
    }
    // A process group of its own: Ctrl-C is for the program, which may have calls to end.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file).process_group(0);
    let mut child = command.spawn().context("cannot start a sidecar")?;
    let mut first = String::new();
    BufReader::new(child.stdout.take().context("no pipe")?).read_line(&mut first)?;
    if let Some(address) = first.trim().strip_prefix("http://") {
        let sidecar = Sidecar::listening(address, token)?;
        return Ok((sidecar.with_context(|| format!("the sidecar on {address} ended at once"))?, false));
    }
    child.wait().context("cannot wait for the sidecar")?;
    if lease.is_shared()
        && let Some(sidecar) = Sidecar::listening(listen, token)?
    {
        return Ok((sidecar, true));
    }
    let said = std::fs::read(&log).unwrap_or_default();
    let said = String::from_utf8_lossy(said.get(before as usize..).unwrap_or_default());
    bail!("the sidecar did not start: {}", said.trim().trim_start_matches("tidegate: "))
}
