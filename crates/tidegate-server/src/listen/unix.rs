//! The Unix socket, which only the user that started the sidecar may open.
//!
//! The socket is made under another name, with mode 0600, and then renamed in one step. So it never has wider rights. A
//! socket that a dead sidecar left behind is replaced; one on which a process listens is not.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// The socket's file. It is removed on drop, if it is still the one that was made.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
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
