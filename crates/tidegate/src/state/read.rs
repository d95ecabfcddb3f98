//! Opening the database, and reading what it has.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension};
use tidegate_core::engine::{Found, Unknown};
use tidegate_core::limits::snapshot::Kept;
use tidegate_core::{Nanos, Salt};

use super::StateError;
use super::moment::Moment;

/// What this program writes, and can read. Version 1 had no salt and no number of transactions, and named keys by
/// fingerprints without a salt.
const VERSION: u32 = 2;
/// An engine that is older than this, 146 years, has not been.
const MOST_NANOS: u64 = 1 << 62;

/// A database that is ready to be written to.
pub(super) struct Connected {
    pub db: Connection,
    salt: Salt,
    /// It was of an earlier version.
    older: bool,
    /// It was there, and of this version.
    current: bool,
}

/// A database, and what is in it.
pub(super) struct Opened {
    pub db: Connection,
    pub found: Found,
    pub last: Option<(Moment, Nanos)>,
    /// The number of its last transaction.
    pub commits: Option<u64>,
    /// It was there, and of this version: so `state.commits` was there too before anything was spent.
    pub current: bool,
    pub salt: Salt,
}

/// Opens the database, makes it if there is none, and brings it up to this version. A new one has `salt`, or one of its own.
pub(super) fn connect(path: &Path, salt: Option<Salt>) -> Result<Connected, StateError> {
    let failed = |cause: rusqlite::Error| error(path, &cause);
    let db = Connection::open(path).map_err(failed)?;
    // The lock file says who owns it; this keeps a shared-memory file from being needed.
    db.pragma_update(None, "locking_mode", "EXCLUSIVE").map_err(failed)?;
    // The version may be in the log only, so the database is asked and not its header. As long as it is not known to be
    // ours, not even the log is moved into it when it is closed.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
    let version: u32 = db.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
    if version > VERSION {
        return Err(StateError::Newer { path: path.into(), found: version, known: VERSION });
    }
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(failed)?;
    let is_new: bool =
        db.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    let fresh = || salt.map_or_else(crate::salt::random, Ok);
    let fresh = || fresh().map_err(|cause| StateError::Disk { path: path.into(), cause });
    if is_new {
        // Before the log is begun: the version must be in the file itself.
        let salt = fresh()?;
        db.execute_batch(&format!(
            "BEGIN IMMEDIATE;
             CREATE TABLE limits (name TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID;
             CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
             CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
             INSERT INTO meta VALUES ('salt', '{}');
             PRAGMA user_version = {VERSION};
             COMMIT;",
            salt.to_hex()
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
    let older = !is_new && version < VERSION;
    if older {
        let salt = fresh()?;
        db.execute_batch(&format!(
            "BEGIN IMMEDIATE;
             INSERT OR REPLACE INTO meta VALUES ('salt', '{}');
             PRAGMA user_version = {VERSION};
             COMMIT;
             PRAGMA wal_checkpoint(TRUNCATE);",
            salt.to_hex()
        ))
        .map_err(failed)?;
    }
    let salt = text(&db, path, "meta", "salt")?.and_then(|text| Salt::from_hex(&text));
    let salt = salt.ok_or_else(|| corrupt("it has no salt".to_owned()))?;
    Ok(Connected { db, salt, older, current: !is_new && !older })
}

/// Opens the database and reads all of it.
pub(super) fn read(path: &Path) -> Result<Opened, StateError> {
    let Connected { db, salt, older, current } = connect(path, None)?;
    let failed = |cause: rusqlite::Error| error(path, &cause);
    let corrupt = |cause: String| StateError::Corrupt { path: path.to_owned(), cause };
    let text = |table: &str, name: &str| text(&db, path, table, name);
    let mut found = Found::default();
    {
        let mut rows = db.prepare("SELECT name, state FROM limits").map_err(failed)?;
        let mut rows = rows.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let (name, state): (String, String) = (row.get(0).map_err(failed)?, row.get(1).map_err(failed)?);
            let kept: Kept =
                serde_json::from_str(&state).map_err(|cause| corrupt(format!("limit {name}: {cause}")))?;
            // Under a fingerprint that no key has any more.
            if older && name.contains("/key:") {
                found.unknown = Unknown::Keys;
            }
            found.limits.push((name.into(), kept));
        }
    }
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
    let commits = number("commits")?;
    Ok(Opened { db, found, last, commits, current, salt })
}

fn text(db: &Connection, path: &Path, table: &str, name: &str) -> Result<Option<String>, StateError> {
    let sql = format!("SELECT value FROM {table} WHERE name = ?1");
    db.query_row(&sql, [name], |row| row.get(0)).optional().map_err(|cause| error(path, &cause))
}

pub(super) fn error(path: &Path, cause: &rusqlite::Error) -> StateError {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    let (path, text) = (path.to_owned(), cause.to_string());
    match cause.sqlite_error_code() {
        Some(DatabaseCorrupt | NotADatabase) => StateError::Corrupt { path, cause: text },
        None => StateError::Corrupt { path, cause: text },
        Some(_) => StateError::Disk { path, cause: text },
    }
}

pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
