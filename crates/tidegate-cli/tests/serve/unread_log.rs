//! A reader of the log that stops reading.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::sidecar::Sidecar;

/// The sidecar refuses this call at once if the limit is spent, and logs that.
const CALL: &[u8] = b"GET /api/x HTTP/1.1\r\nhost: localhost\r\nx-tidegate-timeout: 0\r\n\r\n";
/// A pipe holds 64 KiB, and a line has over 100 bytes.
const CALLS: usize = 3_000;

/// Reads one answer to its end, and returns its status line.
fn answer(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).expect("an answer in time");
        assert!(!line.is_empty(), "the sidecar closed the connection");
        line
    };
    let (status, mut length) = (line(), 0);
    loop {
        let header = line().to_ascii_lowercase();
        if header == "\r\n" {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
    }
    stream.read_exact(&mut vec![0; length]).expect("the body in time");
    status
}

#[test]
fn calls_are_answered_while_nothing_reads_the_log() {
    let sidecar = Sidecar::start(&format!("{}requests = \"1/h\"\n", super::few_files::upstream()), &[]);
    let stream = TcpStream::connect(sidecar.address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    let mut stream = BufReader::new(stream);
    for number in 0..=CALLS {
        stream.get_mut().write_all(CALL).expect("sent");
        let status = answer(&mut stream);
        let expected = if number == 0 { "HTTP/1.1 200" } else { "HTTP/1.1 429" };
        assert!(status.starts_with(expected), "call {number}: {status}");
    }
    sidecar.terminate();
    let (status, log) = sidecar.end();
    assert!(status.success(), "{log}");
    assert!(log.lines().count() > CALLS, "{}", log.lines().count());
}
