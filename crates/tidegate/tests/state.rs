//! A gate whose state survives, on a real disk.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate::{Call, Config, Gate, OnFailure, Outcome, Reason, StateError, StateFile};

/// What happens to a state folder, by name.
type Damage<'a> = (&'a str, &'a dyn Fn(&Path));

/// A folder of its own, gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tidegate-state-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn config(text: &str) -> Config {
    Config::parse(text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn open(folder: &Path, text: &str) -> Gate {
    let file = StateFile::open(folder).unwrap_or_else(|error| panic!("{error}"));
    Gate::builder().config(config(text)).state(file).build().expect("valid")
}

fn used(gate: &Gate, name: &str) -> u64 {
    gate.limit(name).unwrap_or_else(|| panic!("there is no {name}")).used
}

const HOURLY: &str = "[services.api]\nrequests = [\"1000/h\", { limit = \"500/day\", algorithm = \"fixed-window\" }]\ntokens = { limit = \"10k/h\", algorithm = \"token-bucket\" }\nconcurrency = 10\n[loops]\nrequests = \"100/h\"\n";

#[test]
fn a_clean_stop_loses_nothing() {
    let folder = Folder::new("clean");
    let gate = open(&folder.0, HOURLY);
    for n in 0..30 {
        let call = Call::to("api").tokens(100).loop_id(if n < 20 { "a" } else { "b" });
        gate.acquire_blocking(call).expect("there is room").finish(Outcome::done().tokens(90));
    }
    gate.close().expect("the disk is well");
    drop(gate);
    let gate = open(&folder.0, HOURLY);
    assert_eq!(used(&gate, "api/requests/1h"), 30);
    assert_eq!(used(&gate, "api/requests/1d"), 30);
    assert!((2_690..=2_700).contains(&used(&gate, "api/tokens/1h")), "it refills meanwhile");
    assert_eq!(used(&gate, "api/concurrency"), 0);
    gate.acquire_blocking(Call::to("api").loop_id("a")).expect("there is room").finish(Outcome::done());
    assert_eq!(used(&gate, "loop:a/requests/1h"), 21);
    gate.acquire_blocking(Call::to("api").loop_id("b")).expect("there is room").finish(Outcome::done());
    assert_eq!(used(&gate, "loop:b/requests/1h"), 11);
}

#[test]
fn debt_windows_and_lessons_come_back() {
    let folder = Folder::new("facts");
    let gate = open(&folder.0, HOURLY);
    gate.acquire_blocking(Call::to("api").tokens(9_000))
        .expect("fits")
        .finish(Outcome::done().tokens(14_000));
    gate.set_backoff("api", Duration::from_secs(600)).expect("there is such a service");
    gate.close().expect("the disk is well");
    drop(gate);
    let gate = open(&folder.0, HOURLY);
    assert!(used(&gate, "api/tokens/1h") > 13_900, "debt is owed after a restart too");
    let windows = gate.backoffs();
    assert!(windows.iter().any(|window| &*window.key == "api" && window.open_for > Duration::from_secs(500)));
}

#[test]
fn a_second_process_is_told_who_has_it() {
    let folder = Folder::new("owner");
    let gate = open(&folder.0, HOURLY);
    let error = StateFile::open(&folder.0).expect_err("it is in use");
    let text = error.to_string();
    assert!(matches!(error, StateError::InUse { .. }), "{text}");
    assert!(
        text.contains(&format!("process {}", std::process::id())) && text.contains("tidegate serve"),
        "{text}"
    );
    gate.close().expect("the disk is well");
    StateFile::open(&folder.0).expect("it is free again");
}

#[test]
fn a_file_of_a_later_version_is_refused_and_left_as_it_is() {
    let folder = Folder::new("newer");
    open(&folder.0, HOURLY).close().expect("the disk is well");
    let path = folder.0.join("state.db");
    let mut bytes = std::fs::read(&path).expect("it is there");
    bytes[60..64].copy_from_slice(&7_u32.to_be_bytes());
    std::fs::write(&path, &bytes).expect("it is ours");
    let error = StateFile::open(&folder.0).expect_err("nobody knows version 7");
    assert!(matches!(error, StateError::Newer { found: 7, known: 2, .. }), "{error}");
    assert_eq!(std::fs::read(&path).expect("it is there"), bytes);
}

#[test]
fn what_makes_no_sense_is_set_aside_and_never_deleted() {
    let folder = Folder::new("corrupt");
    let path = folder.0.join("state.db");
    std::fs::create_dir_all(&folder.0).expect("a folder");
    std::fs::write(&path, b"this is no database, and long enough to look like one. ".repeat(100))
        .expect("ours");
    let file = StateFile::open(&folder.0).expect("it goes on");
    let aside = file.aside().expect("something was wrong").clone();
    assert!(std::fs::read(&aside.path).expect("kept").starts_with(b"this is no database"), "{aside:?}");
    assert!(file.doubt().is_some_and(|doubt| doubt.contains("aside-1")), "{:?}", file.doubt());
    let gate = Gate::builder().config(config(HOURLY)).state(file).build().expect("valid");
    all_is_spent(&gate);
    gate.close().expect("the disk is well");
    drop(gate);
    let file = StateFile::open(&folder.0).expect("well again");
    assert_eq!((file.aside(), file.doubt()), (None, None));
}

/// Nothing is left of limits of which it is not known what was spent.
fn all_is_spent(gate: &Gate) {
    assert_eq!((used(gate, "api/requests/1h"), used(gate, "api/requests/1d")), (1_000, 500));
    assert!(used(gate, "api/tokens/1h") >= 9_990, "{}", used(gate, "api/tokens/1h"));
    assert!(gate.try_acquire(Call::to("api")).is_err());
}

/// What a process leaves behind that spent so much and was killed, with one of its files changed.
fn killed(folder: &Folder, calls: usize, change: impl Fn(&Path)) -> StateFile {
    let alive = Folder::new(&format!("{}-alive", folder.0.file_name().expect("a name").to_string_lossy()));
    let gate = open(&alive.0, HOURLY);
    for _ in 0..calls {
        gate.acquire_blocking(Call::to("api")).expect("there is room").finish(Outcome::done());
    }
    std::fs::create_dir_all(&folder.0).expect("a folder");
    for file in std::fs::read_dir(&alive.0).expect("a folder").map(|file| file.expect("a file")) {
        std::fs::copy(file.path(), folder.0.join(file.file_name())).expect("a copy");
    }
    assert!(std::fs::metadata(folder.0.join("state.db-wal")).expect("a log").len() > 0);
    change(&folder.0);
    StateFile::open(&folder.0).expect("it goes on")
}

#[test]
fn after_a_kill_with_all_files_there_is_no_doubt() {
    let folder = Folder::new("whole");
    let file = killed(&folder, 40, |_| ());
    assert_eq!(file.doubt(), None);
    let gate = Gate::builder().config(config(HOURLY)).state(file).build().expect("valid");
    assert!((40..=60).contains(&used(&gate, "api/requests/1h")), "{}", used(&gate, "api/requests/1h"));
}

#[test]
fn where_the_log_or_the_file_is_damaged_limits_begin_as_spent() {
    let cut = |path: &Path, part: u64| {
        let file = std::fs::File::options().write(true).open(path).expect("it is there");
        let length = file.metadata().expect("it is there").len();
        file.set_len(length * part / 4).expect("shorter");
    };
    let random = |path: &Path| {
        let length = std::fs::metadata(path).expect("it is there").len();
        let bytes: Vec<u8> = (0..length).map(|_| fastrand::u8(..)).collect();
        std::fs::write(path, bytes).expect("ours");
    };
    let damages: [Damage; 8] = [
        ("log-removed", &|folder| std::fs::remove_file(folder.join("state.db-wal")).expect("it was there")),
        ("log-random", &|folder| random(&folder.join("state.db-wal"))),
        ("log-cut", &|folder| cut(&folder.join("state.db-wal"), 2)),
        ("log-empty", &|folder| cut(&folder.join("state.db-wal"), 0)),
        ("file-removed", &|folder| {
            std::fs::remove_file(folder.join("state.db")).expect("it was there");
            std::fs::remove_file(folder.join("state.db-wal")).expect("it was there");
        }),
        ("file-cut", &|folder| {
            std::fs::remove_file(folder.join("state.db-wal")).expect("it was there");
            cut(&folder.join("state.db"), 1);
        }),
        ("file-random", &|folder| random(&folder.join("state.db"))),
        ("count-removed", &|folder| {
            std::fs::remove_file(folder.join("state.commits")).expect("it was there")
        }),
    ];
    for (name, damage) in damages {
        let folder = Folder::new(name);
        let file = killed(&folder, 30, damage);
        assert!(file.doubt().is_some(), "{name}");
        let gate = Gate::builder().config(config(HOURLY)).state(file).build().expect("valid");
        all_is_spent(&gate);
        // Nor is it forgotten by another restart.
        gate.close().expect("the disk is well");
        drop(gate);
        all_is_spent(&open(&folder.0, HOURLY));
    }
}

/// The database alone says that it was closed in order: it was, before the process that spent and was killed.
#[test]
fn a_log_and_a_count_that_are_both_lost_are_missed_though_the_file_was_closed_in_order() {
    for (name, stopped_before, count) in [
        ("both-lost", true, None),
        ("both-lost-at-first", false, None),
        ("count-garbled", true, Some(b"\xff\0 sea")),
    ] {
        let (alive, folder) = (Folder::new(&format!("{name}-alive")), Folder::new(name));
        if stopped_before {
            spend(&alive.0, 1);
            assert_eq!(StateFile::open(&alive.0).expect("it is free").doubt(), None, "all is there");
        }
        let gate = open(&alive.0, HOURLY);
        for _ in 0..30 {
            gate.acquire_blocking(Call::to("api")).expect("there is room").finish(Outcome::done());
        }
        std::fs::create_dir_all(&folder.0).expect("a folder");
        std::fs::copy(alive.0.join("state.db"), folder.0.join("state.db")).expect("a copy");
        if let Some(count) = count {
            std::fs::write(folder.0.join("state.commits"), count).expect("ours");
        }
        let file = StateFile::open(&folder.0).expect("it goes on");
        assert!(file.doubt().is_some_and(|doubt| doubt.contains("state.commits")), "{name}");
        all_is_spent(&Gate::builder().config(config(HOURLY)).state(file).build().expect("valid"));
    }
}

#[test]
fn a_version_that_is_only_in_the_log_is_seen() {
    let (folder, alive) = (Folder::new("newer-log"), Folder::new("newer-log-alive"));
    open(&alive.0, HOURLY).close().expect("the disk is well");
    let db = rusqlite::Connection::open(alive.0.join("state.db")).expect("it is free");
    db.pragma_update(None, "user_version", 7).expect("written to the log");
    std::fs::create_dir_all(&folder.0).expect("a folder");
    for name in ["state.db", "state.db-wal"] {
        std::fs::copy(alive.0.join(name), folder.0.join(name)).expect("a copy");
    }
    let files =
        || ["state.db", "state.db-wal"].map(|name| std::fs::read(folder.0.join(name)).expect("it is there"));
    let before = files();
    assert_ne!(before[0][60..64], 7_u32.to_be_bytes(), "the file itself does not say so");
    let error = StateFile::open(&folder.0).expect_err("only later programs know version 7");
    assert!(matches!(error, StateError::Newer { found: 7, known: 2, .. }), "{error}");
    assert!(files() == before, "and it is left as it is");
}

/// Waits until something is so, which it is within a second unless the machine is busy with other things.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let since = std::time::Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a process finds after `kill -9`, unless something is missing.
fn found(folder: &Path, name: &str) -> Option<(Folder, StateFile)> {
    let copy = Folder::new(&format!("lost-{name}-copy"));
    std::fs::create_dir_all(&copy.0).expect("a folder");
    for file in ["state.db", "state.db-wal", "state.commits"] {
        std::fs::copy(folder.join(file), copy.0.join(file)).ok()?;
    }
    let file = StateFile::open(&copy.0).ok()?;
    let whole = file.doubt().is_none() && file.kept_changes().as_deref() == Some("{}");
    whole.then_some((copy, file))
}

#[test]
fn files_that_are_removed_or_replaced_while_in_use_are_written_anew() {
    let other = |folder: &Path| {
        std::fs::write(folder.join("new"), b"another file").expect("ours");
        std::fs::rename(folder.join("new"), folder.join("state.db")).expect("in its place");
    };
    let losses: [Damage; 4] = [
        ("folder", &|folder| std::fs::remove_dir_all(folder).expect("it was there")),
        ("file", &|folder| std::fs::remove_file(folder.join("state.db")).expect("it was there")),
        ("log", &|folder| std::fs::remove_file(folder.join("state.db-wal")).expect("it was there")),
        ("replaced", &other),
    ];
    for (name, lose) in losses {
        let folder = Folder::new(&format!("lost-{name}"));
        let gate = open(&folder.0, HOURLY);
        for n in 0..30 {
            let call = Call::to("api").tokens(100).loop_id(if n < 20 { "a" } else { "b" });
            gate.acquire_blocking(call).expect("there is room").finish(Outcome::done());
        }
        gate.keep_changes("{}".to_owned());
        until("it is written", || found(&folder.0, "kept").is_some());
        lose(&folder.0);
        // Nothing is called meanwhile: it is noticed all the same.
        until(name, || found(&folder.0, name).is_some());
        assert_eq!(gate.state_trouble(), None, "{name}");
        let (_copy, found) = found(&folder.0, name).expect("it is all there");
        let next = Gate::builder().config(config(HOURLY)).state(found).build().expect("valid");
        assert!(
            (30..=50).contains(&used(&next, "api/requests/1h")),
            "{name}: {}",
            used(&next, "api/requests/1h")
        );
        assert!(used(&next, "api/tokens/1h") >= 2_900, "{name}: {}", used(&next, "api/tokens/1h"));
        gate.acquire_blocking(Call::to("api")).expect("it goes on").finish(Outcome::done());
        gate.close().expect("the disk is well");
    }
}

#[test]
fn a_folder_that_cannot_be_made_again_is_trouble_and_the_policy_applies() {
    for on_failure in [OnFailure::Memory, OnFailure::Refuse] {
        let above = Folder::new(&format!("gone-{on_failure:?}"));
        let folder = above.0.join("state");
        let file = StateFile::open(&folder).expect("a folder").on_failure(on_failure);
        let gate = Gate::builder().config(config(HOURLY)).state(file).build().expect("valid");
        std::fs::remove_dir_all(&folder).expect("it was there");
        // Something else is in the way.
        std::fs::write(&folder, b"").expect("ours");
        until("it is trouble", || gate.state_trouble().is_some());
        let spent = (0..100)
            .filter(|_| gate.acquire_blocking(Call::to("api").timeout(Duration::from_secs(5))).is_ok());
        let spent = spent.count();
        assert_eq!(spent == 100, on_failure == OnFailure::Memory, "{on_failure:?}: {spent}");
        std::fs::remove_file(&folder).expect("it was there");
        until("it is well again", || gate.state_trouble().is_none() && folder.join("state.db-wal").exists());
        until("calls go", || gate.try_acquire(Call::to("api")).is_ok());
    }
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn only_the_owner_can_read_what_is_kept_and_what_was_wider_is_tightened() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("modes");
    let check = |gate: &Gate| {
        gate.acquire_blocking(Call::to("api")).expect("there is room").finish(Outcome::done());
        assert_eq!(mode(&folder.0), 0o700);
        for file in std::fs::read_dir(&folder.0).expect("a folder").map(|file| file.expect("a file")) {
            assert_eq!(mode(&file.path()), 0o600, "{:?}", file.file_name());
        }
        for name in ["state.db", "state.db-wal", "state.commits", "lock"] {
            assert!(folder.0.join(name).exists(), "{name}");
        }
    };
    let gate = open(&folder.0, HOURLY);
    check(&gate);
    gate.close().expect("the disk is well");
    drop(gate);
    let widen =
        |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("ours");
    ["state.db", "state.commits", "lock"].iter().for_each(|name| widen(&folder.0.join(name), 0o644));
    std::fs::write(folder.0.join("state.db.aside-1"), b"").expect("ours");
    widen(&folder.0.join("state.db.aside-1"), 0o666);
    widen(&folder.0, 0o755);
    check(&open(&folder.0, HOURLY));
}

#[test]
fn a_folder_with_other_things_in_it_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("shared");
    std::fs::create_dir_all(&folder.0).expect("a folder");
    std::fs::set_permissions(&folder.0, PermissionsExt::from_mode(0o755)).expect("ours");
    std::fs::write(folder.0.join("of-others"), b"").expect("ours");
    drop(StateFile::open(&folder.0).expect("it can be used"));
    assert_eq!((mode(&folder.0), mode(&folder.0.join("state.db"))), (0o755, 0o600));
}

