//! How a sidecar that `run` started knows when nobody needs it any more.
//!
//! By a lock on a file, one file for each address that sidecars listen on. Every `run` holds it *shared* for as long as
//! its program runs; the sidecar waits for it *exclusively*, and has it exactly when no `run` is left. Then it ends, and
//! holds the lock until it has. Who asks for the lock, who waits and who is gone is the kernel's business, so there is
//! no count to go wrong and nothing to clean up:
//!
//! - **Two start at once.** Both hold the lock, both see nobody listen, both start a sidecar. The port goes to one of
//!   them; the other sidecar ends at once, and its `run` uses the one that listens. That one cannot end meanwhile: both
//!   hold the lock.
//! - **One ends while another starts.** Either the new one has the lock before the sidecar does: then the sidecar goes
//!   on, and answers. Or the sidecar was first: then the new one waits for the lock until that sidecar is gone, sees
//!   nobody listen, and starts another. `run` takes the lock *before* it looks for a sidecar, so it never finds one that
//!   is about to go.
//! - **`kill -9` of whoever started it.** The sidecar is a process group of its own and nobody's child to speak of. The
//!   kernel drops the lock with the last process that has the file open; the program has it open too, so a sidecar
//!   outlives a killed `run` for as long as the program does. When a `run` ends as it should it gives the lock back for
//!   all who have the file open, so a daemon that the program left behind keeps no sidecar.
//! - **`kill -9` of the sidecar.** Its lock and its port are free again; programs that use it see errors until another
//!   `run` starts one at the same address.
//! - **Killed between starting a sidecar and anything else.** The sidecar gets the lock at once and ends.
//! - **A sidecar that somebody started with `serve`** knows of no lock, is used by all and ended by none.

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
    /// Takes a share in the sidecar at an address; waits while the last one there ends.
    pub fn take(listen: &str) -> anyhow::Result<Lease> {
        // A port that the system chooses cannot be found by anybody else.
        let shared = !listen.ends_with(":0");
        let own = if shared { String::new() } else { format!("-{}", std::process::id()) };
        let path = runtime_dir()?.join(format!("{}{own}.lock", file_name(listen)));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        hold(&file, FlockOperation::LockShared).with_context(|| format!("cannot lock {}", path.display()))?;
        Ok(Lease { file, path, shared })
    }

    /// Whether others may use the same sidecar.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the sidecar's log goes.
    pub fn log(&self) -> PathBuf {
        self.path.with_extension("log")
    }

    /// From here on programs that are started have the file open as well.
    pub fn hand_on(&self) -> io::Result<()> {
        Ok(fcntl_setfd(&self.file, FdFlags::empty())?)
    }

    /// Gives the share back, also for programs that still have the file open.
    pub fn give_back(self) {
        if flock(&self.file, FlockOperation::Unlock).is_ok() && !self.shared {
            std::fs::remove_file(&self.path).ok();
            std::fs::remove_file(self.log()).ok();
        }
    }
}

/// The lock as the sidecar sees it: opened before it says that it listens, since from then on whoever started it may be
/// gone at any time, and the file with it.
pub struct Watched(File);

impl Watched {
    /// Opens the file, which is there for as long as somebody uses the sidecar.
    pub fn open(path: &Path) -> anyhow::Result<Watched> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        Ok(Watched(file.with_context(|| format!("cannot open {}", path.display()))?))
    }

    /// Waits until no `run` has a share left. What it gives holds the lock, and is to be kept until the sidecar is gone.
    pub fn unused(self) -> File {
        if let Err(error) = hold(&self.0, FlockOperation::LockExclusive) {
            // Better one that ends too soon, and is noticed, than one that never does.
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
