//! A gate whose state survives, on a real disk.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate::{Call, Config, Gate, OnFailure, Outcome, Reason, StateError, StateFile};

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
    assert!(matches!(error, StateError::Newer { found: 7, known: 1, .. }), "{error}");
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
    let gate = Gate::builder().config(config(HOURLY)).state(file).build().expect("valid");
    gate.try_acquire(Call::to("api")).expect("limits begin anew").finish(Outcome::done());
    gate.close().expect("the disk is well");
    drop(gate);
    assert!(StateFile::open(&folder.0).expect("well again").aside().is_none());
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
fn a_wall_clock_that_jumped_ahead_or_an_old_backup_gives_one_window_at_most() {
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
    assert_eq!(used(&open(&folder.0, HOURLY), "api/requests/1h"), 40, "what the backup knows");
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
