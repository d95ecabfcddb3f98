//! What the program sees of it: variables, and otherwise nothing.

use std::io::Write;
use std::process::Stdio;

use rustix::process::Signal;

use super::home::{Home, Running};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn its_base_urls_lead_to_the_sidecar_and_say_who_calls() {
    let home = Home::new();
    let output = home.run(
        &["--quiet", "--loop", "agent 7", "--loop-type", "code", "--priority", "high"],
        "echo $OPENAI_BASE_URL $TIDEGATE_URL",
    );
    let url = format!("http://{}", home.listen);
    assert_eq!(text(&output.stdout), format!("{url}/~agent%207:code,high/openai/v1 {url}\n"), "{output:?}");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn without_a_name_the_loop_is_the_program_and_its_process() {
    let home = Home::new();
    let output = home.run(&[], "echo $OPENAI_BASE_URL $PPID");
    let said = text(&output.stdout);
    let (url, pid) = said.trim().split_once(' ').expect("two words");
    assert_eq!(url, format!("http://{}/~sh-{pid}/openai/v1", home.listen));
}

#[test]
fn its_exit_code_is_passed_on_and_so_is_the_signal_that_ended_it() {
    let home = Home::new();
    assert_eq!(home.run(&[], "exit 7").status.code(), Some(7));
    assert_eq!(home.run(&[], "kill -TERM $$").status.code(), Some(128 + 15));
    assert_eq!(home.run(&[], "kill -KILL $$").status.code(), Some(128 + 9));
    let missing = home.tidegate(&["run", "--", "no-such-program"]).output().expect("ran");
    assert_eq!(missing.status.code(), Some(127));
    assert!(text(&missing.stderr).contains("no-such-program"), "{missing:?}");
    let folder = home.folder.display().to_string();
    assert_eq!(home.tidegate(&["run", "--", &folder]).output().expect("ran").status.code(), Some(126));
}

#[test]
fn its_standard_streams_are_its_own() {
    let home = Home::new();
    let mut command = home.shell(&["--quiet"], "cat; echo to stderr >&2");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let mut stdin = child.stdin.take().expect("piped");
    let sent = bytes.clone();
    let writing = std::thread::spawn(move || stdin.write_all(&sent));
    let output = child.wait_with_output().expect("ended");
    writing.join().expect("no panic").expect("sent");
    assert!(output.stdout == bytes, "{} bytes came back", output.stdout.len());
    assert_eq!(text(&output.stderr), "to stderr\n");
}

#[test]
fn signals_are_passed_on() {
    let home = Home::new();
    for (signal, name, code) in [
        (Signal::TERM, "TERM", 11),
        (Signal::INT, "INT", 12),
        (Signal::HUP, "HUP", 13),
        (Signal::QUIT, "QUIT", 14),
        (Signal::USR1, "USR1", 15),
        (Signal::USR2, "USR2", 16),
    ] {
        let script = format!("trap 'exit {code}' {name}; echo ready; while :; do sleep 0.02; done");
        let mut running = Running::start(home.shell(&[], &script));
        running.send(signal);
        assert_eq!(running.code(), Some(code), "{name}");
    }
}

#[test]
fn a_signal_that_whoever_started_it_ignores_is_not_for_the_program() {
    let home = Home::new();
    let mut command = std::process::Command::new("nohup");
    command.arg(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["run", "--", "sh", "-c", "echo ready; read line; exit 5"]);
    command.current_dir(&home.folder).env("XDG_RUNTIME_DIR", &home.folder).stderr(Stdio::null());
    command.env("XDG_STATE_HOME", home.folder.join("states"));
    let running = Running::start(command);
    running.send(Signal::HUP);
    assert_eq!(running.end(), Some(5));
}

#[test]
fn a_proxy_for_everything_else_is_not_asked_for_the_sidecar() {
    let home = Home::new();
    let mut command = home.shell(&[], "echo $NO_PROXY $no_proxy");
    command.env("HTTP_PROXY", "http://proxy.example:3128").env("NO_PROXY", ".example");
    let said = text(&command.output().expect("ran").stdout);
    assert_eq!(said, ".example,127.0.0.1,localhost,::1 .example,127.0.0.1,localhost,::1\n");
}
