//! The body of a reply on its way to the client.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tidegate::wire::ReplyBody;
use tidegate_core::request::stream_usage::Hidden;

use super::body_timeout::BodyTimeout;
use super::client::UpstreamBody;
use crate::body::BoxError;
use crate::lifecycle::Counted;

/// An upstream's reply as it is streamed. It holds the permit of the call.
pub(super) struct ProxiedBody {
    body: ReplyBody<BodyTimeout<UpstreamBody>>,
    /// Removes the usage that the client did not ask for. None at the end.
    hidden: Option<Hidden>,
    _counted: Option<Counted>,
}

impl ProxiedBody {
    pub fn new(
        body: ReplyBody<BodyTimeout<UpstreamBody>>,
        hide_usage: bool,
        counted: Option<Counted>,
    ) -> ProxiedBody {
        ProxiedBody { body, hidden: hide_usage.then(Hidden::default), _counted: counted }
    }
}

impl Body for ProxiedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        loop {
            let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
            let Some(hidden) = &mut this.hidden else { return Poll::Ready(frame) };
            let shown = match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => hidden.push(&bytes),
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    let rest = hidden.finish();
                    this.hidden = None;
                    if rest.is_empty() {
                        return Poll::Ready(None);
                    }
                    rest
                }
            };
            if !shown.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(shown.into()))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.hidden.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.hidden.is_some() { SizeHint::default() } else { self.body.size_hint() }
    }
}
