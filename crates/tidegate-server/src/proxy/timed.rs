//! A body that must not stall: where nothing comes for as long as the patience lasts, it ends in an error.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::body::BoxError;

pub(crate) struct Timed<B> {
    body: B,
    patience: Duration,
    /// When it ends, once the body has been slow.
    alarm: Option<Pin<Box<Sleep>>>,
    /// Whether the body is slow right now.
    waiting: bool,
}

impl<B> Timed<B> {
    pub fn new(body: B, patience: Duration) -> Timed<B> {
        Timed { body, patience, alarm: None, waiting: false }
    }
}

impl<B> Body for Timed<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.waiting = false;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let until = Instant::now() + this.patience;
        let alarm = this.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if !this.waiting {
            this.waiting = true;
            alarm.as_mut().reset(until);
        }
        match alarm.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::TimedOut).into()))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
