//! A body that must not stall: where nothing comes for as long as the patience lasts, it ends in an error.
//!
//! A pace may be asked for besides ([`BodyTimeout::at_least`]): a client that sends a byte a minute is never silent, and holds a
//! call for as long as it likes. Then all waiting together is bounded by the patience and by the time that the bytes so
//! far would have taken at that pace. Only time in which the body is waited for counts.

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
    patience: Duration,
    /// When it ends, once the body has been slow.
    alarm: Option<Pin<Box<Sleep>>>,
    /// Since when the body is slow, if it is so right now.
    since: Option<Instant>,
    pace: Option<Pace>,
}

/// The least that is to come.
struct Pace {
    bytes_a_second: u64,
    bytes: u64,
    waited: Duration,
}

impl Pace {
    /// How long it may still be waited for.
    fn left(&self, patience: Duration) -> Duration {
        let earned = Duration::from_secs_f64(self.bytes as f64 / self.bytes_a_second as f64);
        (patience + earned).saturating_sub(self.waited)
    }
}

impl<B> BodyTimeout<B> {
    pub fn new(body: B, patience: Duration) -> BodyTimeout<B> {
        BodyTimeout { body, patience, alarm: None, since: None, pace: None }
    }

    /// Asks for so many bytes a second, once the patience is used up.
    pub fn at_least(mut self, bytes_a_second: u64) -> BodyTimeout<B> {
        self.pace = Some(Pace { bytes_a_second, bytes: 0, waited: Duration::ZERO });
        self
    }

    fn came(&mut self, bytes: u64) {
        let since = self.since.take();
        if let Some(pace) = &mut self.pace {
            pace.bytes = pace.bytes.saturating_add(bytes);
            pace.waited += since.map_or(Duration::ZERO, |since| since.elapsed());
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
            this.came(data.map_or(0, |data| data.len() as u64));
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        if this.since.is_none() {
            let now = Instant::now();
            let left = this.pace.as_ref().map_or(this.patience, |pace| pace.left(this.patience));
            let until = now + left.min(this.patience);
            this.since = Some(now);
            match &mut this.alarm {
                Some(alarm) => alarm.as_mut().reset(until),
                None => this.alarm = Some(Box::pin(tokio::time::sleep_until(until))),
            }
        }
        let alarm = this.alarm.as_mut().map(|alarm| alarm.as_mut().poll(context));
        match alarm {
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

    /// How long a body lasts of which so many bytes come after each pause, and how many came.
    async fn lasts(pause: Duration, bytes: usize, pace: Option<u64>) -> (Duration, usize) {
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
        let mut timed = match pace {
            Some(pace) => timed.at_least(pace),
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
        assert_eq!(bytes, 50, "short bodies have all of the patience");
        let (time, bytes) = lasts(Duration::from_secs(70), 1 << 20, Some(1024)).await;
        assert!(time < Duration::from_secs(61) && bytes == 0, "silence is as long as ever");
    }
}
