//! `tidegate demo`, as a new user sees it.

use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin_cmd;
use serde_json::Value;

#[test]
fn in_ten_seconds_it_shows_lost_work_without_and_none_with() {
    let began = Instant::now();
    let output = cargo_bin_cmd!("tidegate").args(["demo", "--json"]).output().expect("ran");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let (without, with) = (&json["without"], &json["with"]);
    assert_eq!(
        (&with["lost"], &with["refused"], &with["done"]),
        (&0.into(), &0.into(), &140.into()),
        "{json}"
    );
    assert!(without["lost"].as_u64() > Some(0) && without["refused"].as_u64() > Some(100), "{json}");
    let slowest = |of: usize| with["loops"][of]["slowest_ms"].as_u64().expect("a number");
    assert!(slowest(0) < slowest(2) / 2, "the user comes first: {json}");
}

#[test]
fn where_there_is_no_terminal_it_writes_plain_lines_and_a_summary() {
    let output = cargo_bin_cmd!("tidegate").arg("demo").output().expect("ran");
    let said = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(!said.contains('\x1b'), "{said}");
    for words in [" 1.0 s  without tidegate", "all 140 jobs done", "tidegate serve"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}
