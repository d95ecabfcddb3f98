//! What `run` tells on standard error: another project's sidecar, and a program that never came through.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::home::{Home, Running};

fn told(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_sidecar_of_another_project_is_named_with_what_it_lacks() {
    let theirs = Home::new();
    let running = theirs.start();
    let ours = Home::at(&theirs.listen);
    let config = format!(
        "listen = \"{}\"\n[services.anthropic]\n[services.openai]\n[loop_types.code]\nweight = 2\n",
        ours.listen
    );
    std::fs::write(ours.folder.join("tidegate.toml"), config).expect("written");
    let output = ours.run(&["--loop-type", "code", "--state", "own"], "exit 3");
    assert_eq!(output.status.code(), Some(3));
    let error = told(&output);
    let line =
        error.lines().find(|line| line.contains("another config")).unwrap_or_else(|| panic!("{error}"));
    for words in [
        &*format!("http://{}", theirs.listen),
        &*theirs.folder.display().to_string(),
        "it has no service: anthropic",
        "not set: ANTHROPIC_BASE_URL",
    ] {
        assert!(line.contains(words), "{words}: {line}");
    }
    assert!(error.contains("--state is not used"), "{error}");
    assert!(error.contains("no loop type is called `code`") && error.contains("no [loop_types]"), "{error}");
    let quiet = ours.run(&["--quiet", "--loop-type", "code"], "exit 3");
    assert_eq!((quiet.status.code(), &*told(&quiet)), (Some(3), ""));

    let same = theirs.run(&[], "exit 0");
    assert!(!told(&same).contains("another config"), "{}", told(&same));
    assert_eq!(running.end(), Some(0));
}

#[test]
fn a_program_that_never_came_through_is_told_at_the_end() {
    let home = Home::new();
    let output = home.run(&["--loop", "nightly"], "echo done");
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"done\n"[..]));
    let error = told(&output);
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(
        error.contains("no call of `nightly` came through") && error.contains("OPENAI_BASE_URL"),
        "{error}"
    );
    assert_eq!(told(&home.run(&["--quiet"], "echo done")), "");
}

#[test]
fn a_program_that_came_through_is_not() {
    let home = Home::new();
    let mut command = home.shell(&["--loop", "my agent"], "echo $OPENAI_BASE_URL; read line");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    let mut base = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut base).expect("a line");
    let path =
        base.trim().strip_prefix(&format!("http://{}", home.listen)).expect("the sidecar's").to_owned();
    let get = |path: &str| {
        let mut stream = TcpStream::connect(&home.listen).expect("it listens");
        write!(stream, "GET {path} HTTP/1.0\r\nhost: {}\r\n\r\n", home.listen).expect("sent");
        stream
    };
    // Nothing listens at the upstream: the call is only begun.
    let _call = get(&format!("{path}/models"));
    let began = Instant::now();
    loop {
        let mut said = String::new();
        get("/v1/loops/my%20agent").read_to_string(&mut said).expect("an answer");
        if said.contains("\"calls\":1") {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{said}");
    }
    drop(child.stdin.take());
    let output = child.wait_with_output().expect("ended");
    assert_eq!((output.status.code(), &*told(&output)), (Some(1), ""), "`read` met the end of its input");
}

#[test]
fn a_wrong_file_keeps_no_program_from_the_sidecar_that_runs_with_it() {
    let home = Home::new();
    let running = home.start();
    std::fs::write(home.folder.join("tidegate.toml"), "[services.openai]\nrequsts = 5\n").expect("written");
    let output = home.run(&[], "echo $TIDEGATE_URL");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("http://{}\n", home.listen));
    assert!(told(&output).contains("has errors: the sidecar on"), "{}", told(&output));
    assert_eq!(running.end(), Some(0));
}

/// `status` finds the sidecar by its record then, and so does `run`: neither a second owner of the quota nor an error.
#[test]
fn an_emptied_or_removed_file_keeps_no_program_from_the_sidecar_that_runs_with_it() {
    let home = Home::new();
    let running = home.start();
    let file = home.folder.join("tidegate.toml");
    let used = |options: &[&str]| {
        let output = home.run(options, "echo $TIDEGATE_URL");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            format!("http://{}\n", home.listen),
            "{output:?}"
        );
        told(&output)
    };
    std::fs::write(&file, "").expect("written");
    used(&[]);
    let error = used(&["--state", "own"]);
    assert!(error.contains("--state is not used"), "{error}");
    std::fs::remove_file(&file).expect("removed");
    let error = used(&[]);
    assert!(error.contains("tidegate.toml is gone: the sidecar on"), "{error}");
    used(&["--config", "tidegate.toml"]);
    assert!(!home.folder.join("own").exists(), "no second sidecar was started");
    assert_eq!(running.end(), Some(0));
}

#[test]
fn a_sidecar_that_serves_the_file_at_another_port_is_used() {
    let home = Home::new();
    let mut served =
        home.tidegate(&["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().expect("started");
    let mut url = String::new();
    BufReader::new(served.stdout.take().expect("piped")).read_line(&mut url).expect("a line");
    let output = home.run(&["--quiet"], "echo $TIDEGATE_URL");
    served.kill().expect("killed");
    served.wait().expect("ended");
    assert_eq!(String::from_utf8_lossy(&output.stdout), url, "{output:?}");
}

/// Its count of calls began again at zero, so nothing can be said about the program.
#[test]
fn nothing_is_claimed_of_a_program_whose_sidecar_was_restarted() {
    let home = Home::new();
    let serve = || {
        let mut served = home.tidegate(&["serve"]).stdout(Stdio::piped()).spawn().expect("started");
        let mut url = String::new();
        BufReader::new(served.stdout.take().expect("piped")).read_line(&mut url).expect("a line");
        served
    };
    let end = |mut served: std::process::Child| {
        served.kill().expect("killed");
        served.wait().expect("ended");
    };
    let first = serve();
    let mut command = home.shell(&["--loop", "nightly"], "echo ready; read line; exit 0");
    command.stderr(Stdio::piped());
    let mut running = Running::start(command);
    end(first);
    let second = serve();
    drop(running.child.stdin.take());
    let mut error = String::new();
    running.child.stderr.take().expect("piped").read_to_string(&mut error).expect("text");
    end(second);
    assert_eq!((running.code(), &*error), (Some(0), ""));
}

#[test]
fn a_second_project_is_offered_the_first_ones_sidecar_or_a_folder_of_its_own() {
    let first = Home::new();
    let running = first.start();
    let second = Home::new();
    let beside_the_first = |options: &[&str]| {
        let mut command = second.shell(options, "echo ran");
        command.env("XDG_STATE_HOME", first.folder.join("states")).env("XDG_RUNTIME_DIR", &first.folder);
        command.output().expect("ran")
    };
    let output = beside_the_first(&[]);
    assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b""[..]));
    let error = told(&output);
    for words in [
        &*format!("the sidecar on http://{}", first.listen),
        &*format!("listen = \"{}\"", first.listen),
        "--state DIR",
        "its share of a quota",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    let output = beside_the_first(&["--quiet", "--state", "own"]);
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"ran\n"[..]), "{}", told(&output));
    assert!(second.folder.join("own/state.db").exists());
    assert_eq!(running.end(), Some(0));
}
