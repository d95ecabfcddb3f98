//! A reply's body on its way to the caller, and the permit that ends with it.
//!
//! The call is not over when the head of its reply has come: the upstream still works on it, and what it cost is
//! often the last thing that it says. So the permit goes with the body. Bytes are passed on as they come and are
//! only looked at; at the end, the usage that they reported is the cost. A body that breaks off, or that nobody
//! reads to its end, frees the slot and keeps what was reserved.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ::reqwest::{Body, Error, Response};
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::cost::{Meaning, Seen};
use super::reply::with_body;
use crate::execute::KeptPermit;
use crate::outcome::Outcome;

/// The same reply; the permit ends with its body.
pub(super) fn metered(response: Response, permit: KeptPermit, meaning: Meaning) -> Response {
    let seen = Seen::of(content_type(response.headers()));
    let watch = Watch { permit, seen, meaning };
    with_body(response, |body| Body::wrap(Metered { body, watch: Some(watch) }))
}

fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default()
}

struct Metered {
    body: Body,
    /// Gone once the body has ended.
    watch: Option<Watch>,
}

struct Watch {
    permit: KeptPermit,
    seen: Seen,
    meaning: Meaning,
}

impl Metered {
    /// The body has ended so.
    fn end(&mut self, how: impl FnOnce(&Meaning, Seen) -> Outcome) {
        if let Some(Watch { permit, seen, meaning }) = self.watch.take()
            && let Some(permit) = permit.take()
        {
            permit.finish(how(&meaning, seen));
        }
    }
}

impl HttpBody for Metered {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                if let (Some(watch), Some(bytes)) = (&mut self.watch, frame.data_ref()) {
                    watch.seen.push(bytes);
                }
                // Not everybody asks for what comes after the last one.
                if self.body.is_end_stream() {
                    self.end(Meaning::outcome);
                }
            }
            Some(Err(_)) => self.end(|_, _| Outcome::failed()),
            None => self.end(Meaning::outcome),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Metered {
    /// Nobody wants the rest of it: the call was answered, and costs what was reserved.
    fn drop(&mut self) {
        self.end(|_, _| Outcome::done());
    }
}
