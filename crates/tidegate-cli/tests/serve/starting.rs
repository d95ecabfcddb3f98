//! What it is started with, and what it says of that.

#[cfg(target_os = "linux")]
use std::time::{Duration, Instant};

use super::sidecar::{Folder, Sidecar, command};
use super::{WELL, ask, somebody};

#[test]
fn the_config_in_the_working_directory_is_used_and_its_limits_are_logged_with_their_origin() {
    let (upstream, asked) = somebody(WELL);
    let config = format!(
        "[services.local]\nupstream = \"http://{upstream}\"\nrequests = \"120/2s\"\n[services.github]\n[alerts]\n"
    );
    let sidecar = Sidecar::start(&config, &[]);
    let said = ask(sidecar.address, "/local/hello", "");
    assert!(said.starts_with("HTTP/1.1 200 OK") && said.ends_with("well"), "{said}");
    assert!(asked.recv().expect("asked").starts_with("GET /hello HTTP/1.1"));
    sidecar.terminate();
    let (status, log) = sidecar.end();
    assert_eq!(status.code(), Some(0), "{log}");
    for (limit, from) in [("local/requests/2s", "file"), ("github/concurrency", "preset github, every tier")]
    {
        let line =
            log.lines().find(|line| line.contains(limit)).unwrap_or_else(|| panic!("{limit} in {log}"));
        assert!(line.contains(&format!("from=\"{from}\"")), "{line}");
    }
    let warned = |line: &str| line.contains("WARN") && line.contains("[alerts] has no effect yet");
    assert_eq!(log.lines().filter(|line| warned(line)).count(), 1, "{log}");
}

#[test]
fn without_a_config_the_presets_are_served() {
    let sidecar = Sidecar::start("", &[]);
    let status = ask(sidecar.address, "/v1/status", "");
    assert!(
        status.contains("https://api.openai.com") && status.contains("https://api.anthropic.com"),
        "{status}"
    );
}

/// The threads that it may hand connections to.
#[cfg(target_os = "linux")]
fn workers(sidecar: &Sidecar) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", sidecar.id())).expect("it runs");
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    let numbers = names.filter_map(|name| name.trim().strip_prefix("tidegate-")?.parse::<usize>().ok());
    numbers.count()
}

#[cfg(target_os = "linux")]
#[test]
fn as_many_threads_serve_as_are_asked_for() {
    let processors = std::thread::available_parallelism().expect("some").get();
    for (arguments, threads) in [(&[][..], processors), (&["--workers", "1"], 1), (&["--workers", "3"], 3)] {
        let sidecar = Sidecar::start_with("", arguments, &[]);
        // A thread names itself when it begins to run, which may be after the sidecar is there. The main one is of them.
        let since = Instant::now();
        while workers(&sidecar) < threads - 1 {
            assert!(since.elapsed() < Duration::from_secs(30), "{arguments:?}: {}", workers(&sidecar));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(ask(sidecar.address, "/v1/status", "").starts_with("HTTP/1.1 200 OK"));
        assert_eq!(workers(&sidecar), threads - 1, "{arguments:?}");
    }
}

#[test]
fn what_is_wrong_is_said_and_ends_with_2() {
    for (config, arguments, words) in [
        ("[services.a]\nrequsts = 5\n", &[][..], "tidegate.toml:2:1"),
        ("[state]\nredis = \"redis://x\"\n", &[], "tidegate.toml:2:9: Redis is not supported yet"),
        ("", &["--config", "nowhere.toml"], "cannot read the config nowhere.toml"),
        ("", &["--listen", "0.0.0.0:0"], "--insecure-listen"),
        (
            "[services.a]\nupstream = \"http://a.example\"\napi_key_env = \"NOT_SET_ANYWHERE\"\n",
            &[],
            "services.a: the environment variable `NOT_SET_ANYWHERE`, which `api_key_env` names, is not set",
        ),
        ("[services.a]\nupstream = \"http://me:hunter2@a.example\"\n", &[], "services.a"),
    ] {
        let folder = Folder::with("tidegate.toml", config);
        let output = command(&folder).args(arguments).output().expect("ran");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(words) && !error.contains("hunter2"), "{words}: {error}");
    }
}

