//! A sidecar that asks for a token, and one on a Unix socket.

use std::process::Command;

use serde_json::Value;

use super::outcome;
use super::served::{Folder, Process};

/// Every command that asks a sidecar, with what it is asked.
const COMMANDS: [&[&str]; 4] = [
    &["status", "--json"],
    &["explain", "call", "--service", "api"],
    &["limit", "set", "api/concurrency", "3"],
    &["backoff", "clear", "api"],
];

/// Of `sea`, as `printf %s sea | sha256sum` has it.
const HASH: &str = "4a69f19c8c264850d0f0fca1d7cd8ac0d07771cb9aaf5923c2c621a3e0f74475";

/// A sidecar at the address that its folder's config says, and at a socket; the token that it asks for is `sea`.
fn guarded() -> (Folder, Process) {
    let free =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|found| found.local_addr()).expect("a port");
    let config = format!(
        "listen = \"{free}\"\n[services.openai]\npreset = \"openai\"\n\
         [services.api]\nupstream = \"http://127.0.0.1:9\"\nconcurrency = 2\n\
         [auth.tokens.me]\nsha256 = \"{HASH}\"\nadmin = true\n"
    );
    let folder = Folder::with(&config);
    let socket = folder.0.join("socket");
    let mut serve = folder.tidegate(&["serve", "--socket"]);
    serve.arg(socket);
    let sidecar = Process::start(serve);
    (folder, sidecar)
}

fn asking(folder: &Folder, arguments: &[&str], more: &[&str]) -> Command {
    let mut command = folder.tidegate(arguments);
    command.args(more).env_remove("TIDEGATE_TOKEN");
    command
}

#[test]
fn without_a_token_every_command_says_how_to_send_one() {
    let (folder, sidecar) = guarded();
    for arguments in COMMANDS {
        let (code, said, error) = outcome(&mut asking(&folder, arguments, &["--sidecar", &sidecar.address]));
        assert_eq!((code, &*said), (Some(1), ""), "{arguments:?}: {error}");
        assert!(error.contains("TIDEGATE_TOKEN") && error.contains("--token-env"), "{error}");
    }
}

#[test]
fn a_token_is_taken_from_the_variable_that_is_named_or_from_ours() {
    let (folder, sidecar) = guarded();
    for arguments in COMMANDS {
        let at = ["--sidecar", &*sidecar.address];
        let ours = outcome(asking(&folder, arguments, &at).env("TIDEGATE_TOKEN", "sea"));
        assert_eq!(ours.0, Some(0), "{arguments:?}: {}", ours.2);
        let named = [at[0], at[1], "--token-env", "MINE"];
        let named =
            outcome(asking(&folder, arguments, &named).env("MINE", "sea").env("TIDEGATE_TOKEN", "salt"));
        assert_eq!(named.0, Some(0), "{arguments:?}: {}", named.2);
    }
}

#[cfg(unix)]
#[test]
fn run_shows_the_token_too() {
    let (folder, _sidecar) = guarded();
    let run = |token: &str| {
        let mut command = asking(&folder, &["run", "--", "sh", "-c", "echo $OPENAI_BASE_URL"], &[]);
        outcome(command.env("XDG_RUNTIME_DIR", &folder.0).env("TIDEGATE_TOKEN", token))
    };
    let (code, said, error) = run("");
    assert_eq!((code, &*said), (Some(1), ""));
    assert!(error.contains("TIDEGATE_TOKEN"), "{error}");
    let (code, said, error) = run("sea");
    assert!(code == Some(0) && said.contains("/openai/v1"), "{said} {error}");
}

#[test]
fn a_wrong_token_is_told_and_never_shown() {
    let (folder, sidecar) = guarded();
    let mut command = asking(&folder, &["status"], &["--sidecar", &sidecar.address]);
    let (code, said, error) = outcome(command.env("TIDEGATE_TOKEN", "salt"));
    assert_eq!((code, &*said), (Some(1), ""));
    assert!(error.contains("does not know the token") && !error.contains("salt"), "{error}");
    let (code, _, error) = outcome(&mut asking(&folder, &["status"], &["--token-env", "NOT_SET_ANYWHERE"]));
    assert!(code == Some(2) && error.contains("NOT_SET_ANYWHERE"), "{error}");
}

#[test]
fn over_the_socket_no_token_is_needed() {
    let (folder, _sidecar) = guarded();
    let socket = folder.0.join("socket");
    for arguments in COMMANDS {
        let (code, _, error) =
            outcome(&mut asking(&folder, arguments, &["--socket", socket.to_str().expect("text")]));
        assert_eq!(code, Some(0), "{arguments:?}: {error}");
    }
    let (_, said, _) =
        outcome(&mut asking(&folder, &["status", "--json", "--socket"], &[socket.to_str().expect("text")]));
    let said: Value = serde_json::from_str(&said).expect("JSON");
    let changed =
        said["limits"].as_array().expect("limits").iter().find(|limit| limit["name"] == "api/concurrency");
    assert_eq!(changed.expect("there")["capacity"], 3, "it was changed over the socket");
    let (code, _, error) = outcome(&mut asking(&folder, &["status"], &["--socket", "nowhere"]));
    assert!(code == Some(1) && error.contains("nowhere"), "{error}");
}
