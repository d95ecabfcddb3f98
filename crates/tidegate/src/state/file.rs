//! The file: who owns it, what is in it, and what happens if that makes no sense.
//!
//! A folder with `state.db` (SQLite), and `lock`, which the owner holds for as long as it lives, however it dies. Each write
//! is one transaction that is on disk when it returns, so a crash leaves either all of it or nothing.
//!
//! | table | what |
//! |---|---|
//! | `limits(name, state)` | the latest page of every limit, as JSON |
//! | `facts(name, value)` | what is known beside them, as JSON |
//! | `meta(name, value)` | when that was, and whether it was the end |

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction};
use tidegate_core::Nanos;
use tidegate_core::engine::{Found, Page};
use tidegate_core::kept::Kept;

use super::moment::Moment;
use super::{OnFailure, StateError};

/// What this program writes, and can read.
const VERSION: u32 = 1;
/// An engine that is older than this, 146 years, has not been.
const MOST_NANOS: u64 = 1 << 62;
/// Where in an SQLite file its user's version is.
const VERSION_AT: u64 = 60;

/// The state of a gate, on disk. One process owns it.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    db: Connection,
    /// Held until this is dropped, or the process dies.
    _lock: File,
    pub(crate) on_failure: OnFailure,
    pub(crate) found: Option<Found>,
    /// The engine's time at that moment.
    last: Option<(Moment, Nanos)>,
    aside: Option<Aside>,
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
}

