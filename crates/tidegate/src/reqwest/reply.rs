//! A reply, looked into and passed on as it came.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use ::reqwest::{Body, Response, ResponseBuilderExt};
use bytes::{Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, timeout_at};

/// As much of an error's body as is looked at.
const MOST: usize = 64 << 10;
/// How long that is waited for. The head has said that the call failed: whoever waits must not wait for more words.
const PATIENCE: Duration = Duration::from_secs(1);

/// The same reply with another body.
pub(super) fn with_body(response: Response, wrap: impl FnOnce(Body) -> Body) -> Response {
    // A reply does not take its URL along when it is taken apart: only a builder can give it one.
    let url = http::Response::builder().url(response.url().clone()).body(()).map(http::Response::into_parts);
    let (mut parts, body) = http::Response::from(response).into_parts();
    if let Ok((with_url, ())) = url {
        parts.extensions.extend(with_url.extensions);
    }
    http::Response::from_parts(parts, wrap(body)).into()
}

/// Reads the beginning of a body that is about to say what went wrong. The reply that comes back has all of it.
pub(super) async fn look_into(mut response: Response) -> (Response, Bytes) {
    let mut seen = BytesMut::new();
    let mut broken = None;
    let until = Instant::now() + PATIENCE;
    while seen.len() < MOST && broken.is_none() {
        match timeout_at(until, response.chunk()).await {
            Ok(Ok(Some(chunk))) => seen.extend_from_slice(&chunk),
            Ok(Ok(None)) | Err(_) => break,
            Ok(Err(error)) => broken = Some(error),
        }
    }
    let seen = seen.freeze();
    let first = Some(seen.clone()).filter(|seen| !seen.is_empty());
    (with_body(response, |rest| Body::wrap(Resumed { first, broken, rest })), seen)
}

/// A body of which the beginning was read already.
struct Resumed {
    first: Option<Bytes>,
    /// Why it could not be read any further.
    broken: Option<::reqwest::Error>,
    rest: Body,
}

impl HttpBody for Resumed {
    type Data = Bytes;
    type Error = ::reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ::reqwest::Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        Pin::new(&mut self.rest).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.broken.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (first, rest) = (self.first.as_ref().map_or(0, Bytes::len) as u64, self.rest.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(first));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(first));
        }
        hint
    }
}
