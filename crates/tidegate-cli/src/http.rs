//! One HTTP request to a server on this machine, and its whole answer: all that a command needs of HTTP.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// How much of an answer is read: more than a sidecar ever says.
const MAX_ANSWER: u64 = 64 << 20;

/// Whom to ask.
#[derive(Clone, Debug)]
pub enum Peer {
    /// `host:port`
    Tcp(String),
    /// A Unix socket.
    Unix(PathBuf),
}

/// What to send.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'r> {
    pub method: &'r str,
    pub path: &'r str,
    /// Lines that end with `\r\n`.
    pub headers: &'r str,
    pub body: &'r str,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// Sends a request and reads the answer. `patience` is for the connection and for every stretch of silence.
pub fn ask(peer: &Peer, request: Request<'_>, patience: Duration) -> io::Result<Answer> {
    let mut stream = peer.connect(patience)?;
    let authority = match peer {
        Peer::Tcp(authority) => authority,
        // Whoever may open the socket is who started the sidecar: no name is asked for there.
        Peer::Unix(_) => "localhost",
    };
    let Request { method, path, headers, body } = request;
    let length = body.len();
    // Version 1.0, so that the answer ends with the connection and never comes in chunks.
    let text = format!(
        "{method} {path} HTTP/1.0\r\nhost: {authority}\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(text.as_bytes())?;
    let mut bytes = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut bytes)?;
    parse(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP"))
}

/// Bytes there and back.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

impl Peer {
    fn connect(&self, patience: Duration) -> io::Result<Box<dyn Stream>> {
        match self {
            Peer::Tcp(authority) => {
                let stream = connect(authority, patience)?;
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                Ok(Box::new(stream))
            }
            #[cfg(unix)]
            Peer::Unix(path) => {
                let stream = std::os::unix::net::UnixStream::connect(path)?;
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                Ok(Box::new(stream))
            }
            #[cfg(not(unix))]
            Peer::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Tcp(authority) => f.write_str(authority),
            Peer::Unix(path) => path.display().fmt(f),
        }
    }
}

fn connect(authority: &str, patience: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in authority.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

/// A word as a part of a path: everything but letters, digits, `-`, `_`, `.` and `~` is encoded.
pub fn encoded(word: &str) -> String {
    let mut out = String::new();
    for byte in word.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte.into()),
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_status_and_a_body() {
        let answer = parse(b"HTTP/1.1 404 Not Found\r\na: b\r\n\r\nno\r\n\r\nsuch thing").expect("HTTP");
        assert_eq!((answer.status, &*answer.body), (404, "no\r\n\r\nsuch thing"));
        for no_http in [&b"SSH-2.0-x\r\n\r\n"[..], b"HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b""] {
            assert!(parse(no_http).is_none());
        }
    }

    #[test]
    fn names_of_limits_become_one_word_of_a_path() {
        assert_eq!(
            encoded("openai/endpoint:POST /v1/é*/requests/1m"),
            "openai%2Fendpoint%3APOST%20%2Fv1%2F%C3%A9%2A%2Frequests%2F1m"
        );
    }
}
