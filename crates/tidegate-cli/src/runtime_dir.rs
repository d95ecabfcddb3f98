//! The folder for files that live only as long as processes: locks, logs and the records of running sidecars.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::process::getuid;

/// Returns the folder, which only this user can write to. In a shared folder, other users could hold the locks.
pub fn runtime_dir() -> anyhow::Result<PathBuf> {
    let uid = getuid().as_raw();
    let path = match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| Path::new(path).is_dir()) {
        Some(runtime) => Path::new(&runtime).join("tidegate"),
        None => std::env::temp_dir().join(format!("tidegate-{uid}")),
    };
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("cannot make the folder {}", path.display()));
        }
        _ => {}
    }
    let found = path.symlink_metadata().with_context(|| format!("cannot look at {}", path.display()))?;
    if !found.is_dir() || found.uid() != uid || found.mode() & 0o022 != 0 {
        bail!("{} is not a folder of yours alone: remove it, or set XDG_RUNTIME_DIR", path.display());
    }
    Ok(path)
}

/// Returns an address as the name of a file.
pub fn file_name(listen: &str) -> String {
    listen.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_has_a_file_of_its_own() {
        assert_eq!(file_name("127.0.0.1:8429"), "127.0.0.1-8429");
        assert_eq!(file_name("[::1]:8429"), "---1--8429");
        assert_eq!(file_name("../../etc:1"), "..-..-etc-1");
    }
}
