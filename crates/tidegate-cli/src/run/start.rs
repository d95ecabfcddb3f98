//! Starting a sidecar for this `run` and those that come meanwhile.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::lease::Lease;
use crate::sidecar::{Sidecar, Token};

/// Starts a sidecar that ends when the lock behind `lease` is free; or finds the one that another `run` started
/// meanwhile.
pub fn sidecar(lease: &Lease, config: Option<&Path>, listen: &str, token: &Token) -> anyhow::Result<Sidecar> {
    let log = lease.log();
    // Appended to, so that two that start at once do not write over each other.
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&log);
    let file = file.with_context(|| format!("cannot write the log {}", log.display()))?;
    let before = file.metadata().map(|found| found.len()).unwrap_or_default();

    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command.args(["serve", "--drain", "5", "--while-used"]).arg(lease.path());
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    // A group of its own: Ctrl-C is for the program, which may have calls to end.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file).process_group(0);
    let mut child = command.spawn().context("cannot start a sidecar")?;
    let mut first = String::new();
    BufReader::new(child.stdout.take().context("no pipe")?).read_line(&mut first)?;
    if let Some(address) = first.trim().strip_prefix("http://") {
        return Sidecar::listening(address, token)?
            .with_context(|| format!("the sidecar on {address} ended at once"));
    }
    child.wait().context("cannot wait for the sidecar")?;
    if lease.is_shared()
        && let Some(sidecar) = Sidecar::listening(listen, token)?
    {
        return Ok(sidecar);
    }
    let said = std::fs::read(&log).unwrap_or_default();
    let said = String::from_utf8_lossy(said.get(before as usize..).unwrap_or_default());
    bail!("the sidecar did not start: {}", said.trim().trim_start_matches("tidegate: "))
}
