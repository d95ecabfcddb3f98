//! A body of server-sent events, spread evenly over the time that an answer takes.
//!
//! No task runs for it: whoever reads the body drives it, and a client that goes away drops it, and with it
//! what the request held.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use tokio::time::{Instant, Sleep, sleep_until};

use super::state::Running;

#[derive(Debug)]
pub(super) struct Events {
    events: VecDeque<String>,
    between: Duration,
    /// When the next one is due.
    due: Pin<Box<Sleep>>,
    running: Option<Running>,
}

impl Events {
    pub fn new(events: Vec<String>, takes: Duration, running: Running) -> Events {
        let between = takes / u32::try_from(events.len().max(1)).unwrap_or(u32::MAX);
        Events {
            events: events.into(),
            between,
            due: Box::pin(sleep_until(Instant::now() + between)),
            running: Some(running),
        }
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.events.is_empty() {
            if let Some(running) = self.running.take() {
                running.finish();
            }
            return Poll::Ready(None);
        }
        ready!(self.due.as_mut().poll(context));
        // From when it was due, so that lateness does not add up.
        let next = self.due.deadline() + self.between;
        self.due.as_mut().reset(next);
        Poll::Ready(self.events.pop_front().map(|event| Ok(Frame::data(Bytes::from(event)))))
    }
}

/// An event without a name, as OpenAI's chat sends them.
pub(super) fn unnamed(data: &serde_json::Value) -> String {
    format!("data: {data}\n\n")
}

/// An event that is named by its type.
pub(super) fn named(data: &serde_json::Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}

/// The text of an answer, in the pieces in which it is streamed: four characters a token.
pub(super) fn pieces(tokens: u64) -> Vec<String> {
    const MOST_PIECES: u64 = 32;
    const MOST_TOKENS: u64 = 16_384;
    // The usage tells how long a longer one would have been.
    let tokens = tokens.min(MOST_TOKENS);
    let count = tokens.min(MOST_PIECES);
    let size = |piece: u64| tokens * (piece + 1) / count - tokens * piece / count;
    (0..count).map(|piece| "sea ".repeat(size(piece) as usize)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_up_the_whole_text() {
        for tokens in [0, 1, 31, 32, 33, 1000] {
            assert_eq!(pieces(tokens).concat().len() as u64, 4 * tokens);
        }
        assert_eq!(pieces(u64::MAX).concat().len(), 65_536);
    }
}
