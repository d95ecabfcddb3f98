//! How many transactions were written, in a file beside the database.
//!
//! The latest transactions are in the write-ahead log. Without it, or with half of it, the database is as sound as it was
//! some time ago, and nothing in it tells that later transactions are missing. So every transaction has a number, which
//! is in the database, and after it was written also here: a database that knows a smaller number than this file has
//! lost some. The same shows that an older copy was put in its place.
//!
//! The number is written here after the transaction is on disk, and without a sync of its own: if the power goes, an older
//! number may be found here, which proves nothing and does no harm. A process that is killed loses nothing that it wrote.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::StateError;
use super::folder::{Identity, disk, open_own};

/// The number of transactions that were written.
#[derive(Debug)]
pub(super) struct Commits {
    path: PathBuf,
    file: File,
    count: u64,
}

impl Commits {
    /// Returns the number that is found there.
    pub fn found(folder: &Path) -> Option<u64> {
        std::fs::read_to_string(path_in(folder)).ok()?.trim().parse().ok()
    }

    /// Opens the file to count on from `count`, which is on disk when this returns.
    pub fn open(folder: &Path, count: u64) -> Result<Commits, StateError> {
        let path = path_in(folder);
        let commits = Commits { file: open_own(&path)?, path, count };
        let failed = |cause: std::io::Error| disk(&commits.path, &cause);
        commits.put().and_then(|()| commits.file.sync_all()).map_err(failed)?;
        // The names in the folder too.
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|cause| disk(folder, &cause))?;
        Ok(commits)
    }

    /// Returns the number of the last transaction.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of the next transaction.
    pub fn next(&self) -> u64 {
        self.count + 1
    }

    /// Notes that the next transaction is on disk. If that fails, less is known later, and nothing wrong.
    pub fn note(&mut self) {
        self.count += 1;
        let _ = self.put();
    }

    /// Returns whether the file is where it will be looked for.
    pub fn is_in_place(&self) -> bool {
        Identity::at(&self.path) == Identity::of_file(&self.file)
    }

    /// As long a text every time, so that there is never a part of one.
    fn put(&self) -> std::io::Result<()> {
        self.file.write_all_at(format!("{:020}\n", self.count).as_bytes(), 0)
    }
}

fn path_in(folder: &Path) -> PathBuf {
    folder.join("state.commits")
}
