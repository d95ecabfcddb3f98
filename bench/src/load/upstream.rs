//! Upstreams, each on a thread of its own.

use std::net::SocketAddr;
use std::sync::mpsc;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

use super::message;

/// An upstream, and the thread that it is on for whoever wants to be there too. It ends with the process.
pub struct Upstream {
    pub address: SocketAddr,
    pub thread: Handle,
}

/// Starts one that has one answer to everything.
pub fn start(answer: &'static [u8]) -> Result<Upstream> {
    serve(move |stream| connection(stream, answer))
}

/// Does `answer` with every connection.
pub fn serve<F: Future + Send + 'static>(answer: impl Fn(TcpStream) -> F + Send + 'static) -> Result<Upstream>
where
    F::Output: Send,
{
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("it listens");
            tell.send(Upstream { address, thread: Handle::current() }).ok();
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                tokio::spawn(answer(stream));
            }
        });
    });
    told.recv().context("an upstream")
}

/// Answers until the other side is gone.
async fn connection(mut stream: TcpStream, answer: &'static [u8]) {
    stream.set_nodelay(true).ok();
    let mut seen = Vec::with_capacity(16 << 10);
    while stream.read_buf(&mut seen).await.is_ok_and(|read| read > 0) {
        while let Some(length) = message(&seen) {
            seen.drain(..length);
            if stream.write_all(answer).await.is_err() {
                return;
            }
        }
    }
}