#[test]
fn fingerprints_of_keys_are_salted_once_for_each_state() {
    let text = "[services.api]\nper_key = true\nrequests = \"100/h\"\n";
    let prints = |name: &str| {
        let folder = Folder::new(name);
        let print = |gate: &Gate| {
            gate.acquire_blocking(Call::to("api").key("sk-1"))
                .expect("there is room")
                .finish(Outcome::done());
            let print = gate.fingerprint("sk-1");
            let limit =
                gate.limit(&format!("api/key:{print}/requests/1h")).expect("named by its fingerprint");
            gate.close().expect("the disk is well");
            (print, limit.used)
        };
        let first = print(&open(&folder.0, text));
        let second = print(&open(&folder.0, text));
        assert_eq!((&first.0, first.1, second.1), (&second.0, 1, 2), "found again after a restart");
        for file in std::fs::read_dir(&folder.0).expect("a folder").map(|file| file.expect("a file")) {
            let bytes = std::fs::read(file.path()).expect("ours");
            assert!(!bytes.windows(4).any(|part| part == b"sk-1"), "{:?}", file.file_name());
        }
        first.0
    };
    let memory = Gate::builder().config(config(text)).build().expect("valid").fingerprint("sk-1");
    let prints = [prints("salt-1"), prints("salt-2"), memory];
    assert!(prints[0] != prints[1] && prints[1] != prints[2] && prints[0] != prints[2], "{prints:?}");
}

