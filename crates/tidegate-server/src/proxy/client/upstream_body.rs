//! The body of an upstream's reply, and the connection that it comes on.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::http1::Http1;
use super::http2;
use super::pool::Pool;
use crate::body::BoxError;

/// The body of a reply.
pub(crate) enum UpstreamBody {
    Http1(Http1Body),
    Http2(Box<http2::Reply>),
}

/// Returns its connection to the pool when it was read to its end. Dropped before that, it closes the connection.
pub(crate) struct Http1Body {
    body: Incoming,
    /// The connection that must be driven for the body to come. None at the end.
    carried: Option<Box<(Http1, Arc<Pool>)>>,
    /// The error that is returned at the next poll.
    broken: Option<hyper::Error>,
}

impl UpstreamBody {
    /// Makes a body whose connection is driven elsewhere.
    pub(super) fn whole(body: Incoming) -> UpstreamBody {
        UpstreamBody::Http1(Http1Body { body, carried: None, broken: None })
    }

    /// Makes a body that comes on this connection.
    pub(super) fn over(body: Incoming, http1: Http1, pool: Arc<Pool>) -> UpstreamBody {
        let mut answer = Http1Body { body, carried: Some(Box::new((http1, pool))), broken: None };
        if answer.body.is_end_stream() {
            // An empty body is never polled.
            answer.end(&mut Context::from_waker(Waker::noop()));
        }
        UpstreamBody::Http1(answer)
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            UpstreamBody::Http1(body) => body.poll_frame(context).map_err(Into::into),
            UpstreamBody::Http2(body) => Pin::new(&mut **body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            UpstreamBody::Http1(answer) => answer.broken.is_none() && answer.body.is_end_stream(),
            UpstreamBody::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            UpstreamBody::Http1(answer) => answer.body.size_hint(),
            UpstreamBody::Http2(body) => body.size_hint(),
        }
    }
}

impl Http1Body {
    fn end(&mut self, context: &mut Context<'_>) {
        if let Some(carried) = self.carried.take() {
            let (mut http1, pool) = *carried;
            if http1.is_ready(context) {
                pool.keep(http1);
            }
        }
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self;
        if let Some(error) = this.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let Some((http1, _)) = this.carried.as_deref_mut() else {
            return Pin::new(&mut this.body).poll_frame(context);
        };
        // The body is polled first, else the connection does not read on. The connection wakes the task that drives it, so
        // the body need not.
        let mut quiet = Context::from_waker(Waker::noop());
        let mut frame = Pin::new(&mut this.body).poll_frame(&mut quiet);
        if frame.is_pending() {
            http1.drive(context);
            frame = Pin::new(&mut this.body).poll_frame(&mut quiet);
        }
        match frame {
            // Data and error may have come at once. The client must get the data that came before the break, which is
            // written only when the body is pending.
            Poll::Ready(Some(Err(error))) => {
                this.broken = Some(error);
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(None) => this.end(context),
            Poll::Ready(Some(_)) if this.body.is_end_stream() => this.end(context),
            _ => {}
        }
        frame
    }
}
