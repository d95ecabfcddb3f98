//! The official SDKs against a limited API, through the built binary: every job is done once, no 429 reaches a client,
//! and the API refuses nothing. `./test.sh` installs the SDKs and runs this.

#![cfg(unix)]

#[path = "../common/process.rs"]
mod process;
mod world;

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use world::{
    Home, RATE, api, assert_all_done, assert_answered_once_though_some_failed, assert_each_once, json, node,
    program, python, said,
};

/// Jobs of one program: three seconds of the API's rate.
const JOBS: u64 = 3 * RATE as u64;

/// Runs a program against one sidecar, and looks at what came of it on both sides.
fn one_program(headers: &str, words: &[String]) {
    let api = api(headers, &[]);
    let home = Home::new(&api);
    let sidecar = home.serve();
    let output = program(words, &sidecar).output().expect("ran");
    assert_all_done(&said(&output), JOBS);
    assert_each_once(&api, JOBS as usize);
}

#[test]
#[ignore = "needs the SDKs that ./test.sh installs"]
fn the_openai_package_for_python_plain_and_streaming() {
    one_program("openai", &python("jobs.py", &["openai", "py", &JOBS.to_string()]));
}

#[test]
#[ignore = "needs the SDKs that ./test.sh installs"]
fn the_anthropic_package_for_python_plain_and_streaming() {
    one_program("anthropic", &python("jobs.py", &["anthropic", "py", &JOBS.to_string()]));
}

#[test]
#[ignore = "needs the SDKs that ./test.sh installs"]
fn the_openai_package_for_node_plain_and_streaming() {
    one_program("openai", &node("jobs.mjs", &["js", &JOBS.to_string()]));
}

#[test]
#[ignore = "needs the SDKs that ./test.sh installs"]
fn an_api_that_fails_now_and_then_is_asked_again_and_the_sdk_sees_nothing_of_it() {
    let api = api("openai", &["--errors", "0.05", "--lost", "0.05", "--seed", "7"]);
    let home = Home::new(&api);
    let sidecar = home.serve();
    let words = python("jobs.py", &["openai", "py", &JOBS.to_string()]);
    let output = program(&words, &sidecar).output().expect("ran");
    assert_all_done(&said(&output), JOBS);
    assert_answered_once_though_some_failed(&api, JOBS as usize);
}

#[test]
#[ignore = "needs the SDKs that ./test.sh installs"]
fn four_programs_that_start_at_once_share_one_quota_through_one_sidecar() {
    let api = api("openai", &[]);
    let home = Home::new(&api);
    let jobs = JOBS / 2;
    let start = |number: u32| {
        let words = python("jobs.py", &["openai", &format!("p{number}"), &jobs.to_string()]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        home.run(&[], &words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
    };
    let began = Instant::now();
    let programs = [0, 1, 2, 3].map(start);
    for program in programs {
        assert_all_done(&said(&program.wait_with_output().expect("ended")), jobs);
    }
    let ideal = Duration::from_secs(4 * jobs / u64::from(RATE));
    assert!(began.elapsed() + Duration::from_secs(1) > ideal, "nobody can be faster than the quota");
    assert_each_once(&api, 4 * jobs as usize);
}

#[test]
#[ignore = "needs the SDKs that ./test.sh installs"]
fn a_program_of_high_priority_overtakes_a_batch_of_thousands() {
    const BATCH: u64 = 2000;
    let hundreds = (BATCH / 100).to_string();
    let api = api("openai", &[]);
    let home = Home::new(&api);
    let sidecar = home.serve();
    let waiting = || json(&sidecar, "/v1/status")["waiting"].as_u64().expect("a number");

    let words = python("batch.py", &[&hundreds]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let batch = home.run(&["--loop", "batch", "--priority", "low"], &words);
    let mut batch = { batch }.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    let began = Instant::now();
    while waiting() < BATCH * 3 / 4 {
        assert!(began.elapsed() < Duration::from_secs(60), "the batch never came: {} wait", waiting());
        std::thread::sleep(Duration::from_millis(50));
    }

    let words = python("jobs.py", &["openai", "user", &RATE.to_string(), "4"]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = home.run(&["--loop", "user", "--priority", "high"], &words).output().expect("ran");
    let (user, left) = (said(&output), waiting());
    kill_process(Pid::from_child(&batch), Signal::TERM).expect("it runs");
    assert_eq!(batch.wait().expect("ended").code(), Some(128 + 15), "the signal reached the batch");
    assert_all_done(&user, u64::from(RATE));
    // Alone it would take a second; behind the batch more than a minute.
    assert!(user["seconds"].as_f64().expect("a number") < 5.0, "{user}");
    assert!(left > BATCH / 2, "only {left} of the batch still wait");
}
