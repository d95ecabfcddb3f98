//! HTTP/2 connections to upstreams: many calls on each, and as many connections as the calls need.
//!
//! **Streams.** A call takes a *slot* before it is sent and holds it until its stream is closed in both directions. A
//! connection has as many slots as its peer allows streams (`SETTINGS_MAX_CONCURRENT_STREAMS`), and at most
//! [`MOST_STREAMS`]. Invariant: slots in use never exceed what the peer allows, so no request is queued inside the HTTP/2
//! library, where it would count as sent and yet wait. A connection is used only after the peer's first SETTINGS frame has
//! arrived, since that frame has the number. Calls beyond the slots of all connections wait for a new connection, and for a
//! slot that becomes free, whichever comes first.
//!
//! **What can interleave.** All state of the pool is behind one lock, which is never held while something is awaited.
//! - *Many calls find no slot at once.* They join a queue. One connection is opened for as many waiting calls as a
//!   connection is expected to allow, in a task of its own: a call that goes away does not take the connection with it.
//! - *A slot becomes free while calls wait.* It goes to the first of them under the same lock, so a call that comes later
//!   cannot overtake. Invariant: while a call waits, no slot is free.
//! - *A call goes away just as a slot is handed to it.* The slot is in the channel, or in the call's future; either is
//!   dropped, and dropping a slot frees it.
//! - *The peer lowers its limit.* Slots in use stay; none is handed out until fewer are in use than allowed. A request that
//!   was sent before the new number arrived may be answered with REFUSED_STREAM, which is safe to retry.
//! - *The peer says GOAWAY.* Its connection gives out no more slots. Streams above the last stream id were not processed and
//!   are safe to retry; those below go on.
//! - *The peer is silently gone.* A PING is sent every [`PING_EVERY`]; if it is not answered within [`PING_ANSWER`] the
//!   connection leaves the pool first and is dropped then, which ends its streams. No later call can get it.
//! - *A connection expires just as a call takes it.* Both look under the lock: it expires only if no slot is in use, and
//!   leaves the pool in the same step.
//! - *A stream is reset by us.* The slot is free when the RST_STREAM frame is queued, and the frame is written in the same
//!   poll of the connection that opens the next stream, and before it.
//!
//! **Flow control.** Each stream may have [`STREAM_WINDOW`] bytes that were not read yet, and the connection window is that
//! times [`MOST_STREAMS`]. So readers that stop fill their own windows and never the connection's: other streams go on.
//! Memory is bounded by the same product.

mod exchange;
mod streams;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::PingPong;
use h2::client::{Builder, Connection, SendRequest};
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::debug;

pub(crate) use exchange::Reply;
pub(super) use exchange::{Failed, send};
pub(super) use streams::{Opening, Slot, Streams, Turn};

/// The most streams of one connection, whatever its peer allows.
const MOST_STREAMS: usize = 100;
/// How much of a reply may wait to be read.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * MOST_STREAMS as u32;
/// The largest head of a reply.
const MOST_HEADERS: u32 = 64 << 10;
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_ANSWER: Duration = Duration::from_secs(10);
/// How long a connection without streams is kept.
const IDLE: Duration = Duration::from_secs(90);
/// How long a connection that is no longer needed may take to say so.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// Stands for the peer's limit until the peer has stated one. No peer can state it: the field has 32 bits.
const UNSTATED: usize = usize::MAX - 1;

/// A connection whose peer has stated its settings.
pub(super) struct Opened<S: AsyncRead + AsyncWrite + Unpin> {
    sender: SendRequest<Bytes>,
    connection: Connection<S, Bytes>,
}

/// Begins to speak HTTP/2 and waits until the peer allows a stream.
///
/// # Errors
/// Returns why the connection ended before that.
pub(super) async fn open<S>(stream: S) -> Result<Opened<S>, String>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .initial_max_send_streams(UNSTATED)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MOST_HEADERS);
    let handshake = builder.handshake(stream).await;
    let (sender, mut connection) = handshake.map_err(|error| error.to_string())?;
    poll_fn(|context| {
        if let Poll::Ready(ended) = Pin::new(&mut connection).poll(context) {
            return Poll::Ready(Err(ended
                .err()
                .map_or("it was closed".to_owned(), |error| error.to_string())));
        }
        match connection.max_concurrent_send_streams() {
            UNSTATED | 0 => Poll::Pending,
            _ => Poll::Ready(Ok(())),
        }
    })
    .await?;
    Ok(Opened { sender, connection })
}

impl<S> Opened<S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    /// Puts the connection into the pool, and reads and writes on it until it ends.
    pub fn join(self, streams: &Arc<Streams>, opening: Opening) {
        let Opened { sender, mut connection } = self;
        let pings = connection.ping_pong();
        let limit = connection.max_concurrent_send_streams();
        let id = streams.opened(opening, sender, limit);
        tokio::spawn(drive(connection, pings, limit, id, streams.clone()));
    }
}

/// Why a connection is not driven any more.
enum End {
    Closed,
    Silent,
    Idle,
}

async fn drive<S>(
    mut connection: Connection<S, Bytes>,
    pings: Option<PingPong>,
    mut limit: usize,
    id: u64,
    streams: Arc<Streams>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut watched = Box::pin(watch(pings, id, &streams));
    let end = poll_fn(|context| {
        if let Poll::Ready(result) = Pin::new(&mut connection).poll(context) {
            debug!(?result, "an HTTP/2 connection was closed");
            return Poll::Ready(End::Closed);
        }
        let stated = connection.max_concurrent_send_streams();
        if stated != limit {
            limit = stated;
            streams.allows(id, stated);
        }
        watched.as_mut().poll(context)
    })
    .await;
    drop(watched);
    match end {
        End::Closed => streams.remove(id),
        End::Silent => {
            debug!("an HTTP/2 connection is dropped: a ping was not answered within {PING_ANSWER:?}");
            streams.remove(id);
        }
        // It has left the pool, and with it the last sender: the library closes it in good form.
        End::Idle => drop(tokio::time::timeout(CLOSE_WITHIN, connection).await),
    }
}

/// Waits until the peer is silent or the connection has been idle for too long.
async fn watch(pings: Option<PingPong>, id: u64, streams: &Arc<Streams>) -> End {
    let silent = async {
        let Some(mut pings) = pings else { return std::future::pending().await };
        loop {
            tokio::time::sleep(PING_EVERY).await;
            if pings.send_ping(h2::Ping::opaque()).is_err() {
                return;
            }
            let answer = poll_fn(|context| pings.poll_pong(context));
            if !matches!(tokio::time::timeout(PING_ANSWER, answer).await, Ok(Ok(_))) {
                return;
            }
        }
    };
    let idle = async {
        while let Some(rest) = streams.expire(id, IDLE) {
            tokio::time::sleep(rest).await;
        }
    };
    tokio::select! {
        () = silent => End::Silent,
        () = idle => End::Idle,
    }
}