#[test]
fn a_port_that_is_taken_ends_with_1() {
    let (taken, _asked) = somebody(WELL);
    let folder = Folder::with("tidegate.toml", "");
    let output = command(&folder).args(["--listen", &taken.to_string()]).output().expect("ran");
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains(&format!("cannot listen on {taken}: ")), "{told}");
    assert_eq!(told.to_lowercase().matches("address already in use").count(), 1, "once is enough: {told}");
    assert!(told.contains("another program listens there") && told.contains("--listen ADDR"), "{told}");
}

#[test]
fn a_port_that_a_sidecar_has_is_told_with_that_sidecar_and_both_ways_out() {
    let sidecar = Sidecar::start("", &[]);
    let folder = Folder::with("tidegate.toml", "");
    let mut second = command(&folder);
    second.env("XDG_RUNTIME_DIR", sidecar.folder());
    let output = second.args(["--listen", &sidecar.address.to_string()]).output().expect("ran");
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    let file = sidecar.folder().canonicalize().expect("it is there").join("tidegate.toml");
    for words in [
        &*format!("the sidecar that runs with {} listens there", file.display()),
        &*format!("use that one (http://{})", sidecar.address),
        "--listen ADDR",
        "--state DIR",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert_eq!(told.to_lowercase().matches("address already in use").count(), 1, "{told}");
}

/// The first failure is logged at once and with its cause, and not again for every call.
#[test]
fn an_upstream_that_cannot_be_reached_is_logged_once() {
    let config = "[services.api]\nupstream = \"http://127.0.0.1:1\"\nretry = { max_retries = 1, initial = \"10ms\" }\n";
    let sidecar = Sidecar::start(config, &[]);
    for _ in 0..5 {
        assert!(ask(sidecar.address, "/api/x", "").contains("refused the connection (2 attempts in "));
    }
    sidecar.terminate();
    let (_, log) = sidecar.end();
    let said = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    assert_eq!(said("an upstream cannot be reached"), 1, "{log}");
    assert_eq!(said("a call is given up"), 1, "{log}");
    assert!(log.contains("127.0.0.1:1 refused the connection"), "{log}");
}

#[test]
fn no_secret_is_in_the_log_or_in_an_error() {
    let (upstream, asked) = somebody(WELL);
    let config = format!(
        "[services.ours]\nupstream = \"http://{upstream}\"\napi_key_env = \"THE_KEY\"\n\
         [services.theirs]\nupstream = \"http://{upstream}\"\n[services.down]\nupstream = \"http://127.0.0.1:1\"\n\
         retry = {{ max_retries = 0 }}\n"
    );
    let sidecar = Sidecar::start(&config, &[("THE_KEY", "sk-hunter2"), ("TIDEGATE_LOG", "trace")]);
    let mut said = ask(sidecar.address, "/ours/x", "");
    assert!(asked.recv().expect("asked").contains("authorization: Bearer sk-hunter2"));
    for path in
        ["/theirs/hunter2/x?key=hunter2", "/down/hunter2?key=hunter2", "/down/../hunter2", "/v1/status"]
    {
        said += &ask(sidecar.address, path, "authorization: Bearer sk-hunter2\r\nx-tidegate-loop: a\r\n");
    }
    said += &ask(sidecar.address, "/theirs/x", "x-tidegate-priority: urgent\r\nx-api-key: hunter2\r\n");
    sidecar.terminate();
    let (_, log) = sidecar.end();
    assert!(log.contains("service=\"ours\""), "each call is logged: {log}");
    assert!(!log.contains("hunter2") && !said.contains("hunter2"), "{log}\n{said}");
}

#[test]
fn logs_are_json_where_that_is_wanted() {
    let folder = Folder::with("tidegate.toml", "[services.a]\nrequests = \"1/s\"\n");
    let output =
        command(&folder).args(["--log", "json", "--listen", "192.0.2.1:1", "--insecure-listen"]).output();
    let error = String::from_utf8(output.expect("ran").stderr).expect("text");
    assert!(error.starts_with("tidegate: cannot listen on"), "{error}");
}
