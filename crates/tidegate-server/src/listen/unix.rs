//! A Unix socket: for whoever started the sidecar, and for nobody else.
//!
//! It is made under another name, closed to others, and then put in its place in one step: so it is never there with
//! wider rights, and one that a sidecar left behind is replaced. One on which somebody listens is not.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// The socket's file; it is removed with this, if it is still ours.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and number, by which it is known.
    file: (u64, u64),
}

pub(crate) fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    if let Ok(there) = fs::symlink_metadata(path) {
        if !there.file_type().is_socket() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket"));
        }
        if UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "the socket is in use"));
        }
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(name);
    fs::remove_file(&beside).ok();
    let listener = UnixListener::bind(&beside)?;
    let placed = fs::set_permissions(&beside, fs::Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&beside, path))
        .and_then(|()| fs::symlink_metadata(path));
    match placed {
        Ok(there) => Ok((listener, SocketFile { path: path.to_owned(), file: (there.dev(), there.ino()) })),
        Err(error) => {
            fs::remove_file(&beside).ok();
            Err(error)
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let there = fs::symlink_metadata(&self.path);
        if there.is_ok_and(|there| (there.dev(), there.ino()) == self.file) {
            fs::remove_file(&self.path).ok();
        }
    }
}
