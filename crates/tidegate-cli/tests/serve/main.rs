//! `tidegate serve` as a process: its arguments, its output, its trust in upstreams, and how it ends.

mod ending;
mod few_files;
mod http2;
mod killed;
mod living;
mod noting;
mod proxies;
mod sidecar;
mod starting;
mod stopped;
mod tls;
mod unread_log;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Sends a request to an address and reads until the other side closes.
fn ask(address: SocketAddr, path: &str, headers: &str) -> String {
    say(address, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n"))
}

/// The same with a body.
fn post(address: SocketAddr, path: &str, body: &str) -> String {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close");
    say(address, &format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}"))
}

fn say(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("an answer");
    said
}

/// Listens, answers every request with the same text, and returns the requests.
fn somebody(words: &'static str) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !request.ends_with(b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(read) if read > 0 => request.extend_from_slice(&buffer[..read]),
                    _ => break,
                }
            }
            stream.write_all(words.as_bytes()).ok();
            if tell.send(String::from_utf8_lossy(&request).into_owned()).is_err() {
                return;
            }
        }
    });
    (address, told)
}

const WELL: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nwell";
