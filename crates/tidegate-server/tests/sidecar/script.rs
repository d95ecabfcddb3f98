//! An upstream that plays a part: each connection is read up to a whole request, and gets what the part says.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The upstream; it stops when it is dropped.
pub struct Script {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    playing: JoinHandle<()>,
}

/// One connection, on which a request has come.
pub struct Stage {
    pub stream: TcpStream,
    /// Which request it is, from 0 on.
    pub number: usize,
}

impl Stage {
    pub async fn say(&mut self, words: &str) {
        self.stream.write_all(words.as_bytes()).await.ok();
    }

    /// Waits for another request on the same connection; none if the other side has gone.
    pub async fn again(&mut self) -> Option<String> {
        whole_request(&mut self.stream).await
    }

    /// Waits until the other side has gone.
    pub async fn until_gone(&mut self) {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).await.ok();
    }

    /// Breaks off, so that the other side sees a reset.
    pub fn reset(self) {
        self.stream.set_zero_linger().ok();
    }
}

impl Script {
    /// Plays a part on every connection.
    pub async fn plays<F>(part: impl Fn(Stage) -> F + Send + Sync + 'static) -> Script
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Script::plays_on(TcpListener::bind("127.0.0.1:0").await.expect("a port"), part)
    }

    /// The same where a listener is there already.
    pub fn plays_on<F>(listener: TcpListener, part: impl Fn(Stage) -> F + Send + Sync + 'static) -> Script
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let address = listener.local_addr().expect("bound");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        let part = Arc::new(part);
        let playing = tokio::spawn(async move {
            loop {
                let Ok((mut stream, _)) = listener.accept().await else { return };
                let (seen, part) = (seen.clone(), part.clone());
                tokio::spawn(async move {
                    let Some(request) = whole_request(&mut stream).await else { return };
                    let number = {
                        let mut seen = seen.lock();
                        seen.push(request);
                        seen.len() - 1
                    };
                    part(Stage { stream, number }).await;
                });
            }
        });
        Script { address, requests, playing }
    }

    /// Answers every request with the same text, and closes.
    pub async fn says(words: impl Into<String>) -> Script {
        let words = words.into();
        Script::plays(move |mut stage| {
            let words = words.clone();
            async move { stage.say(&words).await }
        })
        .await
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was asked, head and body, in the order of arrival.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.playing.abort();
    }
}

/// A reply with that body.
pub fn reply(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}connection: close\r\n\r\n{body}")
}

/// Reads a request whose body has a length, or comes in chunks.
async fn whole_request(stream: &mut TcpStream) -> Option<String> {
    let mut seen = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let mut whole: Option<Whole> = None;
    loop {
        let read = stream.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        seen.extend_from_slice(&buffer[..read]);
        if whole.is_none() {
            whole = seen
                .windows(4)
                .position(|window| window == b"\r\n\r\n")
                .map(|end| Whole::of(&seen[..end + 4]));
        }
        let is_whole = match whole {
            None => false,
            Some(Whole::At(length)) => seen.len() >= length,
            Some(Whole::Chunks) => seen.ends_with(b"0\r\n\r\n"),
        };
        if is_whole {
            return Some(String::from_utf8_lossy(&seen).into_owned());
        }
    }
}

/// When a request is there whole.
#[derive(Clone, Copy)]
enum Whole {
    At(usize),
    Chunks,
}

impl Whole {
    fn of(head: &[u8]) -> Whole {
        let text = String::from_utf8_lossy(head);
        if text.contains("transfer-encoding: chunked") {
            return Whole::Chunks;
        }
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        Whole::At(head.len() + length.map_or(0, |length| length.parse::<usize>().expect("a length")))
    }
}
