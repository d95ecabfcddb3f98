//! The file: what is in it, whether all of it is there, and what happens if that makes no sense.
//!
//! A folder with `state.db` (SQLite), `state.commits` (see `commits`) and `lock`, which the owner holds for as long as it
//! lives, however it dies. Each write is one transaction that is on disk when it returns, so a crash leaves either all of
//! it or nothing.
//!
//! | table | what |
//! |---|---|
//! | `limits(name, state)` | the latest page of every limit, as JSON |
//! | `facts(name, value)` | what is known beside them, as JSON |
//! | `meta(name, value)` | when that was, whether it was the end, the number of the transaction, the salt of fingerprints |
//!
//! Files can be removed or replaced while they are in use. SQLite goes on with the files that it has open, which no later
//! process will find. So before each write, and every now and then, the files at their paths are compared with those that
//! are open ([`Store::ensure`]); if they are others, what stands there is set aside, a new file is begun, and the
//! gate writes everything that it knows.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, Transaction};
use tidegate_core::engine::{Found, Page, Unknown};
use tidegate_core::limits::snapshot::Kept;
use tidegate_core::{Nanos, Salt};

use super::commits::Commits;
use super::folder::{self, Identity, with_ending};
use super::moment::Moment;
use super::read::{Opened, connect, error, nanos, read};
use super::{OnFailure, StateError};

/// The state of a gate, on disk. One process owns it.
#[derive(Debug)]
pub struct StateFile {
    folder: PathBuf,
    path: PathBuf,
    /// Absent while there is none that a later process would find.
    db: Option<Connection>,
    /// Which files are open: the database, and its log once there is one.
    open: (Option<Identity>, Option<Identity>),
    /// Held until this is dropped, or the process dies.
    lock: File,
    commits: Commits,
    salt: Salt,
    pub(crate) on_failure: OnFailure,
    pub(crate) found: Option<Found>,
    /// The engine's time at that moment.
    last: Option<(Moment, Nanos)>,
    aside: Option<Aside>,
    doubt: Option<String>,
}

/// A file that made no sense, and was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Aside {
    /// Where it is now.
    pub path: PathBuf,
    /// What was wrong with it.
    pub cause: String,
}

/// What is written at a time.
pub(crate) struct Batch<'a> {
    pub pages: &'a [Page],
    /// Name and JSON; nothing to leave out what was there.
    pub facts: &'a [(&'static str, String)],
    /// The engine's time.
    pub now: Nanos,
    /// Whether it is the last.
    pub clean: bool,
}

/// Where batches go.
pub(crate) trait Store: Send + 'static {
    /// All of it is on disk when this returns; or there was an error, and nobody knows.
    fn write(&mut self, batch: &Batch<'_>) -> Result<(), StateError>;

    /// Makes sure that what is written goes to where a later process will look for it. Returns whether that is another
    /// place than before: then nothing of what was written is there, and all of it is to be written again.
    fn ensure(&mut self) -> Result<bool, StateError> {
        Ok(false)
    }
}

impl StateFile {
    /// Opens the state in a folder, which is made if it is not there. A file that makes no sense is set aside, never
    /// deleted, and [named](StateFile::aside). Where it is not known what was spent, which [`StateFile::doubt`] tells, the
    /// limits of the gate begin as spent for one window.
    ///
    /// # Errors
    /// If another process has it, if a later version wrote it, if the folder belongs to another user, or if the disk does
    /// not let us.
    pub fn open(folder: impl AsRef<Path>) -> Result<StateFile, StateError> {
        let folder = folder.as_ref();
        let lock = folder::lock(folder)?;
        let path = folder.join("state.db");
        folder::tighten_database(&path)?;
        let noted = Commits::found(folder);
        let (opened, aside) = match read(&path) {
            Err(StateError::Corrupt { cause, .. }) => {
                let aside = Aside { path: folder::move_aside(&path)?, cause };
                folder::tighten_database(&path)?;
                (read(&path)?, Some(aside))
            }
            opened => (opened?, None),
        };
        let Opened { db, mut found, last, commits, current, salt } = opened;
        let doubt = match (&aside, commits, noted) {
            (Some(aside), ..) => Some(format!(
                "the state file made no sense ({}) and was set aside as {}",
                aside.cause,
                aside.path.display()
            )),
            (None, commits, Some(noted)) if commits.unwrap_or(0) < noted => Some(format!(
                "the state file lacks the last {} of {noted} transactions: its log was lost, or an older file was put \
                 in its place",
                noted - commits.unwrap_or(0)
            )),
            // The database cannot tell whether its log was lost: without it, it is as it was after some earlier stop.
            (None, _, None) if current => Some(
                "state.commits is missing or cannot be read, so it is not known whether the state file has all that was \
                 written"
                    .to_owned(),
            ),
            _ => None,
        };
        if let Some(doubt) = &doubt {
            tracing::error!(file = %path.display(), "{doubt}: limits begin as spent for one window");
            found.unknown = Unknown::All;
        }
        let commits = Commits::open(folder, commits.max(noted).unwrap_or(0))?;
        Ok(StateFile {
            open: (Identity::at(&path), None),
            folder: folder.to_owned(),
            path,
            db: Some(db),
            lock,
            commits,
            salt,
            on_failure: OnFailure::default(),
            found: Some(found),
            last,
            aside,
            doubt,
        })
    }

