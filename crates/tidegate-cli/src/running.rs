//! Records of running sidecars: the address, the config file and the state file of each.
//!
//! Commands find the sidecar of a config by its record, also while the file is invalid, empty or missing. A record is a
//! file in the runtime folder. The sidecar holds a lock on it for as long as it lives. A record without a lock was left by
//! a process that was killed, and the next reader removes it.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A running sidecar.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Running {
    /// The address as it was written.
    pub listen: String,
    /// The address that it listens on.
    pub address: String,
    /// Its config file.
    pub config: Option<PathBuf>,
    /// Its state file.
    pub state: Option<PathBuf>,
    /// When it started, in milliseconds since 1970.
    pub since: u64,
    /// Whether one `run` started it on a free port, for its own program only.
    #[serde(default)]
    pub private: bool,
}

/// Returns a path in the form that records have: absolute, with links on the way to the file resolved. The file itself may
/// be missing.
pub fn canonical(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (absolute.parent().and_then(|folder| folder.canonicalize().ok()), absolute.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => absolute,
    }
}

/// Returns the sidecar that was started with a config file, the latest if there are several.
pub fn with_config(config: &Path) -> Option<Running> {
    let config = canonical(config);
    let found = all().into_iter().filter(|running| running.config.as_deref() == Some(&*config));
    found.max_by_key(|running| running.since)
}

/// Returns the sidecar that occupies an address.
pub fn at(listen: &str) -> Option<Running> {
    let wanted: Vec<SocketAddr> = listen.to_socket_addrs().ok()?.collect();
    let collide = |one: &SocketAddr, other: &SocketAddr| {
        let all = one.ip().is_unspecified() || other.ip().is_unspecified();
        one.port() == other.port() && (all || one.ip() == other.ip())
    };
    all().into_iter().find(|running| {
        let taken = running.address.parse::<SocketAddr>();
        taken.is_ok_and(|taken| wanted.iter().any(|wanted| collide(wanted, &taken)))
    })
}

#[cfg(unix)]
pub use unix::{Record, all, record};

#[cfg(unix)]
mod unix {
    use std::fs::{File, OpenOptions};
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::PathBuf;

    use anyhow::Context;
    use rustix::fs::{FlockOperation, flock};

    use super::Running;
    use crate::runtime_dir::{file_name, runtime_dir};

    const SUFFIX: &str = ".sidecar";

    /// A record. It is removed on drop.
    pub struct Record {
        path: PathBuf,
        /// Holds the lock.
        _file: File,
    }

    impl Drop for Record {
        fn drop(&mut self) {
            std::fs::remove_file(&self.path).ok();
        }
    }

    /// Records a sidecar.
    pub fn record(running: &Running) -> anyhow::Result<Record> {
        // Removes the records that killed sidecars left.
        all();
        let folder = runtime_dir()?;
        let name = format!("{}-{}", file_name(&running.address), std::process::id());
        let (path, draft) = (folder.join(format!("{name}{SUFFIX}")), folder.join(format!("{name}.draft")));
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft);
        let mut file = file.with_context(|| format!("cannot write {}", draft.display()))?;
        // Locked before it has its name: other processes remove a record without a lock.
        flock(&file, FlockOperation::LockExclusive).context("cannot lock the record")?;
        file.write_all(serde_json::to_string(running)?.as_bytes()).context("cannot write the record")?;
        std::fs::rename(&draft, &path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Record { path, _file: file })
    }

    /// Returns all sidecars of this user.
    pub fn all() -> Vec<Running> {
        let Ok(entries) = runtime_dir().and_then(|folder| Ok(std::fs::read_dir(folder)?)) else {
            return Vec::new();
        };
        let records = entries.flatten().map(|entry| entry.path());
        let records = records.filter(|path| path.to_string_lossy().ends_with(SUFFIX));
        let living = records.filter_map(|path| {
            let file = File::open(&path).ok()?;
            if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
                std::fs::remove_file(&path).ok();
                return None;
            }
            serde_json::from_reader(file).ok()
        });
        living.collect()
    }
}

#[cfg(not(unix))]
pub use elsewhere::{Record, all, record};

/// Without locks there are no records: the sidecar is found by its address alone.
#[cfg(not(unix))]
mod elsewhere {
    use super::Running;

    pub struct Record;

    pub fn record(_: &Running) -> anyhow::Result<Record> {
        Ok(Record)
    }

    pub fn all() -> Vec<Running> {
        Vec::new()
    }
}
