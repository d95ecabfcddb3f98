//! How long the sidecar lives: as long as a `run` needs it, in whatever order processes start, end or are killed.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::home::{Home, Running};

#[test]
fn the_sidecar_lives_until_the_last_run_that_uses_it_ends() {
    let home = Home::new();
    let first = home.start();
    let second = home.start();
    assert_eq!(first.end(), Some(0));
    // The one that started it is gone; it is not.
    assert!(home.is_served());
    assert_eq!(second.end(), Some(0));
    home.wait_until_served(false);
    // It writes its state once no client can reach it.
    let began = Instant::now();
    while !home.log().contains("stopped") {
        assert!(began.elapsed() < Duration::from_secs(20), "{}", home.log());
        std::thread::sleep(Duration::from_millis(5));
    }
    let log = home.log();
    assert_eq!(log.matches("listening").count(), 1, "one for both: {log}");
}

#[test]
fn many_that_start_at_once_share_one_sidecar() {
    let home = Home::new();
    let start = |_| {
        home.shell(&["--quiet"], "echo $TIDEGATE_URL; read line")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
    };
    let mut children: Vec<_> = (0..8).map(start).map(|child| child.expect("started")).collect();
    for child in &mut children {
        let mut line = vec![0; format!("http://{}\n", home.listen).len()];
        child.stdout.as_mut().expect("piped").read_exact(&mut line).expect("a line");
        assert_eq!(String::from_utf8_lossy(&line), format!("http://{}\n", home.listen));
    }
    for mut child in children {
        drop(child.stdin.take());
        child.wait().expect("ended");
    }
    home.wait_until_served(false);
    let log = home.log();
    assert_eq!(log.matches("listening").count(), 1, "{log}");
}

#[test]
fn one_that_starts_while_the_last_one_ends_has_a_sidecar() {
    let home = Home::new();
    // Each begins at a slightly other moment of the end of the one before it.
    for round in 0..15_u64 {
        let ending = home.start();
        let mut starting = home.shell(&[], "exec $TIDEGATE status >/dev/null");
        starting.env("TIDEGATE", env!("CARGO_BIN_EXE_tidegate"));
        assert_eq!(ending.end(), Some(0));
        std::thread::sleep(Duration::from_micros(round * 400));
        let output = starting.output().expect("ran");
        assert_eq!(output.status.code(), Some(0), "round {round}: {output:?}\n{}", home.log());
    }
    home.wait_until_served(false);
}

#[test]
fn a_killed_run_takes_no_sidecar_from_others_and_leaves_none_behind() {
    let home = Home::new();
    let mut first = home.start();
    let second = home.start();
    // Kept open: its end is what ends the program.
    let stdin = first.child.stdin.take();
    first.send(Signal::KILL);
    assert_eq!(first.code(), None, "killed");
    assert!(home.is_served());
    assert_eq!(second.end(), Some(0));
    // Its program still runs, and still has its sidecar.
    assert!(home.is_served());
    drop(stdin);
    home.wait_until_served(false);
}

#[test]
fn what_a_program_leaves_behind_keeps_no_sidecar() {
    let home = Home::new();
    let mut command = home.shell(&[], "sleep 30 >/dev/null 2>&1 & echo $!");
    let output = command.output().expect("ran");
    assert_eq!(output.status.code(), Some(0));
    home.wait_until_served(false);
    let pid =
        String::from_utf8_lossy(&output.stdout).trim().parse().ok().and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(pid.expect("a process"), Signal::KILL).expect("it still runs");
}

#[test]
fn a_sidecar_that_somebody_else_started_is_used_and_goes_on() {
    let home = Home::new();
    let mut served =
        home.tidegate(&["serve"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
    let mut first = [0; 7];
    served.stdout.as_mut().expect("piped").read_exact(&mut first).expect("its URL");
    assert_eq!(home.run(&[], "exit 0").status.code(), Some(0));
    assert_eq!(home.log(), "", "none was started");
    assert!(home.is_served());
    served.kill().expect("killed");
    served.wait().expect("ended");
}

#[test]
fn an_interrupt_from_the_terminal_is_for_the_program_and_not_for_the_sidecar() {
    use std::os::unix::process::CommandExt;
    let home = Home::new();
    let mut command = home.shell(
        &[],
        "trap '$TIDEGATE status >/dev/null && exit 9; exit 8' INT; echo ready; while :; do sleep 0.02; done",
    );
    command.env("TIDEGATE", env!("CARGO_BIN_EXE_tidegate")).process_group(0);
    let mut running = Running::start(command);
    // As a terminal does it: to all processes of the group.
    let group = rustix::process::Pid::from_child(&running.child);
    rustix::process::kill_process_group(group, Signal::INT).expect("they run");
    assert_eq!(running.code(), Some(9), "{}", home.log());
}

#[test]
fn at_a_port_that_the_system_chooses_each_run_has_its_own() {
    let home = Home::at("127.0.0.1:0");
    let (one, two) = (home.run(&[], "echo $TIDEGATE_URL"), home.run(&[], "echo $TIDEGATE_URL"));
    for output in [&one, &two] {
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let address = said.trim().strip_prefix("http://").unwrap_or_else(|| panic!("{output:?}"));
        assert!(!address.ends_with(":0"), "{address}");
        let began = Instant::now();
        while TcpStream::connect(address).is_ok() {
            assert!(began.elapsed() < Duration::from_secs(20), "{address} outlived its run");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let left = std::fs::read_dir(home.folder.join("tidegate")).expect("a folder").count();
    assert_eq!(left, 0, "nobody will look for its lock again");
}

#[test]
fn something_else_at_that_address_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let home = Home::at(&listener.local_addr().expect("bound").to_string());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            assert!(stream.read(&mut [0; 4096]).expect("a request") > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}").ok();
        }
    });
    let output = home.run(&[], "echo never");
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("no tidegate") && error.contains(&home.listen), "{error}");
    assert_eq!(output.stdout, b"");
}

#[test]
fn a_config_that_cannot_be_is_told_before_anything_is_started() {
    let home = Home::new();
    std::fs::write(home.folder.join("tidegate.toml"), "[services.a]\nrequsts = 5\n").expect("written");
    let output = home.run(&[], "echo never");
    assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("tidegate.toml:2:1"), "{error}");
}