    /// What to do when it cannot be written.
    #[must_use]
    pub fn on_failure(mut self, what: OnFailure) -> StateFile {
        self.on_failure = what;
        self
    }

    /// The file that was there before, if it made no sense.
    #[must_use]
    pub fn aside(&self) -> Option<&Aside> {
        self.aside.as_ref()
    }

    /// Returns why it is not known what was spent, if that is so: then limits begin as spent.
    #[must_use]
    pub fn doubt(&self) -> Option<&str> {
        self.doubt.as_deref()
    }

    /// Returns the salt of fingerprints, which was made with the file.
    pub(crate) fn salt(&self) -> Salt {
        self.salt
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes that were made by hand, as they were kept.
    #[doc(hidden)]
    #[must_use]
    pub fn kept_changes(&self) -> Option<String> {
        self.fact("changes")
    }

    /// A text that was kept under that name.
    pub(crate) fn fact(&self, name: &str) -> Option<String> {
        let mut found = self.db.as_ref()?.prepare_cached("SELECT value FROM facts WHERE name = ?1").ok()?;
        found.query_row([name], |row| row.get(0)).optional().ok()?
    }

    /// What the engine's time is now: it goes on while nobody counts.
    pub(crate) fn time(&self) -> Option<Nanos> {
        let (moment, engine) = self.last.as_ref()?;
        Some(engine.after(Moment::now().since(moment)))
    }
}

impl StateFile {
    /// Returns whether the database and the log that are open are those that a later process will find.
    fn is_in_place(&self) -> bool {
        let (db, log) = self.open;
        self.db.is_some()
            && Identity::at(&self.path) == db
            && log.is_none_or(|log| Identity::at(&with_ending(&self.path, "-wal")) == Some(log))
    }

    /// Begins a new file where a later process will look for it.
    fn begin_anew(&mut self) -> Result<(), StateError> {
        if let Some(old) = self.db.take() {
            // What is there under the name of its log is no longer its own, and not to be deleted.
            let _ = old.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
        if self.path.exists() {
            let kept = folder::move_aside(&self.path)?;
            tracing::warn!(kept = %kept.display(), "what stood in the place of the state file was set aside");
        }
        for ending in folder::ENDINGS {
            let _ = std::fs::remove_file(with_ending(&self.path, ending));
        }
        folder::tighten_database(&self.path)?;
        let db = connect(&self.path, Some(self.salt))?.db;
        self.open = (Identity::at(&self.path), None);
        self.db = Some(db);
        Ok(())
    }
}

impl Store for StateFile {
    fn write(&mut self, batch: &Batch<'_>) -> Result<(), StateError> {
        let (path, number) = (self.path.clone(), self.commits.next());
        let Some(db) = &mut self.db else {
            let cause = "it was removed or replaced, and cannot be made anew".to_owned();
            return Err(StateError::Disk { path, cause });
        };
        let mut inner = || -> rusqlite::Result<()> {
            let transaction = db.transaction()?;
            put(&transaction, batch, number)?;
            transaction.commit()
        };
        inner().map_err(|cause| error(&path, &cause))?;
        self.commits.note();
        if self.open.1.is_none() {
            self.open.1 = Identity::at(&with_ending(&self.path, "-wal"));
        }
        Ok(())
    }

    fn ensure(&mut self) -> Result<bool, StateError> {
        if Identity::at(&self.folder.join("lock")) != Identity::of_file(&self.lock) {
            self.lock = folder::lock(&self.folder)?;
        }
        if !self.commits.is_in_place() {
            self.commits = Commits::open(&self.folder, self.commits.count())?;
        }
        if self.is_in_place() {
            return Ok(false);
        }
        if self.db.is_some() {
            let path = self.path.display();
            tracing::error!(file = %path, "the state file was removed or replaced while in use: it is written anew");
        }
        self.begin_anew()?;
        Ok(true)
    }
}

fn put(to: &Transaction<'_>, batch: &Batch<'_>, number: u64) -> rusqlite::Result<()> {
    let mut set = to.prepare_cached("INSERT OR REPLACE INTO limits (name, state) VALUES (?1, ?2)")?;
    let mut erase = to.prepare_cached("DELETE FROM limits WHERE name = ?1")?;
    for page in batch.pages {
        match &page.kept {
            Some(kept) => set.execute((&*page.name, json(kept)))?,
            None => erase.execute([&*page.name])?,
        };
    }
    let mut fact = to.prepare_cached("INSERT OR REPLACE INTO facts (name, value) VALUES (?1, ?2)")?;
    for (name, value) in batch.facts {
        fact.execute((name, value))?;
    }
    let moment = Moment::now();
    let (boot, up) = moment.boot.unwrap_or_default();
    let mut meta = to.prepare_cached("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)")?;
    meta.execute(("boot", boot))?;
    meta.execute(("up_ns", nanos(up).to_string()))?;
    meta.execute(("wall_ns", nanos(moment.wall).to_string()))?;
    meta.execute(("engine_ns", batch.now.0.to_string()))?;
    meta.execute(("commits", number.to_string()))?;
    meta.execute(("clean", if batch.clean { "1" } else { "0" }))?;
    Ok(())
}

fn json(kept: &Kept) -> String {
    serde_json::to_string(kept).unwrap_or_default()
}
