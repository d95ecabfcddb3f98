//! A real sidecar, with a limited API behind it.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

pub use super::process::Process;

/// A folder with a config.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn with(config: &str) -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tidegate-live-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        std::fs::write(path.join("tidegate.toml"), config).expect("a file");
        Folder(path)
    }

    pub fn tidegate(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(arguments).current_dir(&self.0);
        command.env("XDG_STATE_HOME", &self.0).env("XDG_RUNTIME_DIR", &self.0);
        command
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// An API that takes as long as it is told, and a sidecar in front of it as the service `api`, with these limits.
pub fn served(latency: &str, limits: &str) -> (Folder, Process, Process) {
    let nowhere = Folder::with("");
    let api = Process::start(nowhere.tidegate(&["upstream", "--latency", latency]));
    let folder = Folder::with(&format!("[services.api]\nupstream = \"http://{}\"\n{limits}", api.address));
    let sidecar = Process::start(folder.tidegate(&["serve", "--listen", "127.0.0.1:0"]));
    (folder, api, sidecar)
}
