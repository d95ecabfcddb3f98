//! The config file while the sidecar runs.
//!
//! The folder is watched and not the file, since most editors put a new file in the place of the old one. An event only says
//! that something happened there. The file is then read and compared, so it does not matter how it was written. An
//! invalid file is rejected as a whole, and the config in force stays.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecursiveMode, Watcher};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tidegate::{Config, ConfigError};
use tokio::sync::Notify;
use tracing::{error, info, warn};

use crate::config_store::with_defaults;
use crate::events::Event;
use crate::shared::Shared;

/// How long the folder must be quiet before the file is read.
const SETTLE: Duration = Duration::from_millis(50);

/// A config file, its text when it was last read, and the result of its reloads.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    path: PathBuf,
    /// For `/v1/status`: commands in other folders must know which file it is.
    absolute: PathBuf,
    seen: Mutex<String>,
    status: Mutex<ReloadStatus>,
}

/// The result of the reloads so far.
#[derive(Debug, Default)]
struct ReloadStatus {
    /// How often another config came into force.
    count: u64,
    /// Why the file as it is now is not in force.
    error: Option<String>,
}

impl ConfigFile {
    /// Reads the file for the first time.
    pub fn load(path: PathBuf) -> Result<(ConfigFile, Config), ConfigError> {
        let text = read(&path)?;
        let config = Config::parse_file(&text, &path)?;
        let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        Ok((ConfigFile { path, absolute, seen: Mutex::new(text), status: Mutex::default() }, config))
    }

    /// Puts the file's config into force if its text has changed, or in any case if `forced`.
    pub fn reload(&self, shared: &Shared, forced: bool) {
        // The lock is held until the end: of two reloads at once the second finds nothing new.
        let mut seen = self.seen.lock();
        let config = match read(&self.path) {
            Ok(text) if text == *seen && !forced => return,
            // An empty file is about to be written again. Only a forced reload takes it as it is.
            Ok(text) if text.trim().is_empty() && !forced => return,
            Ok(text) => {
                *seen = text;
                Config::parse_file(&seen, &self.path)
            }
            // A missing file is reported once, and again only after it was there.
            Err(_) if seen.is_empty() && !forced => return,
            Err(error) => {
                seen.clear();
                Err(error)
            }
        };
        let result = match config {
            Ok(config) => shared.config.reconfigure(with_defaults(config)).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let mut status = self.status.lock();
        match result {
            Ok(()) => {
                info!(file = %self.path.display(), "another config is in force");
                status.count += 1;
                status.error = None;
                shared.events.publish(|| Event::ConfigReloaded);
            }
            Err(message) => {
                error!(file = %self.path.display(), error = message, "the config is refused, the old one stays");
                shared.events.publish(|| Event::ConfigRefused { error: message.clone() });
                status.error = Some(message);
            }
        }
    }

    /// Reloads the file after each change, for as long as the future is polled.
    pub async fn follow(self: Arc<ConfigFile>, shared: Arc<Shared>) {
        let changed = Arc::new(Notify::new());
        let _watcher = match self.watch(changed.clone()) {
            Ok(watcher) => watcher,
            Err(error) => {
                warn!(%error, "the config file cannot be watched: send SIGHUP after a change");
                return;
            }
        };
        loop {
            // A program may write the file in parts, so it is read once the folder is quiet. The first round finds what was
            // written between `load` and the start of the watcher.
            while tokio::time::timeout(SETTLE, changed.notified()).await.is_ok() {}
            self.reload(&shared, false);
            changed.notified().await;
        }
    }

    fn watch(&self, changed: Arc<Notify>) -> notify::Result<impl Watcher + use<>> {
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading the file is an event too, and no change.
            let is_reading = event.is_ok_and(|event| {
                matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write))
            });
            if !is_reading {
                changed.notify_one();
            }
        })?;
        let folder = |path: &Path| match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        watcher.watch(&folder(&self.path), RecursiveMode::NonRecursive)?;
        // The folder of a link's target is watched too.
        if let Ok(target) = self.path.canonicalize()
            && folder(&self.path).canonicalize().is_ok_and(|here| here != folder(&target))
        {
            watcher.watch(&folder(&target), RecursiveMode::NonRecursive)?;
        }
        Ok(watcher)
    }
}

/// Describes the config file and its reloads, as `/v1/status` has it.
pub(crate) fn status_json(file: Option<&ConfigFile>) -> Value {
    let Some(file) = file else { return json!({ "file": null, "reloads": 0, "error": null }) };
    let path = file.absolute.display().to_string();
    let status = file.status.lock();
    json!({ "file": path, "reloads": status.count, "error": status.error })
}

fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|cause| ConfigError::Unreadable { path: path.to_owned(), cause })
}