#[test]
fn state_of_version_1_is_taken_up_and_limits_of_keys_begin_as_spent() {
    let folder = Folder::new("version-1");
    let text = format!("{HOURLY}[services.own]\nper_key = true\nrequests = \"100/h\"\n");
    let gate = open(&folder.0, &text);
    for _ in 0..7 {
        gate.acquire_blocking(Call::to("api")).expect("there is room").finish(Outcome::done());
        gate.acquire_blocking(Call::to("own").key("sk-1")).expect("there is room").finish(Outcome::done());
    }
    gate.close().expect("the disk is well");
    drop(gate);
    let db = rusqlite::Connection::open(folder.0.join("state.db")).expect("it is free");
    db.execute_batch("DELETE FROM meta WHERE name IN ('salt', 'commits'); PRAGMA user_version = 1;")
        .expect("ours");
    drop(db);
    std::fs::remove_file(folder.0.join("state.commits")).expect("it was there");
    let file = StateFile::open(&folder.0).expect("an earlier version");
    assert_eq!(file.doubt(), None);
    let gate = Gate::builder().config(config(&text)).state(file).build().expect("valid");
    assert_eq!(used(&gate, "api/requests/1h"), 7);
    gate.acquire_blocking(Call::to("api")).expect("there is room").finish(Outcome::done());
    let refused = gate.try_acquire(Call::to("own").key("sk-1"));
    assert!(refused.is_err(), "under which name it spent before cannot be told");
    drop(gate);
}

