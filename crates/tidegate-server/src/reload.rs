//! The config file while the sidecar runs.
//!
//! The folder is watched and not the file, since most editors put a new file in the place of the old one. What is noticed
//! is only that something happened there: whether the file says something else is seen by reading it, so it does not
//! matter how it came to be. A file that is wrong is refused as a whole, and what was in force stays.

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

use crate::app::App;
use crate::events::Event;
use crate::server::with_defaults;

/// How long to wait for whoever writes the file to be done.
const SETTLE: Duration = Duration::from_millis(50);

/// A config file, and what it said when it was last looked at.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    path: PathBuf,
    seen: Mutex<String>,
}

/// What became of the config file so far.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    file: Option<PathBuf>,
    /// How often another one came into force.
    count: u64,
    /// Why what the file says now is not in force.
    error: Option<String>,
}

impl Reloads {
    pub fn of(file: Option<&ConfigFile>) -> Reloads {
        // Absolute, so that commands in other folders know which file it is.
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        Reloads { file: file.map(|file| absolute(&file.path)), ..Reloads::default() }
    }

    pub fn json(&self) -> Value {
        let file = self.file.as_ref().map(|file| file.display().to_string());
        json!({ "file": file, "reloads": self.count, "error": self.error })
    }
}

impl ConfigFile {
    /// Reads it for the first time.
    pub fn load(path: PathBuf) -> Result<(ConfigFile, Config), ConfigError> {
        let text = read(&path)?;
        let config = Config::parse_file(&text, &path)?;
        Ok((ConfigFile { path, seen: Mutex::new(text) }, config))
    }

    /// Puts into force what the file says, if that is something else than last time, or in any case if that is wished.
    pub fn reload(&self, app: &App, in_any_case: bool) {
        // Held meanwhile: of two who come at once the second finds nothing new.
        let mut seen = self.seen.lock();
        let config = match read(&self.path) {
            Ok(text) if text == *seen && !in_any_case => return,
            // Emptied to be written anew. To have it empty takes a word.
            Ok(text) if text.trim().is_empty() && !in_any_case => return,
            Ok(text) => {
                *seen = text;
                Config::parse_file(&seen, &self.path)
            }
            // Told once, and told again only after it was there.
            Err(_) if seen.is_empty() && !in_any_case => return,
            Err(error) => {
                seen.clear();
                Err(error)
            }
        };
        let in_force = match config {
            Ok(config) => app.reconfigure(with_defaults(config)).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let mut reloads = app.reloads.lock();
        match in_force {
            Ok(()) => {
                info!(file = %self.path.display(), "another config is in force");
                reloads.count += 1;
                reloads.error = None;
                app.events.tell(|| Event::ConfigReloaded);
            }
            Err(message) => {
                error!(file = %self.path.display(), error = message, "the config is refused, the old one stays");
                app.events.tell(|| Event::ConfigRefused { error: message.clone() });
                reloads.error = Some(message);
            }
        }
    }

    /// Follows the file for as long as it is polled.
    pub async fn follow(self: Arc<ConfigFile>, app: Arc<App>) {
        let happened = Arc::new(Notify::new());
        let _watcher = match self.watch(happened.clone()) {
            Ok(watcher) => watcher,
            Err(error) => {
                warn!(%error, "the config file cannot be watched: send SIGHUP after a change");
                return;
            }
        };
        loop {
            // Until nothing has happened for a while: whoever writes may write in parts. The first time for what was
            // written between the first reading and now.
            while tokio::time::timeout(SETTLE, happened.notified()).await.is_ok() {}
            self.reload(&app, false);
            happened.notified().await;
        }
    }

    fn watch(&self, happened: Arc<Notify>) -> notify::Result<impl Watcher + use<>> {
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Our own reading is one of the things that happen there.
            let is_reading = event.is_ok_and(|event| {
                matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write))
            });
            if !is_reading {
                happened.notify_one();
            }
        })?;
        let folder = |path: &Path| match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        watcher.watch(&folder(&self.path), RecursiveMode::NonRecursive)?;
        // A link is followed to where the text is.
        if let Ok(target) = self.path.canonicalize()
            && folder(&self.path).canonicalize().is_ok_and(|here| here != folder(&target))
        {
            watcher.watch(&folder(&target), RecursiveMode::NonRecursive)?;
        }
        Ok(watcher)
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|cause| ConfigError::Unreadable { path: path.to_owned(), cause })
}
