//! How many instructions of the processor a proxied call takes, in the sidecar's own process.
//!
//! The sidecar runs under valgrind's callgrind with one worker, twice: for a few calls and for many. What the second run
//! took more, divided by the calls it had more, is one call without start and end. A call waits for the one before it, on
//! one connection, so that two runs do the same work. The kernel's instructions are not in it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::harness::Effort;
use crate::load::clients::ask_times;
use crate::load::process::{Folder, Process, tidegate};
use crate::load::upstream;

const FEW: usize = 500;
const MANY: usize = 10_500;

pub fn table(effort: Effort) -> Result<()> {
    println!("## Instructions of a proxied call: a POST of 1 KiB, one worker\n");
    let works = Command::new("valgrind").arg("--version").output();
    if !works.is_ok_and(|run| run.status.success()) {
        println!("Skipped: there is no valgrind (apt-get install valgrind).\n");
        return Ok(());
    }
    let (few, many) = if effort == Effort::Full { (FEW, MANY) } else { (FEW / 10, MANY / 10) };
    let upstream = upstream::start(super::reply())?;
    let folder = Folder::new("proxy-instructions")?;
    let less = counted(&folder, upstream.address, few)?;
    let more = counted(&folder, upstream.address, many)?;
    println!("| | instructions a call |\n|---|--:|");
    println!("| **tidegate** | {} |\n", (more - less) / (many - few) as u64);
    Ok(())
}

/// The instructions that the sidecar spent from its start to its end, with so many calls between.
fn counted(folder: &Folder, upstream: SocketAddr, calls: usize) -> Result<u64> {
    let out = folder.path().join(format!("callgrind-{calls}"));
    let config = super::config(folder, upstream)?;
    let serve = tidegate(&["serve", "--listen", "127.0.0.1:0", "--workers", "1", "--no-state", "--config"])?;
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", out.display()));
    command.arg(serve.get_program()).args(serve.get_args()).arg(config).current_dir(folder.path());
    let sidecar = Process::telling(command)?;
    ask_times(sidecar.address, &super::request(super::PATH), calls)?;
    // It writes what it counted when it ends.
    drop(sidecar);
    total(&out)
}

fn total(path: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(path).context("callgrind wrote nothing")?;
    let line =
        text.lines().find_map(|line| line.strip_prefix("totals: ")).context("callgrind wrote no total")?;
    let total = line.trim().parse()?;
    ensure!(total > 0, "callgrind counted nothing");
    Ok(total)
}
