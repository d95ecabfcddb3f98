//! `SIGSTOP` and `SIGCONT` on a sidecar under load, judged by when calls arrive at the upstream.
//!
//! A VM that is paused and a process that is swapped out look the same from inside.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::noting::noting;
use super::sidecar::{Folder, command};

const N: usize = 40;
const WINDOW: Duration = Duration::from_secs(1);
const CLIENTS: usize = 8;
/// So many limits take a while to be listed, and the gate is locked meanwhile: other threads wait for it all the time.
const LIMITS: usize = 200;

/// Returns the time, if a line begins a request.
fn arrival(line: &str) -> Option<Instant> {
    line.starts_with("GET ").then(Instant::now)
}

/// Sends the same request as fast as it is answered.
fn ask_again_and_again(address: SocketAddr, path: &str, ended: &AtomicBool) {
    // A call that does not fit is refused at once, so the gate is always busy.
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nx-tidegate-timeout: 0\r\n\r\n");
    let mut stream = BufReader::new(TcpStream::connect(address).expect("it listens"));
    stream.get_ref().set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    while !ended.load(Ordering::Acquire) {
        stream.get_mut().write_all(request.as_bytes()).expect("sent");
        let (mut length, mut line) = (0, String::new());
        while line != "\r\n" {
            line.clear();
            assert!(stream.read_line(&mut line).expect("an answer") > 0);
            if let Some(stated) = line.strip_prefix("content-length: ") {
                length = stated.trim().parse().expect("a length");
            }
        }
        std::io::copy(&mut stream.by_ref().take(length), &mut std::io::sink()).expect("the rest");
    }
}

/// Starts a sidecar whose log goes nowhere: it tells of every call that is refused.
fn start(folder: &Folder) -> (Child, SocketAddr) {
    let mut command = command(folder);
    command.args(["--listen", "127.0.0.1:0"]).env("TOKIO_WORKER_THREADS", "8");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
    let mut first = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut first).expect("a line");
    let address = first.trim().strip_prefix("http://").expect("a URL").parse().expect("an address");
    (child, address)
}

#[test]
fn a_sidecar_that_was_stopped_for_a_while_sends_no_more_than_its_limit() {
    let (upstream, arrived) = noting(arrival);
    let config = format!(
        "[services.api]\nupstream = \"http://{upstream}\"\nrequests = {{ limit = \"{N}/s\", burst = {N} }}\n"
    );
    let endpoint = |n| format!("[services.api.endpoints.\"POST /{n}\"]\nrequests = \"9/min\"\n");
    let config = (0..LIMITS).fold(config, |config, n| config + &endpoint(n));
    let folder = Folder::with("tidegate.toml", &config);
    let (mut child, address) = start(&folder);
    let signal = |signal| kill_process(Pid::from_child(&child), signal).expect("it runs");
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let path = if client % 2 == 0 { "/api/x" } else { "/v1/limits" };
            let ended = &ended;
            scope.spawn(move || ask_again_and_again(address, path, ended));
        }
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(100));
            signal(Signal::STOP);
            std::thread::sleep(Duration::from_millis(1_100));
            signal(Signal::CONT);
        }
        std::thread::sleep(Duration::from_millis(200));
        ended.store(true, Ordering::Release);
    });
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    let arrived = arrived.lock().expect("no panic").clone();
    assert!(arrived.len() >= N, "{} calls arrived", arrived.len());
    for (first, at) in arrived.iter().enumerate() {
        let within = arrived[first..].partition_point(|later| *later < *at + WINDOW);
        // A call of each client may have been between its grant and its socket when the process was stopped.
        assert!(within <= N + CLIENTS, "{within} of {N} calls arrived within a second");
    }
}