#[test]
fn a_folder_that_cannot_be_written_says_what_to_do() {
    let folder = Folder::new("nowhere");
    std::fs::create_dir_all(&folder.0).expect("a folder");
    let in_the_way = folder.0.join("file");
    std::fs::write(&in_the_way, b"").expect("ours");
    let error = StateFile::open(in_the_way.join("below")).expect_err("that is no folder");
    assert!(matches!(error, StateError::Disk { .. }), "{error}");
}

/// Writes to the file as somebody would who set the clock, or restored a backup.
fn meddle(folder: &Path, changes: &[(&str, &str)]) {
    let db = rusqlite::Connection::open(folder.join("state.db")).expect("it is free");
    for (name, value) in changes {
        let changed =
            db.execute("UPDATE meta SET value = ?2 WHERE name = ?1", (name, value)).expect("a table");
        assert_eq!(changed, 1, "{name}");
    }
}

/// Makes so many calls under what is kept there, and stops as one should.
fn spend(folder: &Path, calls: usize) {
    let gate = open(folder, HOURLY);
    for _ in 0..calls {
        gate.acquire_blocking(Call::to("api")).expect("there is room").finish(Outcome::done());
    }
    gate.close().expect("the disk is well");
}

#[test]
fn a_wall_clock_that_was_set_back_gives_nothing_back() {
    let folder = Folder::new("back");
    spend(&folder.0, 40);
    // Another boot, and a wall that shows an earlier time than it did then.
    meddle(&folder.0, &[("boot", "another"), ("wall_ns", "9000000000000000000")]);
    assert_eq!(used(&open(&folder.0, HOURLY), "api/requests/1h"), 40);
}

