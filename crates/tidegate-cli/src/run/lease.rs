//! How a sidecar that `run` started knows when no `run` needs it any more.
//!
//! By a lock on a file, one file for each address that sidecars listen on. Every `run` holds the lock *shared* for as long
//! as its program runs. The sidecar waits for it *exclusively*, and gets it exactly when no `run` is left. Then it ends,
//! and holds the lock until it is gone. The kernel keeps track of holders and waiters, so there is no count to go wrong and
//! nothing to clean up:
//!
//! - **Two start at once.** Both hold the lock, both find no listener, both start a sidecar. The port goes to one of
//!   them. The other sidecar ends at once, and its `run` uses the one that listens. That one cannot end meanwhile, since
//!   both hold the lock.
//! - **One ends while another starts.** Either the new one has the lock before the sidecar does: then the sidecar goes
//!   on, and answers. Or the sidecar was first: then the new one waits for the lock until that sidecar is gone, finds
//!   no listener, and starts another. `run` takes the lock *before* it looks for a sidecar, so it never finds one that
//!   is about to go.
//! - **`kill -9` of the `run` that started it.** The sidecar is a process group of its own, and survives. The
//!   kernel drops the lock with the last process that has the file open; the program has it open too, so a sidecar
//!   outlives a killed `run` for as long as the program does. A `run` that ends normally releases the lock for all
//!   processes that have the file open, so a daemon that the program left behind keeps no sidecar.
//! - **`kill -9` of the sidecar.** Its lock and its port are free again; programs that use it see errors until another
//!   `run` starts one at the same address.
//! - **Killed between starting a sidecar and anything else.** The sidecar gets the lock at once and ends.
//! - **A sidecar that was started with `serve`** has no lock. All `run`s use it, and none ends it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::runtime_dir::{file_name, runtime_dir};

/// A `run`'s share of the lock.
pub struct Lease {
    file: File,
    path: PathBuf,
    shared: bool,
}

impl Lease {
    /// Takes a share in the sidecar at an address. Waits while the last sidecar there ends.
    pub fn take(listen: &str) -> anyhow::Result<Lease> {
        // No other process can find a port that the system chose.
        let shared = !listen.ends_with(":0");
        let own = if shared { String::new() } else { format!("-{}", std::process::id()) };
        let path = runtime_dir()?.join(format!("{}{own}.lock", file_name(listen)));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        hold(&file, FlockOperation::LockShared).with_context(|| format!("cannot lock {}", path.display()))?;
        Ok(Lease { file, path, shared })
    }

    /// Returns whether other `run`s may use the same sidecar.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the sidecar's log.
    pub fn log(&self) -> PathBuf {
        self.path.with_extension("log")
    }

    /// Makes programs that are started from here on keep the file open as well.
    pub fn hand_on(&self) -> io::Result<()> {
        Ok(fcntl_setfd(&self.file, FdFlags::empty())?)
    }

    /// Releases the share, also for programs that still have the file open.
    pub fn give_back(self) {
        if flock(&self.file, FlockOperation::Unlock).is_ok() && !self.shared {
            std::fs::remove_file(&self.path).ok();
            std::fs::remove_file(self.log()).ok();
        }
    }
}

/// The lock as the sidecar sees it. It is opened before the sidecar says that it listens: from then on the `run` that
/// started it may end at any time, and remove the file.
pub struct Watched(File);

impl Watched {
    /// Opens the file, which exists for as long as a `run` uses the sidecar.
    pub fn open(path: &Path) -> anyhow::Result<Watched> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        Ok(Watched(file.with_context(|| format!("cannot open {}", path.display()))?))
    }

    /// Waits until no `run` has a share left. Returns the lock, which must be kept until the sidecar is gone.
    pub fn unused(self) -> File {
        if let Err(error) = hold(&self.0, FlockOperation::LockExclusive) {
            // A sidecar that ends too soon is noticed; one that never ends is not.
            tracing::error!("cannot wait for the lock: {error}");
        }
        self.0
    }
}

fn hold(file: &File, how: FlockOperation) -> io::Result<()> {
    loop {
        match flock(file, how) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}
