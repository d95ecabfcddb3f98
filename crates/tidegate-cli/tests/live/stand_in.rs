//! Something that answers like a sidecar, says what a test wants, and tells what it was asked.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

/// One request: its first line without the version, and its body.
pub type Asked = (String, String);

pub struct StandIn {
    pub address: String,
    /// Every request but those for its health.
    pub asked: Receiver<Asked>,
}

impl StandIn {
    /// Answers by path; what is not named gets `status` and `body`.
    pub fn start(status: u16, body: &'static str, paths: &'static [(&'static str, &'static str)]) -> StandIn {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let (tell, asked) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let (line, sent) = read(&mut stream);
                let health = line == "GET /healthz";
                let named = paths.iter().find(|(path, _)| line == format!("GET {path}"));
                let (status, body) = match named {
                    _ if health => (200, r#"{"ok": true, "tidegate": "0"}"#),
                    Some((_, body)) => (200, *body),
                    None => (status, body),
                };
                let length = body.len();
                write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}").ok();
                if !health && tell.send((line, sent)).is_err() {
                    return;
                }
            }
        });
        StandIn { address, asked }
    }
}

fn read(stream: &mut impl Read) -> Asked {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                let line = head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.0");
                return (line.to_owned(), body.to_owned());
            }
        }
        match stream.read(&mut buffer) {
            Ok(read) if read > 0 => bytes.extend_from_slice(&buffer[..read]),
            _ => return (text, String::new()),
        }
    }
}
