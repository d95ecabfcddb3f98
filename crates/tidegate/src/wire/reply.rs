//! A reply's body on its way to the caller, and the permit that ends with it.
//!
//! The call is not over when the head of its reply has come: the upstream still works on it, and what it cost is
//! often the last thing that it says. So the permit goes with the body. Bytes are passed on as they come and are
//! only looked at; at the end, the usage that they reported is the cost. A body that breaks off, or that nobody
//! reads to its end, frees the slot and keeps what was reserved.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::cost::{Meaning, Seen};
use crate::execute::KeptPermit;
use crate::outcome::Outcome;

/// The body of a reply, looked into and passed on as it came; made by [`judge`](super::judge).
pub struct ReplyBody<B: Body> {
    opening: Opening<B::Error>,
    rest: B,
    /// Gone once the body has ended.
    watch: Option<Box<Watch>>,
}

/// What was already read of a body.
pub(super) struct Opening<E> {
    first: Bytes,
    /// Why it could not be read any further.
    broken: Option<E>,
}

/// Who waits for the end of a body.
pub(super) struct Watch {
    pub permit: KeptPermit,
    pub seen: Seen,
    pub meaning: Meaning,
}

impl<E> Default for Opening<E> {
    fn default() -> Self {
        Opening { first: Bytes::new(), broken: None }
    }
}

impl<E> Opening<E> {
    pub fn new(first: Bytes, broken: Option<E>) -> Opening<E> {
        Opening { first, broken }
    }

    pub fn first(&self) -> &[u8] {
        &self.first
    }
}

impl<B: Body> ReplyBody<B> {
    pub(super) fn resumed(opening: Opening<B::Error>, rest: B, watch: Option<Watch>) -> ReplyBody<B> {
        ReplyBody { opening, rest, watch: watch.map(Box::new) }
    }

    /// The body has ended so.
    fn end(&mut self, how: impl FnOnce(&Meaning, Seen) -> Outcome) {
        if let Some(watch) = self.watch.take() {
            let Watch { permit, seen, meaning } = *watch;
            if let Some(permit) = permit.take() {
                permit.finish(how(&meaning, seen));
            }
        }
    }
}

impl<B> Body for ReplyBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        let resumed = !this.opening.first.is_empty();
        let frame = if resumed {
            Some(Ok(Frame::data(std::mem::take(&mut this.opening.first))))
        } else if let Some(error) = this.opening.broken.take() {
            Some(Err(error))
        } else {
            ready!(Pin::new(&mut this.rest).poll_frame(context))
        };
        match &frame {
            Some(Ok(frame)) => {
                // What was read before was seen before.
                if let (false, Some(watch), Some(bytes)) = (resumed, &mut this.watch, frame.data_ref()) {
                    watch.seen.push(bytes);
                    if let Some(so_far) = watch.seen.grown(&watch.meaning) {
                        watch.permit.spent(&so_far);
                    }
                }
                // Not everybody asks for what comes after the last one.
                if this.is_end_stream() {
                    this.end(Meaning::outcome);
                }
            }
            Some(Err(_)) => this.end(|_, _| Outcome::failed()),
            None => this.end(Meaning::outcome),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.opening.first.is_empty() && self.opening.broken.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (first, rest) = (self.opening.first.len() as u64, self.rest.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(first));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(first));
        }
        hint
    }
}

impl<B: Body> Drop for ReplyBody<B> {
    /// Nobody wants the rest of it: the call was answered, and costs what was reserved.
    fn drop(&mut self) {
        self.end(|_, _| Outcome::done());
    }
}

impl<B: Body> fmt::Debug for ReplyBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyBody").field("metered", &self.watch.is_some()).finish_non_exhaustive()
    }
}

/// The next bytes of a body; trailers are none.
pub(super) async fn next_data<B>(body: &mut B) -> Option<Result<Bytes, B::Error>>
where
    B: Body<Data = Bytes> + Unpin,
{
    loop {
        match poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await? {
            Ok(frame) => {
                if let Ok(bytes) = frame.into_data() {
                    return Some(Ok(bytes));
                }
            }
            Err(error) => return Some(Err(error)),
        }
    }
}
