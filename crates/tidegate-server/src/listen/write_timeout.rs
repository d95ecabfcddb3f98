//! A client's socket with a timeout on writes.
//!
//! The bytes that were read to recognise the protocol are read again. If a client reads nothing of its reply for as long as
//! the timeout, the write fails, and the call releases what it holds.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep};

use super::idle::Activity;

pub(super) struct WriteTimeout<S> {
    stream: TokioIo<S>,
    first: Bytes,
    timeout: Duration,
    /// When the timeout ends. Made once a client was slow.
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether a write is waiting for the client.
    waiting: bool,
    activity: Arc<Activity>,
}

impl<S> WriteTimeout<S> {
    pub fn new(stream: S, first: Bytes, timeout: Duration, activity: Arc<Activity>) -> WriteTimeout<S> {
        WriteTimeout { stream: TokioIo::new(stream), first, timeout, timer: None, waiting: false, activity }
    }

    /// Checks a write. One that waits for too long becomes an error.
    fn checked<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = false;
            return written;
        }
        let until = Instant::now() + self.timeout;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if !self.waiting {
            self.waiting = true;
            timer.as_mut().reset(until);
        }
        match timer.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Checks a write, and notes that bytes were written.
    fn wrote(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(1..)) = written {
            self.activity.wrote();
        }
        self.checked(written, context)
    }
}

impl<S: AsyncRead + Unpin> Read for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, into);
        }
        let most = self.first.len().min(into.remaining());
        into.put_slice(&self.first[..most]);
        self.first.advance(most);
        if self.first.is_empty() {
            // An empty buffer would keep its memory as long as the connection lives.
            self.first = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Write for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.wrote(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.checked(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.checked(shut, context)
    }
}
