//! Few files may be open at once.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use super::sidecar::Sidecar;

const CALL: &[u8] = b"GET /api/x HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

/// An upstream that answers every call, each on a connection that stays open.
pub fn upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                while stream.read(&mut [0; 4_096]).is_ok_and(|read| read > 0) {
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nwell").ok();
                }
            });
        }
    });
    format!("[services.api]\nupstream = \"http://{address}\"\n")
}

fn connect(sidecar: &Sidecar) -> TcpStream {
    let stream = TcpStream::connect(sidecar.address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    stream
}

#[test]
fn with_64_files_a_hundred_idle_connections_do_not_block_new_calls() {
    let sidecar = Sidecar::start_under(&upstream(), "ulimit -n 64");
    let idle: Vec<TcpStream> = (0..100).map(|_| connect(&sidecar)).collect();
    let since = Instant::now();
    // Calls one after the other, and then as many at once as there are places.
    for _ in 0..3 {
        let mut call = connect(&sidecar);
        call.write_all(CALL).expect("sent");
        let mut said = String::new();
        call.read_to_string(&mut said).expect("an answer");
        assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("well"), "{said}");
    }
    let mut calls: Vec<TcpStream> = (0..40).map(|_| connect(&sidecar)).collect();
    calls.iter_mut().for_each(|call| call.write_all(CALL).expect("sent"));
    for mut call in calls {
        let mut said = String::new();
        call.read_to_string(&mut said).expect("an answer");
        assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("well"), "{said}");
    }
    // Idle ones are closed after 75 s if nothing else does.
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
    drop(idle);
    sidecar.terminate();
    let (status, log) = sidecar.end();
    assert!(status.success(), "{log}");
    assert_eq!(log.matches("idle connections are closed").count(), 1, "{log}");
}

/// An upstream that answers when so many requests are there, each on a connection of its own that stays open.
fn gathering(requests: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let gathered = Arc::new(Barrier::new(requests));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, gathered) = (stream.expect("a connection"), gathered.clone());
            std::thread::spawn(move || {
                while stream.read(&mut [0; 4_096]).is_ok_and(|read| read > 0) {
                    gathered.wait();
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nwell").ok();
                }
            });
        }
    });
    address
}

#[test]
fn with_64_files_idle_connections_to_one_upstream_do_not_block_calls_to_another() {
    const CALLS: usize = 16;
    let service = |name| {
        let address = gathering(CALLS);
        format!("[services.{name}]\nupstream = \"http://{address}\"\nretry = {{ max_retries = 0 }}\n")
    };
    let sidecar = Sidecar::start_under(&(service("one") + &service("other")), "ulimit -n 64");
    for service in ["one", "other"] {
        let call = format!("GET /{service}/x HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let mut calls: Vec<TcpStream> = (0..CALLS).map(|_| connect(&sidecar)).collect();
        calls.iter_mut().for_each(|stream| stream.write_all(call.as_bytes()).expect("sent"));
        for mut stream in calls {
            let mut said = String::new();
            stream.read_to_string(&mut said).expect("an answer");
            assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("well"), "{service}: {said}");
        }
    }
    sidecar.terminate();
    let (status, log) = sidecar.end();
    assert!(status.success(), "{log}");
    assert!(
        log.contains("no file was free for a connection to") && !log.contains("cannot be reached"),
        "{log}"
    );
}
