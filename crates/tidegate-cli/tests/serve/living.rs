//! Its config while it runs: written to, replaced, broken, and read again when it is told to.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::ask;
use super::sidecar::{Folder, Sidecar, command};

const SIXTY: &str = "[services.api]\nrequests = \"60/min\"\n";

fn json(sidecar: &Sidecar, path: &str) -> Value {
    let said = ask(sidecar.address, path, "");
    let (_, body) = said.split_once("\r\n\r\n").expect("a head");
    serde_json::from_str(body).expect("JSON")
}

fn capacity(sidecar: &Sidecar) -> u64 {
    let limits = json(sidecar, "/v1/limits");
    let limits = limits["limits"].as_array().expect("a list");
    let limit = limits.iter().find(|limit| limit["name"] == "api/requests/1m").expect("it is there");
    limit["capacity"].as_u64().expect("a number")
}

fn config(sidecar: &Sidecar) -> Value {
    json(sidecar, "/v1/status")["config"].clone()
}

fn until(what: &str, so: impl Fn() -> bool) {
    let since = Instant::now();
    while !so() {
        assert!(since.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// As most editors do it: another file in the place of the old one.
fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).expect("written");
    fs::rename(&beside, path).expect("renamed");
}

#[test]
fn what_is_written_to_the_config_comes_into_force_however_it_is_written() {
    let sidecar = Sidecar::start(SIXTY, &[]);
    let file = sidecar.folder().join("tidegate.toml");
    assert_eq!(capacity(&sidecar), 60);
    fs::write(&file, SIXTY.replace("60", "70")).expect("written");
    until("written to", || capacity(&sidecar) == 70);
    for number in ["80", "90"] {
        replace(&file, &SIXTY.replace("60", number));
        until("replaced", || capacity(&sidecar).to_string() == number);
    }
    let config = config(&sidecar);
    let whole = file.display().to_string();
    assert_eq!((&config["error"], &config["file"]), (&Value::Null, &whole.into()), "{config}");
}

#[test]
fn a_config_that_is_wrong_is_refused_as_a_whole_and_that_is_said() {
    let sidecar = Sidecar::start(SIXTY, &[]);
    let file = sidecar.folder().join("tidegate.toml");
    replace(&file, &format!("{}requsts = 5\n", SIXTY.replace("60", "70")));
    until("refused", || config(&sidecar)["error"].is_string());
    let error = config(&sidecar)["error"].as_str().expect("text").to_owned();
    assert!(error.contains("tidegate.toml:3:1") && error.contains("did you mean `requests`?"), "{error}");
    assert_eq!(capacity(&sidecar), 60);
    fs::remove_file(&file).expect("removed");
    until("gone", || config(&sidecar)["error"].as_str().is_some_and(|error| error.contains("cannot read")));
    assert_eq!(capacity(&sidecar), 60);
    replace(&file, &SIXTY.replace("60", "80"));
    until("right again", || capacity(&sidecar) == 80);
    assert_eq!(config(&sidecar)["error"], Value::Null);
    sidecar.terminate();
    let (status, log) = sidecar.end();
    assert!(status.success() && log.contains("the config is refused"), "{log}");
}

#[test]
fn sighup_has_it_read_the_config_again() {
    let sidecar = Sidecar::start(SIXTY, &[]);
    let before = config(&sidecar)["reloads"].as_u64();
    sidecar.hang_up();
    until("read again", || config(&sidecar)["reloads"].as_u64() > before);
    assert_eq!(capacity(&sidecar), 60);
    sidecar.terminate();
    assert!(sidecar.end().0.success());
}

#[test]
fn the_socket_that_was_named_is_listened_on_and_gone_at_the_end() {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    let sidecar = Sidecar::start("listen_unix = \"gate.sock\"\n[services.api]\n", &[]);
    let path = sidecar.folder().join("gate.sock");
    let mut stream = UnixStream::connect(&path).expect("it listens");
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: any\r\nconnection: close\r\n\r\n").expect("sent");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("an answer");
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    sidecar.terminate();
    until("removed", || !path.exists());
    assert!(sidecar.end().0.success());
}

#[test]
fn a_socket_in_use_ends_with_1() {
    let folder = Folder::with("tidegate.toml", "");
    let _taken = std::os::unix::net::UnixListener::bind(folder.0.join("taken.sock")).expect("a socket");
    let output =
        command(&folder).args(["--listen", "127.0.0.1:0", "--socket", "taken.sock"]).output().expect("ran");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot listen on taken.sock"));
}
