//! Runs the program: forwards its signals, and returns its exit code.
//!
//! Signals to `run` are forwarded. Ctrl-C and Ctrl-\ are not, where the terminal sends them to the program itself, as it
//! does to all processes of its foreground group: a program that gets such a signal twice may abort its own shutdown.
//! Signals that `run` ignores (as under `nohup`) the program ignores too, and they are not forwarded.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::Context;
use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::lease::Lease;

const PASSED_ON: [Signal; 6] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2];

/// How the program ended.
pub enum Ended {
    /// It ran, and this is its exit code.
    Ran(ExitCode),
    /// It could not be started.
    NotStarted(ExitCode),
}

impl Ended {
    /// Returns the exit code of `run`.
    pub fn code(self) -> ExitCode {
        match self {
            Ended::Ran(code) | Ended::NotStarted(code) => code,
        }
    }
}

/// Runs the program to its end.
pub fn run(command: Command, lease: &Lease) -> anyhow::Result<Ended> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start a runtime")?;
    runtime.block_on(async {
        let mut signals = listen().context("cannot listen for signals")?;
        let program = command.get_program().to_string_lossy().into_owned();
        lease.hand_on().context("cannot hand the lock on")?;
        let mut child = match tokio::process::Command::from(command).spawn() {
            Ok(child) => child,
            Err(error) => {
                eprintln!("tidegate: cannot run {program}: {error}");
                // The exit codes of shells and env(1).
                let found = error.kind() != io::ErrorKind::NotFound;
                return Ok(Ended::NotStarted(ExitCode::from(if found { 126 } else { 127 })));
            }
        };
        loop {
            tokio::select! {
                status = child.wait() => {
                    return Ok(Ended::Ran(code(status.context("cannot wait for the program")?)));
                }
                Some(signal) = signals.recv() => {
                    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
                    if let Some(pid) = pid && !comes_from_the_terminal(signal) {
                        // It may have ended this very moment.
                        let _ = kill_process(pid, signal);
                    }
                }
            }
        }
    })
}

/// Keeps these signals from ending this process.
fn listen() -> io::Result<mpsc::UnboundedReceiver<Signal>> {
    let (tell, told) = mpsc::unbounded_channel();
    let ignored = ignored();
    for kind in PASSED_ON.into_iter().filter(|kind| ignored >> (kind.as_raw() - 1) & 1 == 0) {
        let mut arriving = signal(SignalKind::from_raw(kind.as_raw()))?;
        let tell = tell.clone();
        tokio::spawn(async move { while arriving.recv().await.is_some() && tell.send(kind).is_ok() {} });
    }
    Ok(told)
}

/// Returns the signals that this process ignores, one bit each; none where that cannot be read.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

/// Returns whether the terminal has sent the signal to the program as well.
fn comes_from_the_terminal(signal: Signal) -> bool {
    let foreground = || tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp());
    matches!(signal, Signal::INT | Signal::QUIT) && foreground()
}

fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_told_as_shells_do() {
        assert_eq!(code(ExitStatus::from_raw(3 << 8)), ExitCode::from(3));
        assert_eq!(code(ExitStatus::from_raw(15)), ExitCode::from(143));
    }
}
