//! The commands that ask the sidecar that runs: `status`, `limit`, `backoff`, `explain call`, also with a token and over a
//! Unix socket.

mod changes;
mod explain_call;
mod finding;
#[path = "../common/process.rs"]
mod process;
mod served;
mod stand_in;
mod status;
mod tokens;

use std::process::{Command, Output};

/// Runs a command; its exit code, standard output and standard error.
fn outcome(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("ran");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}
