//! One HTTP request to a server on this machine, and its whole reply.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// The most that is read of a reply: more than a sidecar ever sends.
const MAX_REPLY: u64 = 64 << 20;

/// The server to ask.
#[derive(Clone, Debug)]
pub enum Peer {
    /// `host:port`
    Tcp(String),
    /// A Unix socket.
    Unix(PathBuf),
}

/// The request to send.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'r> {
    pub method: &'r str,
    pub path: &'r str,
    /// Lines that end with `\r\n`.
    pub headers: &'r str,
    pub body: &'r str,
}

/// The reply.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// Sends a request and reads the reply. `timeout` is the timeout of the connection and of every read.
pub fn ask(peer: &Peer, request: Request<'_>, timeout: Duration) -> io::Result<Answer> {
    let mut stream = peer.connect(timeout)?;
    let authority = match peer {
        Peer::Tcp(authority) => authority,
        // Over the socket the sidecar does not check the host.
        Peer::Unix(_) => "localhost",
    };
    let Request { method, path, headers, body } = request;
    let length = body.len();
    // Version 1.0, so that the reply ends with the connection and is never chunked.
    let text = format!(
        "{method} {path} HTTP/1.0\r\nhost: {authority}\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(text.as_bytes())?;
    let mut bytes = Vec::new();
    stream.take(MAX_REPLY).read_to_end(&mut bytes)?;
    parse(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP"))
}

/// Sends bytes and reads the reply's bytes.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

impl Peer {
    fn connect(&self, timeout: Duration) -> io::Result<Box<dyn Stream>> {
        match self {
            Peer::Tcp(authority) => {
                let stream = connect(authority, timeout)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                Ok(Box::new(stream))
            }
            #[cfg(unix)]
            Peer::Unix(path) => {
                let stream = std::os::unix::net::UnixStream::connect(path)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
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

fn connect(authority: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in authority.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
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

/// Encodes a segment of a path: everything but letters, digits, `-`, `_`, `.` and `~`.
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
