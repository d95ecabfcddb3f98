//! State that survives: what was spent is known after a restart, and after `kill -9`.
//!
//! A [`StateFile`] is an SQLite file that one process owns. A gate that has one spends only what is promised there: units
//! that are on disk as spent before a call may have them. A thread of its own writes promises ahead, many at once, so a
//! call waits for the disk only if the disk is slower than the quota.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = std::env::temp_dir().join(format!("tidegate-doc-{}", std::process::id()));
//! use tidegate::{Call, Config, Gate, StateFile};
//!
//! let config = Config::parse("[services.git]\nrequests = \"60/h\"\n")?;
//! let gate = Gate::builder().config(config.clone()).state(StateFile::open(&folder)?).build()?;
//! gate.try_acquire(Call::to("git"))?;
//! gate.close()?;
//! drop(gate);
//!
//! let gate = Gate::builder().config(config).state(StateFile::open(&folder)?).build()?;
//! assert_eq!(gate.limit("git/requests/1h").unwrap().used, 1);
//! # drop(gate);
//! # std::fs::remove_dir_all(folder)?;
//! # Ok(())
//! # }
//! ```

mod commits;
mod file;
mod folder;
mod moment;
mod port;
mod read;
#[cfg(test)]
mod tests;
mod writer;

use std::path::PathBuf;

#[cfg(test)]
pub(crate) use file::Batch;
pub(crate) use file::Store;
pub use file::{Aside, StateFile};
pub(crate) use port::{FundingPort, Taken};
pub(crate) use writer::StateWriter;

/// What a gate does when its state cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// It goes on without: a crash meanwhile may spend some of the quota twice.
    #[default]
    Memory,
    /// It refuses calls until the state can be written again.
    Refuse,
}

/// Why there is no state, or why it could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Another process has it.
    #[error(
        "{} is in use by {owner}: a state file has one owner. Let programs share a quota through one sidecar \
         (`tidegate serve`), or give this one a folder of its own",
        path.display()
    )]
    InUse {
        /// Which file.
        path: PathBuf,
        /// Who has it, as far as it said.
        owner: String,
    },
    /// It was written by a later version.
    #[error(
        "{} has version {found} of the state, and this program knows only up to {known}: use a later one, or \
         another folder. The file was left as it is",
        path.display()
    )]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The latest that is known.
        known: u32,
    },
    /// It makes no sense.
    #[error("{} cannot be read as state: {cause}", path.display())]
    Corrupt {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The disk does not let us.
    #[error("{}: {cause}. {}", path.display(), hint(cause))]
    Disk {
        /// Which file.
        path: PathBuf,
        /// What it says.
        cause: String,
    },
}

/// What to do about it.
fn hint(cause: &str) -> &'static str {
    let says = |words: &str| cause.to_ascii_lowercase().contains(words);
    if says("full") || says("no space") {
        "Free some space on that disk; nothing is lost meanwhile"
    } else if says("readonly") || says("read-only") || says("permission") {
        "The folder and the files in it must be writable for this user"
    } else {
        "See whether the disk is well, or name another folder"
    }
}
