//! Connections of clients: accepting them, serving them, and ending them.
//!
//! A connection speaks HTTP/1.1, or HTTP/2 if it begins with that protocol's preface. When the sidecar stops, idle
//! connections are closed at once, those with half a head or only a preface within a second, and the others after their
//! calls. When the time to drain is over, calls whose reply has not begun are answered with 503. Then all connections are
//! dropped.
//!
//! Descriptors and places are limited: when none is free for a new connection, idle connections are closed (see `idle`).

mod idle;
#[cfg(unix)]
pub(crate) mod unix;
mod write_timeout;

use std::io;
use std::pin::{Pin, pin};
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
use tokio::time::Sleep;
use tracing::{debug, warn};

use crate::app::App;
use crate::auth::Peer;
use crate::descriptors::{ConnectionHolder, Descriptors, RETRY_LATER, is_exhausted};
use crate::lifecycle::{ConnectionPlace, Phase};
use crate::workers::Workers;
use idle::{Activity, Connections};
use write_timeout::WriteTimeout;

/// The default for how many clients may be connected. Each waiting call has a connection.
const MAX_CONNECTIONS: usize = 16_384;
/// The longest head, all headers together.
const MAX_HEAD: usize = 64 << 10;
/// The most headers of a head.
const MAX_HEADERS: usize = 128;
/// The most calls at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 1_024;
/// The beginning of an HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";
/// How long an HTTP/2 client has to close an idle connection after GOAWAY. A peer that never answers would hold it until
/// the ping timeout.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// A source of connections.
pub(crate) trait Listener: Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;
    /// A connection that can be sent to another thread.
    type Accepted: Send + 'static;

    fn next(&self) -> impl Future<Output = io::Result<(Self::Accepted, Peer)>> + Send;

    /// Makes a stream on the current thread.
    fn settle(accepted: Self::Accepted) -> io::Result<Self::Stream>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    type Accepted = std::net::TcpStream;

    async fn next(&self) -> io::Result<(std::net::TcpStream, Peer)> {
        let (stream, peer) = self.accept().await?;
        // Events are small and must be sent at once.
        stream.set_nodelay(true).ok();
        Ok((stream.into_std()?, Peer::Tcp(peer.ip().to_canonical())))
    }

    fn settle(accepted: std::net::TcpStream) -> io::Result<TcpStream> {
        TcpStream::from_std(accepted)
    }
}

#[cfg(unix)]
impl Listener for tokio::net::UnixListener {
    type Stream = tokio::net::UnixStream;
    type Accepted = std::os::unix::net::UnixStream;

    async fn next(&self) -> io::Result<(Self::Accepted, Peer)> {
        let (stream, _) = self.accept().await?;
        Ok((stream.into_std()?, Peer::Unix))
    }

    fn settle(accepted: Self::Accepted) -> io::Result<Self::Stream> {
        tokio::net::UnixStream::from_std(accepted)
    }
}

/// Accepts and serves connections.
pub(crate) struct Acceptor {
    app: Arc<App>,
    phase: watch::Receiver<Phase>,
    places: Arc<Semaphore>,
    workers: Arc<Workers>,
    connections: Arc<Connections>,
    descriptors: Arc<Descriptors>,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

impl Acceptor {
    pub fn new(
        app: Arc<App>,
        descriptors: Arc<Descriptors>,
        max_connections: Option<usize>,
        workers: Arc<Workers>,
    ) -> Acceptor {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(app.shared.timeouts.client_head)
            .max_buf_size(MAX_HEAD)
            .max_headers(MAX_HEADERS);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_header_list_size(MAX_HEAD as u32)
            .max_concurrent_streams(MAX_STREAMS)
            .keep_alive_interval(app.shared.timeouts.client)
            .keep_alive_timeout(app.shared.timeouts.client);
        let places = Arc::new(Semaphore::new(max_connections.unwrap_or(MAX_CONNECTIONS)));
        let (connections, phase) = (Arc::new(Connections::new()), app.shared.lifecycle.subscribe());
        descriptors.add(&connections);
        Acceptor { app, phase, places, workers, connections, descriptors, http1, http2 }
    }

    /// Accepts connections until the sidecar stops.
    pub async fn accept<L: Listener>(self: Arc<Acceptor>, listener: L) {
        let this = self;
        let mut phase = this.phase.clone();
        loop {
            let accepted = async {
                let place = this.take_place().await?;
                Some((listener.next().await, place))
            };
            let (accepted, place) = tokio::select! {
                Some(accepted) = accepted => accepted,
                _ = phase.wait_for(|phase| *phase != Phase::Serving) => return,
            };
            match accepted {
                Ok((accepted, peer)) => this.workers.spawn(this.clone().serve::<L>(accepted, peer, place)),
                Err(error) => {
                    drop(place);
                    tokio::time::sleep(this.recover(&error)).await;
                }
            }
        }
    }

