//! A body with a timeout: if no bytes come for as long as the timeout, it ends in an error.
//!
//! A minimum rate may be set too ([`BodyTimeout::at_least`]). Without it, a client that sends a byte a minute never times
//! out and holds a call for as long as it likes. With it, the total wait is bounded by the timeout and the time that the
//! bytes so far would have taken at that rate. Only time spent waiting for the body counts.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::body::BoxError;

pub(crate) struct BodyTimeout<B> {
    body: B,
    timeout: Duration,
    /// The timer. Made once the body was slow.
    timer: Option<Pin<Box<Sleep>>>,
    /// Since when the body is waited for.
    since: Option<Instant>,
    min_rate: Option<MinRate>,
}

/// The minimum rate, and what counts against it.
struct MinRate {
    bytes_a_second: u64,
    bytes: u64,
    waited: Duration,
}

impl MinRate {
    /// Returns how long the body may still be waited for.
    fn left(&self, timeout: Duration) -> Duration {
        let earned = Duration::from_secs_f64(self.bytes as f64 / self.bytes_a_second as f64);
        (timeout + earned).saturating_sub(self.waited)
    }
}

impl<B> BodyTimeout<B> {
    pub fn new(body: B, timeout: Duration) -> BodyTimeout<B> {
        BodyTimeout { body, timeout, timer: None, since: None, min_rate: None }
    }

    /// Sets the bytes a second that must come once the timeout is used up.
    pub fn at_least(mut self, bytes_a_second: u64) -> BodyTimeout<B> {
        self.min_rate = Some(MinRate { bytes_a_second, bytes: 0, waited: Duration::ZERO });
        self
    }

    fn received(&mut self, bytes: u64) {
        let since = self.since.take();
        if let Some(min_rate) = &mut self.min_rate {
            min_rate.bytes = min_rate.bytes.saturating_add(bytes);
            min_rate.waited += since.map_or(Duration::ZERO, |since| since.elapsed());
        }
    }
}

impl<B> Body for BodyTimeout<B>
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
            let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
            this.received(data.map_or(0, |data| data.len() as u64));
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        if this.since.is_none() {
            let now = Instant::now();
            let left = this.min_rate.as_ref().map_or(this.timeout, |min_rate| min_rate.left(this.timeout));
            let until = now + left.min(this.timeout);
            this.since = Some(now);
            match &mut this.timer {
                Some(timer) => timer.as_mut().reset(until),
                None => this.timer = Some(Box::pin(tokio::time::sleep_until(until))),
            }
        }
        let timer = this.timer.as_mut().map(|timer| timer.as_mut().poll(context));
        match timer {
            Some(Poll::Ready(())) => Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::TimedOut).into()))),
            _ => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::sync::mpsc;

    use super::*;

    struct Dribble(mpsc::Receiver<Bytes>);

    impl Body for Dribble {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
            self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
        }
    }

    /// Returns how long a body lasts that sends `bytes` after each pause, and how many bytes came.
    async fn lasts(pause: Duration, bytes: usize, min_rate: Option<u64>) -> (Duration, usize) {
        let (tell, told) = mpsc::channel(1);
        tokio::spawn(async move {
            for _ in 0..50 {
                tokio::time::sleep(pause).await;
                if tell.send(vec![0; bytes].into()).await.is_err() {
                    return;
                }
            }
        });
        let timed = BodyTimeout::new(Dribble(told), Duration::from_secs(60));
        let mut timed = match min_rate {
            Some(min_rate) => timed.at_least(min_rate),
            None => timed,
        };
        let (start, mut came) = (Instant::now(), 0);
        while let Some(Ok(frame)) = timed.frame().await {
            came += frame.data_ref().map_or(0, Bytes::len);
        }
        (start.elapsed(), came)
    }

    #[tokio::test(start_paused = true)]
    async fn a_byte_a_minute_is_no_progress_where_a_pace_is_asked_for() {
        let (time, bytes) = lasts(Duration::from_secs(59), 1, Some(1024)).await;
        assert!(time < Duration::from_secs(61) && bytes == 1, "{time:?} {bytes}");
        let (time, bytes) = lasts(Duration::from_secs(59), 1, None).await;
        assert!(time > Duration::from_secs(2_900) && bytes == 50, "{time:?} {bytes}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_line_and_one_long_pause_are_no_reason_to_end() {
        let (time, bytes) = lasts(Duration::from_secs(20), 20 << 10, Some(1024)).await;
        assert!(time >= Duration::from_secs(1_000) && bytes == 50 * (20 << 10), "{time:?} {bytes}");
        let (_, bytes) = lasts(Duration::from_millis(100), 1, Some(1024)).await;
        assert_eq!(bytes, 50, "short bodies have all of the timeout");
        let (time, bytes) = lasts(Duration::from_secs(70), 1 << 20, Some(1024)).await;
        assert!(time < Duration::from_secs(61) && bytes == 0, "silence is as long as ever");
    }
}