#[test]
fn a_wall_clock_that_jumped_ahead_gives_one_window_at_most_and_an_old_backup_nothing() {
    let folder = Folder::new("ahead");
    spend(&folder.0, 40);
    let backup = std::fs::read(folder.0.join("state.db")).expect("it is there");
    meddle(&folder.0, &[("boot", "another"), ("wall_ns", "0")]);
    let gate = open(&folder.0, HOURLY);
    let limit = gate.limit("api/requests/1h").expect("it is in the config");
    assert_eq!((limit.used, limit.capacity), (0, 1_000), "untouched, and no more than that");
    gate.close().expect("the disk is well");
    drop(gate);
    spend(&folder.0, 100);
    std::fs::write(folder.0.join("state.db"), backup).expect("it is ours");
    let file = StateFile::open(&folder.0).expect("it goes on");
    assert!(file.doubt().is_some_and(|doubt| doubt.contains("older")), "{:?}", file.doubt());
    all_is_spent(&Gate::builder().config(config(HOURLY)).state(file).build().expect("valid"));
}

#[test]
fn numbers_that_cannot_be_are_set_aside_too() {
    for change in [("engine_ns", "18446744073709551615"), ("engine_ns", "soon"), ("up_ns", "-1")] {
        let folder = Folder::new(&format!("numbers-{}", change.1.len()));
        spend(&folder.0, 3);
        meddle(&folder.0, &[change]);
        let file = StateFile::open(&folder.0).expect("it goes on");
        assert!(file.aside().is_some_and(|aside| aside.path.exists()), "{change:?}");
    }
}

