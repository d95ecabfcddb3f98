//! The body of a request: kept, so that it can be sent again, or passed on once where it is too large for that.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use parking_lot::Mutex;

use super::memory::{Memory, Share};
use super::timed::Timed;
use crate::body::BoxError;

/// The largest body that is kept.
const MOST: u64 = 8 << 20;
/// Up to this length a body is copied out of the connection's buffer, which can then be used again.
const SMALL: usize = 16 << 10;

/// Where the body of each attempt comes from.
pub(super) enum Source {
    /// It is there, and can be sent as often as it takes.
    Whole(Bytes, Share),
    /// It can be sent once; gone when it was. Boxed, since most are whole, and many may wait.
    Once(Mutex<Option<Box<Outgoing>>>, Option<u64>),
}

/// A request whose body did not come.
pub(super) enum Unread {
    /// For too long.
    Slow,
    /// Ever.
    Broken,
}

impl Source {
    /// Reads a body as far as it can be kept.
    pub async fn read(body: Incoming, memory: &Arc<Memory>, patience: Duration) -> Result<Source, Unread> {
        let mut share = memory.share();
        if body.is_end_stream() {
            return Ok(Source::Whole(Bytes::new(), share));
        }
        let length = body.size_hint().exact();
        let mut body = Timed::new(body, patience);
        if length.is_some_and(|length| length > MOST || !share.grow(length)) {
            return Ok(Source::once(Bytes::new(), body, share, length));
        }
        let mut seen = Seen::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                let slow = error
                    .downcast_ref::<io::Error>()
                    .is_some_and(|error| error.kind() == io::ErrorKind::TimedOut);
                if slow { Unread::Slow } else { Unread::Broken }
            })?;
            let Ok(bytes) = frame.into_data() else { continue };
            let more = bytes.len() as u64;
            let fits = length.is_some() || (seen.len() as u64 + more <= MOST && share.grow(more));
            seen.push(bytes);
            if !fits {
                return Ok(Source::once(seen.whole(), body, share, None));
            }
        }
        Ok(Source::Whole(seen.whole(), share))
    }

    fn once(first: Bytes, rest: Timed<Incoming>, share: Share, length: Option<u64>) -> Source {
        let outgoing = Outgoing { first, rest: Some((rest, share)) };
        Source::Once(Mutex::new(Some(Box::new(outgoing))), length)
    }

    /// All of it, if it is kept.
    pub fn whole(&self) -> Option<&Bytes> {
        match self {
            Source::Whole(bytes, _) => Some(bytes),
            Source::Once(..) => None,
        }
    }

    /// How long it is, if that is known.
    pub fn length(&self) -> Option<u64> {
        match self {
            Source::Whole(bytes, _) => Some(bytes.len() as u64),
            Source::Once(_, length) => *length,
        }
    }

    /// The same body with other words.
    pub fn rewritten(self, bytes: Vec<u8>) -> Source {
        match self {
            Source::Whole(_, share) => Source::Whole(bytes.into(), share),
            once @ Source::Once(..) => once,
        }
    }

    /// The body of the next attempt; none if it was sent and is gone.
    pub fn next(&self) -> Option<Outgoing> {
        match self {
            Source::Whole(bytes, _) => Some(Outgoing { first: bytes.clone(), rest: None }),
            Source::Once(once, _) => once.lock().take().map(|once| *once),
        }
    }
}

/// What was read so far: mostly one piece.
#[derive(Default)]
struct Seen {
    first: Bytes,
    all: BytesMut,
}

impl Seen {
    fn len(&self) -> usize {
        self.first.len() + self.all.len()
    }

    fn push(&mut self, bytes: Bytes) {
        if self.len() == 0 {
            self.first = bytes;
            return;
        }
        if !self.first.is_empty() {
            self.all.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.all.extend_from_slice(&bytes);
    }

    fn whole(self) -> Bytes {
        match self.first.len() {
            0 => self.all.freeze(),
            1..=SMALL => Bytes::copy_from_slice(&self.first),
            _ => self.first,
        }
    }
}

/// A body on its way to an upstream.
pub(crate) struct Outgoing {
    first: Bytes,
    /// What was not read yet, and the memory that what was read takes.
    rest: Option<(Timed<Incoming>, Share)>,
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.first.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.first)))));
        }
        match &mut self.rest {
            Some((rest, _)) => Pin::new(rest).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.rest.as_ref().is_none_or(|(rest, _)| rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let first = self.first.len() as u64;
        let Some((rest, _)) = &self.rest else { return SizeHint::with_exact(first) };
        let rest = rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(first));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(first));
        }
        hint
    }
}
