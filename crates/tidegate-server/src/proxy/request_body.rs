//! The body of a request: kept, so that it can be sent again, or passed on once where it is too large for that.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tidegate::wire::{Content, Owners, Share};
use tidegate_core::request::{Asked, Why};

use super::body_timeout::BodyTimeout;
use crate::body::BoxError;

/// The largest body that is kept.
const MOST: u64 = 8 << 20;
/// So much of a larger one is read before it is sent: most bodies name their model early.
const BEGINNING: usize = 64 << 10;
/// A body that comes more slowly, in bytes a second and beyond the patience with it, is not waited for.
const SLOWEST: u64 = 1 << 10;
/// Up to this length a body is copied out of the connection's buffer, which can then be used again.
const SMALL: usize = 16 << 10;

/// Where the body of each attempt comes from.
pub(super) enum RequestBody {
    /// It is there, and can be sent as often as it takes.
    Kept(Bytes, Share),
    /// It can be sent once; gone when it was. Boxed, since most are whole, and many may wait.
    Once(Box<SingleUse>),
}

/// A body that can be sent once.
pub(super) struct SingleUse {
    body: Mutex<Option<OutgoingBody>>,
    length: Option<u64>,
    why: Why,
    owners: Owners,
}

/// A request whose body did not come.
pub(super) enum BodyError {
    /// For too long.
    Slow,
    /// Ever.
    Broken,
}

impl RequestBody {
    /// Reads a body as far as it can be kept.
    pub async fn read(
        body: Incoming,
        mut share: Share,
        patience: Duration,
    ) -> Result<RequestBody, BodyError> {
        if body.is_end_stream() {
            return Ok(RequestBody::Kept(Bytes::new(), share));
        }
        let length = body.size_hint().exact();
        let mut body = BodyTimeout::new(body, patience).at_least(SLOWEST);
        let mut too_large = length.is_some_and(|length| length > MOST);
        let mut seen = Seen::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                let slow = error
                    .downcast_ref::<io::Error>()
                    .is_some_and(|error| error.kind() == io::ErrorKind::TimedOut);
                if slow { BodyError::Slow } else { BodyError::Broken }
            })?;
            let Ok(bytes) = frame.into_data() else { continue };
            let more = bytes.len() as u64;
            too_large |= seen.len() as u64 + more > MOST;
            // Reserved as it comes: what was only announced takes no memory.
            let has_room = share.grow(more);
            seen.push(bytes);
            if too_large && (seen.len() >= BEGINNING || !has_room) {
                return Ok(RequestBody::once(seen.whole(), body, share, length, Why::TooLarge));
            }
            if !has_room {
                return Ok(RequestBody::once(seen.whole(), body, share, length, Why::NoRoom));
            }
        }
        Ok(RequestBody::Kept(seen.whole(), share))
    }

    fn once(
        first: Bytes,
        rest: BodyTimeout<Incoming>,
        share: Share,
        length: Option<u64>,
        why: Why,
    ) -> RequestBody {
        let owners = share.owners();
        let outgoing = OutgoingBody { first, rest: Some((rest, share)) };
        RequestBody::Once(Box::new(SingleUse { body: Mutex::new(Some(outgoing)), length, why, owners }))
    }

    /// Whose memory it is kept in.
    pub fn owners(&self) -> Owners {
        match self {
            RequestBody::Kept(_, share) => share.owners(),
            RequestBody::Once(once) => once.owners,
        }
    }

    /// All of it, if it is kept.
    pub fn whole(&self) -> Option<&Bytes> {
        match self {
            RequestBody::Kept(bytes, _) => Some(bytes),
            RequestBody::Once(_) => None,
        }
    }

    /// Reads what it asks for, as far as it is there.
    pub fn asked(&self, headers: &HeaderMap) -> Option<Asked> {
        match self {
            RequestBody::Kept(bytes, _) => Content::Whole(bytes).asked(headers),
            RequestBody::Once(once) => {
                let body = once.body.lock();
                let bytes = body.as_ref().map_or(&[][..], |body| &body.first);
                Content::Beginning { bytes, length: once.length, why: once.why }.asked(headers)
            }
        }
    }

    /// How long it is; if that is not known, how much of it came so far.
    pub fn length(&self) -> u64 {
        match self {
            RequestBody::Kept(bytes, _) => bytes.len() as u64,
            RequestBody::Once(once) => once
                .length
                .unwrap_or_else(|| once.body.lock().as_ref().map_or(0, |body| body.first.len() as u64)),
        }
    }

    /// The same body with other words.
    pub fn rewritten(self, bytes: Vec<u8>) -> RequestBody {
        match self {
            RequestBody::Kept(_, share) => RequestBody::Kept(bytes.into(), share),
            once @ RequestBody::Once(_) => once,
        }
    }

    /// The body of the next attempt; none if it was sent and is gone.
    pub fn next(&self) -> Option<OutgoingBody> {
        match self {
            RequestBody::Kept(bytes, _) => Some(OutgoingBody { first: bytes.clone(), rest: None }),
            RequestBody::Once(once) => once.body.lock().take(),
        }
    }

    /// Returns whether the body was sent and there is no copy of it.
    pub fn is_gone(&self) -> bool {
        match self {
            RequestBody::Kept(..) => false,
            RequestBody::Once(once) => once.body.lock().is_none(),
        }
    }

    /// Takes a body back that was not sent.
    pub fn put_back(&self, body: OutgoingBody) {
        if let RequestBody::Once(once) = self {
            *once.body.lock() = Some(body);
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
#[derive(Default)]
pub(crate) struct OutgoingBody {
    first: Bytes,
    /// What was not read yet, and the memory that what was read takes.
    rest: Option<(BodyTimeout<Incoming>, Share)>,
}

impl fmt::Debug for OutgoingBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingBody").field("first", &self.first.len()).finish_non_exhaustive()
    }
}

impl Body for OutgoingBody {
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
