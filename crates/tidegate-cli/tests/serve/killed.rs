//! `kill -9` on a sidecar under load: the upstream never sees more than its limit, and what was changed stays changed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::{Duration, Instant};

use super::noting::noting;
use super::sidecar::{Folder, command};
use super::{WELL, ask, somebody};

const WINDOW: u64 = 2_000_000_000;

/// Returns when the sidecar let a call go, if a line of its request says so.
fn granted_ns(line: &str) -> Option<u64> {
    Some(line.strip_prefix("x-tidegate-granted-ns: ")?.trim().parse().expect("a time"))
}

/// Starts a sidecar there, and shares its port with the callers.
fn start(folder: &Folder, port: &AtomicU16) -> Child {
    let mut command = command(folder);
    command
        .args(["--listen", "127.0.0.1:0", "--state", "state", "--tell-when"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("started");
    let mut first = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut first).expect("a line");
    let address: SocketAddr =
        first.trim().strip_prefix("http://").expect("a URL").parse().expect("an address");
    port.store(address.port(), Ordering::Release);
    child
}

/// Asks it to stop, and waits until it has.
fn end(child: &mut Child) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), rustix::process::Signal::TERM)
        .expect("it runs");
    assert!(child.wait().expect("ended").success());
}

/// Makes one call after another, whichever sidecar answers.
fn call(port: &AtomicU16, ended: &AtomicBool) {
    while !ended.load(Ordering::Acquire) {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port.load(Ordering::Acquire))) else {
            std::thread::yield_now();
            continue;
        };
        stream.set_read_timeout(Some(Duration::from_millis(500))).expect("set");
        let mut buffer = [0; 1024];
        while !ended.load(Ordering::Acquire)
            && stream.write_all(b"GET /api/x HTTP/1.1\r\nhost: localhost\r\n\r\n").is_ok()
            && stream.read(&mut buffer).is_ok_and(|read| read > 0)
        {}
    }
}

fn kills() -> u64 {
    std::env::var("TIDEGATE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(20)
}

#[test]
fn whenever_it_is_killed_the_upstream_sees_no_more_than_its_limit() {
    for (n, seed) in [(40_u64, 3_u64), (2_000, 4)] {
        let (upstream, noted) = noting(granted_ns);
        let config = format!(
            "[services.api]\nupstream = \"http://{upstream}\"\nrequests = {{ limit = \"{n}/2s\", burst = {n} }}\n"
        );
        let folder = Folder::with("tidegate.toml", &config);
        let (port, ended) = (AtomicU16::new(1), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| call(&port, &ended));
            }
            let mut chance = seed;
            let lives = kills() / 2;
            for life in 1..=lives {
                let mut child = start(&folder, &port);
                // The last one lives until a limit's worth has gone, however slow the machine.
                let enough = || noted.lock().expect("nobody panics").len() as u64 >= n;
                let since = Instant::now();
                while life == lives && !enough() && since.elapsed() < Duration::from_secs(60) {
                    std::thread::sleep(Duration::from_millis(20));
                }
                chance =
                    chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                std::thread::sleep(Duration::from_millis(20 + (chance >> 33) % 500));
                child.kill().expect("it runs");
                child.wait().expect("it was killed");
            }
            ended.store(true, Ordering::Release);
        });
        let mut noted = noted.lock().expect("nobody panics").clone();
        noted.sort_unstable();
        assert!(noted.len() as u64 >= n, "{} calls went", noted.len());
        for (first, at) in noted.iter().enumerate() {
            let within = noted[first..].partition_point(|later| *later < at + WINDOW) as u64;
            assert!(within <= n, "{within} of {n} calls in a window of two seconds");
        }
    }
}

#[test]
fn what_was_changed_by_hand_stays_so_after_a_restart_and_yields_to_the_file() {
    let (upstream, _asked) = somebody(WELL);
    let config =
        |rate: &str| format!("[services.api]\nupstream = \"http://{upstream}\"\nrequests = \"{rate}\"\n");
    let folder = Folder::with("tidegate.toml", &config("500/min"));
    let port = AtomicU16::new(0);
    let shown = |port: &AtomicU16| {
        let address = SocketAddr::from(([127, 0, 0, 1], port.load(Ordering::Acquire)));
        let said = ask(address, "/v1/limits", "");
        (said.contains("300"), said)
    };
    let mut child = start(&folder, &port);
    let mut stream = TcpStream::connect(("127.0.0.1", port.load(Ordering::Acquire))).expect("it listens");
    let body = "{\"rate\": \"300/min\"}";
    let request = format!(
        "PUT /v1/limits/api%2Frequests%2F1m HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("an answer");
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    end(&mut child);
    let mut child = start(&folder, &port);
    let (changed, said) = shown(&port);
    assert!(changed, "{said}");
    end(&mut child);
    std::fs::write(folder.0.join("tidegate.toml"), config("700/min")).expect("written");
    let mut child = start(&folder, &port);
    let (changed, said) = shown(&port);
    assert!(!changed && said.contains("700"), "{said}");
    end(&mut child);
}

#[test]
fn a_second_sidecar_with_the_same_state_says_who_has_it() {
    let folder = Folder::with("tidegate.toml", "[services.api]\nupstream = \"http://127.0.0.1:9\"\n");
    let port = AtomicU16::new(0);
    let mut child = start(&folder, &port);
    let second =
        command(&folder).args(["--listen", "127.0.0.1:0", "--state", "state"]).output().expect("it ran");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    child.kill().expect("it runs");
    child.wait().expect("killed");
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("process {}", child.id())) && said.contains("--state DIR"), "{said}");
    assert!(
        said.contains(&format!("http://127.0.0.1:{}", port.load(Ordering::Relaxed))),
        "it is named: {said}"
    );
}
