//! The body of a request: kept for retries, or forwarded once if it is too large to be kept.

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
const MAX_KEPT: u64 = 8 << 20;
/// This much of a larger body is read before it is sent: most bodies name their model early.
const PREFIX: usize = 64 << 10;
/// The minimum rate of a body in bytes a second, once its timeout is used up.
const MIN_RATE: u64 = 1 << 10;
/// A body up to this length is copied out of the connection's buffer, which can then be reused.
const MAX_COPIED: usize = 16 << 10;

/// The body for all attempts of a call.
pub(super) enum RequestBody {
    /// The whole body, which can be sent any number of times.
    Kept(Bytes, Share),
    /// A body that can be sent once. Boxed, since it is rare and many calls may wait.
    Once(Box<SingleUse>),
}

/// A body that can be sent once.
pub(super) struct SingleUse {
    body: Mutex<Option<OutgoingBody>>,
    length: Option<u64>,
    why: Why,
    owners: Owners,
}

/// Why a body could not be read.
pub(super) enum BodyError {
    /// It did not come in time.
    Slow,
    /// It broke off.
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
        let mut body = BodyTimeout::new(body, patience).at_least(MIN_RATE);
        let mut too_large = length.is_some_and(|length| length > MAX_KEPT);
        let mut chunks = Chunks::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                let slow = error
                    .downcast_ref::<io::Error>()
                    .is_some_and(|error| error.kind() == io::ErrorKind::TimedOut);
                if slow { BodyError::Slow } else { BodyError::Broken }
            })?;
            let Ok(bytes) = frame.into_data() else { continue };
            let more = bytes.len() as u64;
            too_large |= chunks.len() as u64 + more > MAX_KEPT;
            // Reserved as bytes arrive: an announced length alone takes no memory.
            let has_room = share.grow(more);
            chunks.push(bytes);
            if too_large && (chunks.len() >= PREFIX || !has_room) {
                return Ok(RequestBody::once(chunks.join(), body, share, length, Why::TooLarge));
            }
            if !has_room {
                return Ok(RequestBody::once(chunks.join(), body, share, length, Why::NoRoom));
            }
        }
        Ok(RequestBody::Kept(chunks.join(), share))
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

    /// Returns the owners of the memory that it is kept in.
    pub fn owners(&self) -> Owners {
        match self {
            RequestBody::Kept(_, share) => share.owners(),
            RequestBody::Once(once) => once.owners,
        }
    }

    /// Returns the whole body, if it is kept.
    pub fn kept(&self) -> Option<&Bytes> {
        match self {
            RequestBody::Kept(bytes, _) => Some(bytes),
            RequestBody::Once(_) => None,
        }
    }

    /// Reads the request's parameters, as far as the body is there.
    pub fn parameters(&self, headers: &HeaderMap) -> Option<Asked> {
        match self {
            RequestBody::Kept(bytes, _) => Content::Whole(bytes).asked(headers),
            RequestBody::Once(once) => {
                let body = once.body.lock();
                let bytes = body.as_ref().map_or(&[][..], |body| &body.first);
                Content::Beginning { bytes, length: once.length, why: once.why }.asked(headers)
            }
        }
    }

    /// Returns its length, or how much of it has come if the length is not known.
    pub fn length(&self) -> u64 {
        match self {
            RequestBody::Kept(bytes, _) => bytes.len() as u64,
            RequestBody::Once(once) => once
                .length
                .unwrap_or_else(|| once.body.lock().as_ref().map_or(0, |body| body.first.len() as u64)),
        }
    }

    /// Replaces the text of a kept body.
    pub fn with_text(self, bytes: Vec<u8>) -> RequestBody {
        match self {
            RequestBody::Kept(_, share) => RequestBody::Kept(bytes.into(), share),
            once @ RequestBody::Once(_) => once,
        }
    }

    /// Returns the body for the next attempt, or none if it was sent and not kept.
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

    /// Puts back a body that was not sent.
    pub fn put_back(&self, body: OutgoingBody) {
        if let RequestBody::Once(once) = self {
            *once.body.lock() = Some(body);
        }
    }
}

/// The bytes read so far, mostly in one piece.
#[derive(Default)]
struct Chunks {
    first: Bytes,
    all: BytesMut,
}

impl Chunks {
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

    fn join(self) -> Bytes {
        match self.first.len() {
            0 => self.all.freeze(),
            1..=MAX_COPIED => Bytes::copy_from_slice(&self.first),
            _ => self.first,
        }
    }
}

/// A body on its way to an upstream.
#[derive(Default)]
pub(crate) struct OutgoingBody {
    first: Bytes,
    /// The part that was not read yet, and the memory that the first part takes.
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