impl StateFile {
    /// Opens the state in a folder, which is made if it is not there. A file that makes no sense is set aside, never
    /// deleted, and [named](StateFile::aside); the gate then begins as if nothing had been spent.
    ///
    /// # Errors
    /// If another process has it, if a later version wrote it, or if the disk does not let us.
    pub fn open(folder: impl AsRef<Path>) -> Result<StateFile, StateError> {
        let folder = folder.as_ref();
        let lock = lock(folder)?;
        let path = folder.join("state.db");
        refuse_newer(&path)?;
        let (opened, aside) = match read(&path) {
            Err(StateError::Corrupt { cause, .. }) => {
                let aside = set_aside(&path, cause)?;
                tracing::error!(kept = %aside.path.display(), cause = %aside.cause,
                    "the state file made no sense and was set aside: limits begin as if nothing had been spent");
                (read(&path)?, Some(aside))
            }
            opened => (opened?, None),
        };
        let Opened { db, found, last } = opened;
        Ok(StateFile {
            path,
            db,
            _lock: lock,
            on_failure: OnFailure::default(),
            found: Some(found),
            last,
            aside,
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
        let mut found = self.db.prepare_cached("SELECT value FROM facts WHERE name = ?1").ok()?;
        found.query_row([name], |row| row.get(0)).optional().ok()?
    }

    /// What the engine's time is now: it goes on while nobody counts.
    pub(crate) fn time(&self) -> Option<Nanos> {
        let (moment, engine) = self.last.as_ref()?;
        Some(engine.after(Moment::now().since(moment)))
    }
}

impl Store for StateFile {
    fn write(&mut self, batch: &Batch<'_>) -> Result<(), StateError> {
        let path = self.path.clone();
        let mut inner = || -> rusqlite::Result<()> {
            let transaction = self.db.transaction()?;
            put(&transaction, batch)?;
            transaction.commit()
        };
        inner().map_err(|cause| error(&path, &cause))
    }
}

fn put(to: &Transaction<'_>, batch: &Batch<'_>) -> rusqlite::Result<()> {
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
    meta.execute(("clean", if batch.clean { "1" } else { "0" }))?;
    Ok(())
}

struct Opened {
    db: Connection,
    found: Found,
    last: Option<(Moment, Nanos)>,
}

/// Opens the file and reads all of it.
fn read(path: &Path) -> Result<Opened, StateError> {
    let failed = |cause: rusqlite::Error| error(path, &cause);
    let db = Connection::open(path).map_err(failed)?;
    let is_new: bool =
        db.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    // Its lock file says who owns it; this keeps a shared-memory file from being needed.
    db.pragma_update(None, "locking_mode", "EXCLUSIVE").map_err(failed)?;
    if is_new {
        // Before the log is begun: the version must be in the file itself.
        db.execute_batch(&format!(
            "BEGIN IMMEDIATE;
             CREATE TABLE limits (name TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID;
             CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
             CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
             PRAGMA user_version = {VERSION};
             COMMIT;"
        ))
        .map_err(failed)?;
    }
    db.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
    db.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
    db.pragma_update(None, "journal_size_limit", 4 << 20).map_err(failed)?;
    let check: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(failed)?;
    let corrupt = |cause: String| StateError::Corrupt { path: path.to_owned(), cause };
    if check != "ok" {
        return Err(corrupt(check));
    }
    let mut found = Found::default();
    {
        let mut rows = db.prepare("SELECT name, state FROM limits").map_err(failed)?;
        let mut rows = rows.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let (name, state): (String, String) = (row.get(0).map_err(failed)?, row.get(1).map_err(failed)?);
            let kept: Kept =
                serde_json::from_str(&state).map_err(|cause| corrupt(format!("limit {name}: {cause}")))?;
            found.limits.push((name.into(), kept));
        }
    }
    let text = |table: &str, name: &str| -> Result<Option<String>, StateError> {
        let sql = format!("SELECT value FROM {table} WHERE name = ?1");
        db.query_row(&sql, [name], |row| row.get(0)).optional().map_err(failed)
    };
    if let Some(facts) = text("facts", "engine")? {
        found.facts = Some(serde_json::from_str(&facts).map_err(|cause| corrupt(format!("facts: {cause}")))?);
    }
    let number = |name: &str| -> Result<Option<u64>, StateError> {
        let Some(text) = text("meta", name)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| corrupt(format!("{name} is {text:?}")))
    };
    let mut last = None;
    if let Some(engine) = number("engine_ns")? {
        if engine > MOST_NANOS {
            return Err(corrupt(format!("the engine's time is {engine}")));
        }
        let up = Duration::from_nanos(number("up_ns")?.unwrap_or(0));
        let wall = Duration::from_nanos(number("wall_ns")?.unwrap_or(0));
        let boot = text("meta", "boot")?.filter(|boot| !boot.is_empty()).map(|boot| (boot, up));
        last = Some((Moment { boot, wall }, Nanos(engine)));
        found.crashed = text("meta", "clean")?.as_deref() != Some("1");
    }
    let now = last.as_ref().map_or(Nanos::ZERO, |(_, engine)| *engine);
    if let Some((name, _)) = found.limits.iter().find(|(_, kept)| !kept.is_possible(now)) {
        return Err(corrupt(format!("limit {name} cannot have been in that state")));
    }
    Ok(Opened { db, found, last })
}

/// Makes sure that nobody else has the folder.
fn lock(folder: &Path) -> Result<File, StateError> {
    let disk =
        |path: &Path, cause: std::io::Error| StateError::Disk { path: path.into(), cause: cause.to_string() };
    std::fs::create_dir_all(folder).map_err(|cause| disk(folder, cause))?;
    let path = folder.join("lock");
    let open = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = open.map_err(|cause| disk(&path, cause))?;
    if let Err(cause) = rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        if cause != rustix::io::Errno::WOULDBLOCK {
            return Err(disk(&path, cause.into()));
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

/// Looks at a file without touching it.
fn refuse_newer(path: &Path) -> Result<(), StateError> {
    let Ok(mut file) = File::open(path) else { return Ok(()) };
    let mut version = [0; 4];
    let read = file.seek(std::io::SeekFrom::Start(VERSION_AT)).and_then(|_| file.read_exact(&mut version));
    let found = u32::from_be_bytes(version);
    let mut magic = [0; 15];
    let is_sqlite =
        file.rewind().and_then(|()| file.read_exact(&mut magic)).is_ok() && magic == *b"SQLite format 3";
    if read.is_ok() && is_sqlite && found > VERSION {
        return Err(StateError::Newer { path: path.into(), found, known: VERSION });
    }
    Ok(())
}

/// Moves a file that makes no sense out of the way, with what belongs to it.
fn set_aside(path: &Path, cause: String) -> Result<Aside, StateError> {
    let taken = |number: u32| path.with_file_name(format!("state.db.aside-{number}"));
    let number = (1..).find(|number| !taken(*number).exists()).unwrap_or(u32::MAX);
    let aside = taken(number);
    let disk = |cause: std::io::Error| StateError::Disk { path: path.into(), cause: cause.to_string() };
    std::fs::rename(path, &aside).map_err(disk)?;
    for ending in ["-wal", "-shm", "-journal"] {
        let with = |path: &Path| PathBuf::from(format!("{}{ending}", path.display()));
        if with(path).exists() {
            std::fs::rename(with(path), with(&aside)).map_err(disk)?;
        }
    }
    Ok(Aside { path: aside, cause })
}

fn error(path: &Path, cause: &rusqlite::Error) -> StateError {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    let (path, text) = (path.to_owned(), cause.to_string());
    match cause.sqlite_error_code() {
        Some(DatabaseCorrupt | NotADatabase) => StateError::Corrupt { path, cause: text },
        None => StateError::Corrupt { path, cause: text },
        Some(_) => StateError::Disk { path, cause: text },
    }
}

fn json(kept: &Kept) -> String {
    serde_json::to_string(kept).unwrap_or_default()
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
