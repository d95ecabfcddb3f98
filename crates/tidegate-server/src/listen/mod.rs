//! Connections: who is let in, what they speak, and how they end.
//!
//! A connection speaks HTTP/1.1, or HTTP/2 if it begins with that protocol's preface. When the sidecar stops, idle
//! connections are closed at once and the others after what they are about; when its patience is over they are
//! dropped, and what they were about with them.

mod patient;
#[cfg(unix)]
pub(crate) mod unix;
pub(crate) mod workers;

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Request;
use http::header::UPGRADE;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tracing::{debug, warn};

use crate::app::{App, Counted};
use patient::Patient;
use workers::Workers;

/// How many clients may be connected unless said otherwise: each call that waits has a connection.
const MAX_CONNECTIONS: usize = 16_384;
/// How long a head may be, all its headers together.
const MAX_HEAD: usize = 64 << 10;
/// How many headers it may have.
const MAX_HEADERS: usize = 128;
/// How many calls one HTTP/2 connection may carry at once.
const MAX_STREAMS: u32 = 1_024;
/// How HTTP/2 begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";
/// How long to wait after a connection could not be accepted: most often there are no files left.
const RECOVER: Duration = Duration::from_millis(100);

/// What becomes of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// They are served.
    Serving,
    /// They end after what they are about.
    Draining,
    /// They end.
    Cut,
}

/// A connection's place among all that there may be. It goes with what the connection becomes.
#[derive(Clone)]
pub(crate) struct Room {
    _held: Arc<(Counted, OwnedSemaphorePermit)>,
}

/// Which way somebody came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// By the network: this machine's own, unless it is open to others.
    Tcp,
    /// By a file that only whoever started the sidecar may open.
    #[cfg_attr(not(unix), allow(dead_code))]
    Unix,
}

/// Where connections come from.
pub(crate) trait Listener: Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;
    /// What can be given to another thread.
    type Accepted: Send + 'static;
    const DOOR: Door;

    fn next(&self) -> impl Future<Output = io::Result<Self::Accepted>> + Send;

    /// What is read from and written to on the thread that this is called on.
    fn settle(accepted: Self::Accepted) -> io::Result<Self::Stream>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    type Accepted = std::net::TcpStream;
    const DOOR: Door = Door::Tcp;

    async fn next(&self) -> io::Result<std::net::TcpStream> {
        let (stream, _) = self.accept().await?;
        // Events are small, and to be there at once.
        stream.set_nodelay(true).ok();
        stream.into_std()
    }

    fn settle(accepted: std::net::TcpStream) -> io::Result<TcpStream> {
        TcpStream::from_std(accepted)
    }
}

#[cfg(unix)]
impl Listener for tokio::net::UnixListener {
    type Stream = tokio::net::UnixStream;
    type Accepted = std::os::unix::net::UnixStream;
    const DOOR: Door = Door::Unix;

    async fn next(&self) -> io::Result<Self::Accepted> {
        self.accept().await.and_then(|(stream, _)| stream.into_std())
    }

    fn settle(accepted: Self::Accepted) -> io::Result<Self::Stream> {
        tokio::net::UnixStream::from_std(accepted)
    }
}

/// What it takes to serve connections.
pub(crate) struct Listening {
    app: Arc<App>,
    phase: watch::Receiver<Phase>,
    room: Arc<Semaphore>,
    workers: Arc<Workers>,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

impl Listening {
    pub fn new(
        app: Arc<App>,
        phase: watch::Receiver<Phase>,
        max_connections: Option<usize>,
        workers: Arc<Workers>,
    ) -> Listening {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(app.times.client_head)
            .max_buf_size(MAX_HEAD)
            .max_headers(MAX_HEADERS);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_header_list_size(MAX_HEAD as u32)
            .max_concurrent_streams(MAX_STREAMS)
            .keep_alive_interval(app.times.client)
            .keep_alive_timeout(app.times.client);
        let room = Arc::new(Semaphore::new(max_connections.unwrap_or(MAX_CONNECTIONS)));
        Listening { app, phase, room, workers, http1, http2 }
    }

    /// Accepts connections until it is told to stop.
    pub async fn accept<L: Listener>(self: Arc<Listening>, listener: L) {
        let this = self;
        let mut phase = this.phase.clone();
        loop {
            let accepted = async {
                // Closed never: it is ours.
                let room = this.room.clone().acquire_owned().await.ok()?;
                Some((listener.next().await, room))
            };
            let (accepted, room) = tokio::select! {
                Some(accepted) = accepted => accepted,
                _ = phase.wait_for(|phase| *phase != Phase::Serving) => return,
            };
            match accepted {
                Ok(accepted) => this.workers.spawn(this.clone().serve::<L>(accepted, room)),
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(RECOVER).await;
                }
            }
        }
    }

    /// Serves a connection to its end.
    async fn serve<L: Listener>(self: Arc<Listening>, accepted: L::Accepted, room: OwnedSemaphorePermit) {
        let room = Room { _held: Arc::new((self.app.count_connection(), room)) };
        let mut phase = self.phase.clone();
        let stream = match L::settle(accepted) {
            Ok(stream) => stream,
            Err(error) => return warn!(%error, "cannot serve a connection"),
        };
        if let Err(error) = self.speak(L::DOOR, stream, room, &mut phase).await {
            debug!(%error, "a connection broke");
        }
    }

    async fn speak<S>(
        &self,
        door: Door,
        mut stream: S,
        room: Room,
        phase: &mut watch::Receiver<Phase>,
    ) -> Result<(), hyper::Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let beginning = tokio::time::timeout(self.app.times.client_head, beginning(&mut stream));
        let first = tokio::select! {
            beginning = beginning => match beginning {
                Ok(Ok(first)) => first,
                // Nothing came, or nothing that could be read.
                Ok(Err(_)) | Err(_) => return Ok(()),
            },
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => return Ok(()),
        };
        let is_http2 = first.starts_with(PREFACE);
        let stream = Patient::new(stream, first, self.app.times.client);
        let app = self.app.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            if request.headers().contains_key(UPGRADE) {
                request.extensions_mut().insert(room.clone());
            }
            app.clone().answer(door, Box::new(request))
        });
        // As hyper has it: both protocols, the same way, and no common type.
        macro_rules! drive {
            ($connection:expr) => {{
                let mut connection = pin!($connection);
                loop {
                    tokio::select! {
                        biased;
                        result = connection.as_mut() => return result,
                        changed = phase.changed() => match *phase.borrow_and_update() {
                            Phase::Draining if changed.is_ok() => connection.as_mut().graceful_shutdown(),
                            _ => return Ok(()),
                        },
                    }
                }
            }};
        }
        if is_http2 {
            drive!(self.http2.serve_connection(stream, service))
        } else {
            drive!(self.http1.serve_connection(stream, service).with_upgrades())
        }
    }
}

/// The first bytes, as many as it takes to know what is spoken.
async fn beginning(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Bytes> {
    let mut first = BytesMut::with_capacity(1_024);
    loop {
        if stream.read_buf(&mut first).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let seen = first.len().min(PREFACE.len());
        if seen == PREFACE.len() || first[..seen] != PREFACE[..seen] {
            return Ok(first.freeze());
        }
    }
}