#[test]
fn after_a_close_calls_are_refused_and_say_why() {
    let folder = Folder::new("closed");
    let gate = open(&folder.0, HOURLY);
    gate.close().expect("the disk is well");
    let refused = gate.try_acquire(Call::to("api")).expect_err("nothing is written any more");
    assert_eq!(*refused.reason(), Reason::Unavailable);
}

#[test]
fn a_burst_beyond_the_first_promise_waits_only_for_the_disk() {
    let folder = Folder::new("burst");
    let text = "[services.api]\nrequests = { limit = \"10000/h\", algorithm = \"token-bucket\" }\n";
    let gate = open(&folder.0, text);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let started = std::time::Instant::now();
    runtime.block_on(async {
        for _ in 0..5_000 {
            gate.acquire(Call::to("api")).await.expect("there is room").finish(Outcome::done());
        }
    });
    // By the hourly rate it would be half an hour, and a page for each pair of calls would be minutes.
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    assert!((4_990..=5_000).contains(&used(&gate, "api/requests/1h")), "{}", used(&gate, "api/requests/1h"));
}

#[test]
fn refusing_without_a_disk_can_be_asked_for() {
    let folder = Folder::new("policy");
    let file = StateFile::open(&folder.0).expect("a folder").on_failure(OnFailure::Refuse);
    let gate = Gate::builder().config(config(HOURLY)).state(file).build().expect("valid");
    assert_eq!(gate.state_trouble(), None);
    gate.try_acquire(Call::to("api")).expect("the disk is well").finish(Outcome::done());
}
