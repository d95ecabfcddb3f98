//! Every example runs and loses nothing: they check that themselves.

#![allow(clippy::duplicate_mod, reason = "each example is a program, with its own copy of what they share")]

#[path = "../examples/agent_pool.rs"]
mod agent_pool;
#[path = "../examples/batch.rs"]
mod batch;
#[path = "../examples/reqwest_client.rs"]
mod reqwest_client;
#[path = "../examples/threads.rs"]
mod threads;
#[path = "../examples/tower_client.rs"]
mod tower_client;

#[test]
fn an_agent_pool() {
    agent_pool::main().expect("all done");
}

#[test]
fn a_batch() {
    batch::main().expect("all done");
}

#[test]
fn plain_threads() {
    threads::main().expect("all done");
}

#[test]
fn a_reqwest_client() {
    reqwest_client::main().expect("all done");
}

#[test]
fn a_tower_client() {
    tower_client::main().expect("all done");
}

#[test]
fn none_is_forgotten() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let files = std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let examples = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).count();
    assert_eq!(examples, 5, "each example has a test here");
}
