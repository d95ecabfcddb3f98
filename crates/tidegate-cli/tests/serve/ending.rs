//! How it ends.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::sidecar::Sidecar;

/// An upstream that begins an answer and ends it when it is told to.
fn slow_upstream() -> (String, std::sync::mpsc::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let (go_on, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a call");
        assert!(stream.read(&mut [0; 4096]).expect("a request") > 0);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf").expect("sent");
        told.recv().ok();
        stream.write_all(b"half").ok();
    });
    (format!("[services.api]\nupstream = \"http://{address}\"\n"), go_on)
}

fn begun(sidecar: &Sidecar) -> TcpStream {
    let mut stream = TcpStream::connect(sidecar.address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    stream.write_all(b"GET /api/x HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
    let mut said = Vec::new();
    while !said.ends_with(b"half") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the beginning");
        said.extend_from_slice(&byte);
    }
    stream
}

#[test]
fn told_to_stop_it_ends_what_is_under_way_and_takes_nothing_new() {
    let (config, go_on) = slow_upstream();
    let sidecar = Sidecar::start(&config, &[]);
    let mut call = begun(&sidecar);
    sidecar.terminate();
    let address = sidecar.address;
    let since = Instant::now();
    while TcpStream::connect(address).is_ok() {
        assert!(since.elapsed() < Duration::from_secs(30), "it still takes connections");
        std::thread::sleep(Duration::from_millis(10));
    }
    go_on.send(()).expect("it waits");
    let mut rest = String::new();
    call.read_to_string(&mut rest).expect("the rest");
    let (status, log) = sidecar.end();
    assert_eq!(rest, "half", "{status} {log}");
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("stopped") && !log.contains("cutting off"), "{log}");
}

#[test]
fn told_to_stop_it_says_what_it_waits_for_and_told_again_it_stops_at_once() {
    // An upstream that accepts and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("bound");
    let config = format!("[services.api]\nprofile = \"openai\"\nupstream = \"http://{address}\"\n");
    let sidecar = Sidecar::start_with(&config, &["--drain", "3600"], &[]);
    let mut call = TcpStream::connect(sidecar.address).expect("it listens");
    call.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    call.write_all(b"GET /api/x HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
    let (_sent, _) = silent.accept().expect("the call is under way");
    sidecar.terminate();
    let since = Instant::now();
    while TcpStream::connect(sidecar.address).is_ok() {
        assert!(since.elapsed() < Duration::from_secs(30), "it still takes connections");
        std::thread::sleep(Duration::from_millis(10));
    }
    sidecar.interrupt();
    let mut said = String::new();
    call.read_to_string(&mut said).expect("an answer");
    let (status, log) = sidecar.end();
    assert!(said.starts_with("HTTP/1.1 503") && said.contains("\"type\":\"server_error\""), "{said} {log}");
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("waiting up to 3600s for 1 call"), "{log}");
}
