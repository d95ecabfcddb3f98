//! An upstream that answers at once and takes notes.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

/// Starts an upstream that answers every call. It keeps what `note` makes of the lines of each request.
pub fn noting<N: Send + 'static>(note: fn(&str) -> Option<N>) -> (SocketAddr, Arc<Mutex<Vec<N>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let noted = Arc::new(Mutex::new(Vec::new()));
    let notes = noted.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(stream), notes) = (stream, notes.clone()) else { return };
            std::thread::spawn(move || {
                let mut writer = stream.try_clone().expect("a second handle");
                for line in BufReader::new(stream).lines() {
                    let Ok(line) = line else { return };
                    if let Some(noted) = note(&line) {
                        notes.lock().expect("no panic").push(noted);
                    }
                    if line.is_empty()
                        && writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    (address, noted)
}
