//! The sidecar's process, and what the kernel knows of it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::upstreams::tls;

/// The folder of a world, with config, state and log; gone at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(seed: u64) -> Folder {
        let path = std::env::temp_dir().join(format!("tidegate-hostile-{}-{seed}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        fs::write(path.join("ca.pem"), &tls().certificate).expect("a file");
        Folder(path)
    }

    /// Puts another config in the place of the one there is, as editors do it.
    pub fn configure(&self, config: &str) {
        fs::write(self.0.join("new.toml"), config).expect("a file");
        fs::rename(self.0.join("new.toml"), self.0.join("tidegate.toml")).expect("the same folder");
    }

    /// Removes the state files.
    pub fn remove_state(&self) {
        fs::remove_dir_all(self.0.join("state")).ok();
    }

    /// Whether there is a state file.
    pub fn has_state(&self) -> bool {
        self.0.join("state/state.db").exists()
    }

    /// What the sidecar logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.0.join("log")).unwrap_or_default()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// A running sidecar.
pub struct Sidecar {
    child: Child,
    pub port: u16,
}

impl Sidecar {
    /// Starts it; an error if it does not say where it listens.
    pub fn start(folder: &Folder, workers: usize) -> Result<Sidecar, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let log = File::options().create(true).append(true).open(folder.0.join("log")).expect("a file");
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--state", "state"])
            .args(["--workers", &workers.to_string()])
            .current_dir(&folder.0)
            .env("XDG_STATE_HOME", &folder.0)
            .env("XDG_RUNTIME_DIR", &folder.0)
            .env("SSL_CERT_FILE", folder.0.join("ca.pem"))
            .stdout(Stdio::piped())
            .stderr(log);
        for name in
            ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy"]
        {
            command.env_remove(name);
        }
        let mut child = command.spawn().expect("the command is built");
        let mut first = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut first).ok();
        let port = first.trim().rsplit(':').next().and_then(|port| port.parse().ok());
        match port {
            Some(port) => Ok(Sidecar { child, port }),
            None => {
                child.kill().ok();
                child.wait().ok();
                Err(format!("the sidecar does not start: {first:?}"))
            }
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).ok();
    }

    /// Kills it at once.
    pub fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }

    /// Whether it ended by itself.
    pub fn has_ended(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(|status| format!("the sidecar ended by itself: {status}"))
    }

    /// Memory in KiB: what it has now (`VmRSS`), or the most it had (`VmHWM`).
    pub fn memory(&self, which: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(which)?.strip_prefix(':'));
        line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok()).unwrap_or(0)
    }

    /// How many files it has open.
    pub fn files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).map_or(0, Iterator::count)
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.kill();
    }
}
