//! The folder of a state file: who may read it, who owns it, and which files stand in it.
//!
//! What is kept there tells who spent what, so it is for its owner only: the folder is made with mode 0700, files with 0600,
//! and files of ours that are wider are tightened. A folder that was there before is tightened only if there is nothing in
//! it but our own files: it may be one that others need. One that another user owns is refused, since that user could
//! put other files in the place of ours; root may own it, as in a container.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::StateError;

/// The mode of the folder, and that of files in it.
const OWNER_FOLDER: u32 = 0o700;
const OWNER_FILE: u32 = 0o600;
/// What belongs to a database beside the file itself.
pub(super) const ENDINGS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Which file it is that stands at a path, whatever is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

impl Identity {
    fn of(metadata: &Metadata) -> Identity {
        Identity(metadata.dev(), metadata.ino())
    }

    /// Returns the identity of the file at a path, if there is one.
    pub fn at(path: &Path) -> Option<Identity> {
        std::fs::metadata(path).ok().map(|metadata| Identity::of(&metadata))
    }

    pub fn of_file(file: &File) -> Option<Identity> {
        file.metadata().ok().map(|metadata| Identity::of(&metadata))
    }
}

/// Returns `path` with something after its last letter.
pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Makes the folder if it is not there, and sees to it that only its owner can read what is in it.
pub(super) fn prepare(folder: &Path) -> Result<(), StateError> {
    let failed = |cause: std::io::Error| disk(folder, &cause);
    if !folder.exists() {
        DirBuilder::new().recursive(true).mode(OWNER_FOLDER).create(folder).map_err(failed)?;
    }
    let metadata = std::fs::metadata(folder).map_err(failed)?;
    let (owner, own) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != own && owner != 0 {
        return Err(StateError::Disk {
            path: folder.into(),
            cause: format!(
                "it belongs to another user ({owner}), who could replace what is kept there: permission to keep \
                 state is refused"
            ),
        });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    if owner == own && has_only_ours(folder) {
        std::fs::set_permissions(folder, Permissions::from_mode(OWNER_FOLDER)).map_err(failed)?;
    } else if mode & 0o022 != 0 && mode & 0o1000 == 0 {
        tracing::warn!(folder = %folder.display(), mode = %format!("{mode:o}"),
            "other users can write to the folder that state is kept in, and could replace it: give it mode 0700");
    }
    Ok(())
}

/// Whether a folder has files of ours, and no others.
fn has_only_ours(folder: &Path) -> bool {
    let Ok(mut files) = std::fs::read_dir(folder) else { return false };
    files.all(|file| file.is_ok_and(|file| is_ours(&file.file_name().to_string_lossy())))
}

fn is_ours(name: &str) -> bool {
    name == "lock" || name.starts_with("state.db") || name == "state.commits"
}

/// Opens a file for reading and writing that only its owner can read; one that is there is tightened.
pub(super) fn open_own(path: &Path) -> Result<File, StateError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(OWNER_FILE);
    let file = options.open(path).map_err(|cause| disk(path, &cause))?;
    tighten(path);
    Ok(file)
}

/// Takes the rights of all but the owner away, where that is allowed.
pub(super) fn tighten(path: &Path) {
    let Ok(metadata) = std::fs::metadata(path) else { return };
    if metadata.mode() & 0o177 != 0
        && let Err(cause) = std::fs::set_permissions(path, Permissions::from_mode(OWNER_FILE))
    {
        tracing::warn!(file = %path.display(), %cause, "other users can read what is kept there");
    }
}

/// Tightens the database and what belongs to it, and what was set aside before. The database is made if it is not there,
/// so that it is never readable by others.
pub(super) fn tighten_database(path: &Path) -> Result<(), StateError> {
    drop(open_own(path)?);
    ENDINGS.iter().for_each(|ending| tighten(&with_ending(path, ending)));
    let aside = |name: &str| name.starts_with("state.db.aside-");
    let folder = path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    for file in folder.into_iter().flatten().flatten() {
        if aside(&file.file_name().to_string_lossy()) {
            tighten(&file.path());
        }
    }
    Ok(())
}

/// Makes sure that no other process has the folder, for as long as the file is open.
pub(super) fn lock(folder: &Path) -> Result<File, StateError> {
    prepare(folder)?;
    let path = folder.join("lock");
    let mut file = open_own(&path)?;
    if let Err(cause) = rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        if cause != rustix::io::Errno::WOULDBLOCK {
            return Err(disk(&path, &cause.into()));
        }
        let mut owner = String::new();
        let _ = file.read_to_string(&mut owner);
        let owner = match owner.trim() {
            "" => "another process".to_owned(),
            named => named.to_owned(),
        };
        return Err(StateError::InUse { path: folder.join("state.db"), owner });
    }
    let program = std::env::args().next().unwrap_or_default();
    let program = Path::new(&program).file_name().map(|name| name.to_string_lossy().into_owned());
    let named = format!("process {} ({})\n", std::process::id(), program.unwrap_or_default());
    // Only for people: what is written here decides nothing.
    let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(named.as_bytes()));
    Ok(file)
}

/// Moves a database out of the way, with what belongs to it. Returns where it is now.
pub(super) fn move_aside(path: &Path) -> Result<PathBuf, StateError> {
    let taken = |number: u32| path.with_file_name(format!("state.db.aside-{number}"));
    let number = (1..).find(|number| !taken(*number).exists()).unwrap_or(u32::MAX);
    let aside = taken(number);
    std::fs::rename(path, &aside).map_err(|cause| disk(path, &cause))?;
    for ending in ENDINGS {
        let (from, to) = (with_ending(path, ending), with_ending(&aside, ending));
        if from.exists() {
            std::fs::rename(&from, &to).map_err(|cause| disk(&from, &cause))?;
        }
    }
    Ok(aside)
}

pub(super) fn disk(path: &Path, cause: &std::io::Error) -> StateError {
    StateError::Disk { path: path.into(), cause: cause.to_string() }
}