    /// Handles a failure to accept. If descriptors are short, idle connections are closed. Returns how long to wait before
    /// the next try.
    fn recover(&self, error: &io::Error) -> Duration {
        if is_exhausted(error) {
            return self.descriptors.make_room(&format!("cannot accept a connection ({error})"));
        }
        warn!(%error, "cannot accept a connection");
        RETRY_LATER
    }

    /// Waits for a place for one more connection. If all are taken, idle connections are closed.
    async fn take_place(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Some(place);
        }
        loop {
            self.descriptors.log(&"as many connections are open as may be", self.connections.close_idle());
            // The semaphore is never closed.
            let free = self.places.clone().acquire_owned();
            if let Ok(place) = tokio::time::timeout(RETRY_LATER, free).await {
                return place.ok();
            }
        }
    }

    /// Serves a connection to its end.
    async fn serve<L: Listener>(
        self: Arc<Acceptor>,
        accepted: L::Accepted,
        peer: Peer,
        place: OwnedSemaphorePermit,
    ) {
        let place = self.app.shared.lifecycle.count_connection(place);
        let mut phase = self.phase.clone();
        let stream = match L::settle(accepted) {
            Ok(stream) => stream,
            Err(error) => return warn!(%error, "cannot serve a connection"),
        };
        let registered = self.connections.register();
        if let Err(error) = self.serve_stream(peer, stream, place, &registered.activity, &mut phase).await {
            debug!(%error, "a connection broke");
        }
    }

    async fn serve_stream<S>(
        &self,
        peer: Peer,
        mut stream: S,
        place: ConnectionPlace,
        activity: &Arc<Activity>,
        phase: &mut watch::Receiver<Phase>,
    ) -> Result<(), hyper::Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let beginning = tokio::time::timeout(self.app.shared.timeouts.client_head, read_prefix(&mut stream));
        let first = tokio::select! {
            beginning = beginning => match beginning {
                Ok(Ok(first)) => first,
                // Nothing came, or nothing that could be read.
                Ok(Err(_)) | Err(_) => return Ok(()),
            },
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => return Ok(()),
            () = activity.closing() => return Ok(()),
        };
        let is_http2 = first.starts_with(PREFACE);
        let stream = WriteTimeout::new(stream, first, self.app.shared.timeouts.client, activity.clone());
        let (app, active) = (self.app.clone(), activity.clone());
        let service = move |mut request: Request<Incoming>| {
            if request.headers().contains_key(UPGRADE) {
                request.extensions_mut().insert(place.clone());
            }
            let (answer, busy) = (app.clone().answer(peer, Box::new(request)), active.busy());
            async { answer.await.map(|response| response.map(|body| busy.until_sent(body))) }
        };
        // hyper's connections of both protocols have the same methods and no common trait.
        macro_rules! drive {
            ($connection:expr) => {{
                let mut connection = pin!($connection);
                let mut close_timer: Option<Pin<Box<Sleep>>> = None;
                let mut draining = false;
                loop {
                    tokio::select! {
                        biased;
                        result = connection.as_mut() => return result,
                        changed = phase.changed() => match *phase.borrow_and_update() {
                            Phase::Draining if changed.is_ok() => {
                                draining = true;
                                connection.as_mut().graceful_shutdown();
                            }
                            // The connection is polled again, and with it the call that it waits for.
                            Phase::Refusing if changed.is_ok() => connection.as_mut().graceful_shutdown(),
                            _ => return Ok(()),
                        },
                        () = activity.closing() => {
                            connection.as_mut().graceful_shutdown();
                            close_timer = Some(Box::pin(tokio::time::sleep(CLOSE_WITHIN)));
                        }
                        // HTTP/1.1 needs no answer of the client to close.
                        () = elapsed(&mut close_timer), if is_http2 => {
                            if activity.is_free() {
                                return Ok(());
                            }
                            close_timer = Some(Box::pin(tokio::time::sleep(CLOSE_WITHIN)));
                        }
                        // A graceful shutdown waits for the rest of a head, or for a peer that does not answer.
                        () = activity.unused(), if draining => return Ok(()),
                    }
                }
            }};
        }
        if is_http2 {
            let phases = self.phase.clone();
            // An HTTP/2 call is a task of its own, and is not polled with the connection.
            let service = move |request| {
                let (mut answer, mut phase) = (Box::pin(service(request)), phases.clone());
                async move {
                    tokio::select! {
                        biased;
                        answered = &mut answer => return answered,
                        _ = phase.wait_for(|phase| *phase == Phase::Refusing) => {}
                    }
                    answer.await
                }
            };
            drive!(self.http2.serve_connection(stream, service_fn(service)))
        } else {
            drive!(self.http1.serve_connection(stream, service_fn(service)).with_upgrades())
        }
    }
}

/// Waits for a timer, if it is set.
async fn elapsed(time: &mut Option<Pin<Box<Sleep>>>) {
    match time {
        Some(time) => time.await,
        None => std::future::pending().await,
    }
}

/// Reads the first bytes, as many as it takes to recognise the protocol.
async fn read_prefix(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Bytes> {
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
