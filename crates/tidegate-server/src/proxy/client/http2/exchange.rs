//! One request and its reply on a stream of an HTTP/2 connection.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};

use super::streams::Slot;
use crate::body::BoxError;
use crate::proxy::request_body::OutgoingBody;

/// Why there is no reply.
#[derive(Debug)]
pub(in super::super) enum Failed {
    /// The connection had ended before the stream was opened: nothing was sent, and this is the body.
    Unsent(h2::Error, OutgoingBody),
    /// The peer has not processed the request, by its own word: REFUSED_STREAM, or GOAWAY with a lower stream id.
    Unprocessed(h2::Error),
    /// The peer may have processed it.
    Broken(BoxError),
}

impl From<h2::Error> for Failed {
    fn from(error: h2::Error) -> Failed {
        // RFC 9113, section 8.7. The library gives a remote GOAWAY only to streams above the last stream id.
        let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        if error.is_remote() && (refused || error.is_go_away()) {
            return Failed::Unprocessed(error);
        }
        Failed::Broken(error.into())
    }
}

/// Sends a request and waits for the head of its reply.
pub(in super::super) async fn send(
    mut slot: Slot,
    head: Request<()>,
    body: OutgoingBody,
) -> Result<Response<Reply>, Failed> {
    let Some(mut sender) = slot.take_sender() else {
        return Err(Failed::Broken("the slot was used before".into()));
    };
    let end = body.is_end_stream();
    let (mut reply, stream) = match sender.send_request(head, end) {
        Ok(sent) => sent,
        // Nothing was queued. Any other error here is about the request itself.
        Err(error) if error.is_go_away() || error.is_io() => return Err(Failed::Unsent(error, body)),
        Err(error) => return Err(error.into()),
    };
    drop(sender);
    let mut upload = (!end).then(|| Upload { body, stream, rest: Bytes::new() });
    let reply = poll_fn(|context| {
        if let Some(sending) = &mut upload {
            match sending.poll(context) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => upload = None,
                Poll::Ready(Err(Stopped::Reset)) => upload = None,
                Poll::Ready(Err(Stopped::Source(error))) => return Poll::Ready(Err(Failed::Broken(error))),
            }
        }
        Pin::new(&mut reply).poll(context).map_err(Failed::from)
    })
    .await?;
    let stated = reply.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    Ok(reply.map(|body| {
        let left = if body.is_end_stream() { Some(0) } else { stated };
        Reply { body, left, upload, slot: Some(slot), trailers: false }
    }))
}

/// The body of a request on its way.
#[derive(Debug)]
struct Upload {
    body: OutgoingBody,
    stream: SendStream<Bytes>,
    /// What was taken from the body and not sent yet.
    rest: Bytes,
}

/// Why no more is sent.
enum Stopped {
    /// The peer wants no more. The reply tells whether that is an error.
    Reset,
    /// The rest of the body does not come.
    Source(BoxError),
}

impl Upload {
    /// Sends as much as there is and as the peer takes. Window is asked for only when there is something to send, so that a
    /// client that stalls keeps none from others.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        loop {
            if !self.rest.is_empty() {
                while self.stream.capacity() == 0 {
                    match ready!(self.stream.poll_capacity(context)) {
                        Some(Ok(_)) => {}
                        Some(Err(_)) | None => return Poll::Ready(Err(Stopped::Reset)),
                    }
                }
                let part = self.rest.split_to(self.stream.capacity().min(self.rest.len()));
                let last = self.rest.is_empty() && self.body.is_end_stream();
                if self.stream.send_data(part, last).is_err() {
                    return Poll::Ready(Err(Stopped::Reset));
                }
                if last {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            if self.stream.poll_reset(context).is_ready() {
                return Poll::Ready(Err(Stopped::Reset));
            }
            let sent = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                None => self.stream.send_data(Bytes::new(), true),
                Some(Err(error)) => {
                    self.stream.send_reset(Reason::CANCEL);
                    return Poll::Ready(Err(Stopped::Source(error)));
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        self.stream.reserve_capacity(data.len());
                        self.rest = data;
                        continue;
                    }
                    Err(frame) => match frame.into_trailers() {
                        Ok(trailers) => self.stream.send_trailers(trailers),
                        Err(_) => continue,
                    },
                },
            };
            return Poll::Ready(sent.map_err(|_| Stopped::Reset));
        }
    }
}

/// The body of a reply. It carries the rest of the request, which may still be on its way.
#[derive(Debug)]
pub(crate) struct Reply {
    body: RecvStream,
    /// How much is to come, if that was stated.
    left: Option<u64>,
    upload: Option<Upload>,
    /// None once the stream is closed.
    slot: Option<Slot>,
    /// Whether the data has ended, and only trailers may come.
    trailers: bool,
}

impl Reply {
    /// The reply is over. What is left of the request is not wanted.
    fn close(&mut self) {
        if let Some(mut upload) = self.upload.take() {
            upload.stream.send_reset(Reason::CANCEL);
        }
        self.slot = None;
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Some(upload) = &mut this.upload
            && upload.poll(context).is_ready()
        {
            this.upload = None;
        }
        if !this.trailers {
            match ready!(this.body.poll_data(context)) {
                Some(Ok(data)) => {
                    // It is read: the peer may send as much again.
                    this.body.flow_control().release_capacity(data.len()).ok();
                    this.left = this.left.map(|left| left.saturating_sub(data.len() as u64));
                    if this.body.is_end_stream() && this.upload.is_none() {
                        this.slot = None;
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) => {
                    this.close();
                    // A reply that is whole may be followed by a reset without error, which ends the request.
                    let whole =
                        error.reason() == Some(Reason::NO_ERROR) && this.left.is_none_or(|left| left == 0);
                    return Poll::Ready((!(error.is_reset() && whole)).then(|| Err(error.into())));
                }
                None => this.trailers = true,
            }
        }
        let trailers = ready!(this.body.poll_trailers(context));
        this.close();
        match trailers {
            Ok(Some(trailers)) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            Ok(None) => Poll::Ready(None),
            Err(error) => Poll::Ready(Some(Err(error.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
