//! Calls made on the caller's behalf: retries, waits, and what comes back. On paused time.

mod backoff;
mod given_back;
mod kept;
mod meaning;
mod progress;
mod results;
mod simple;
mod slots;
mod threads;
mod time;

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::HeaderMap;
use tidegate::retry::{Backoff, FailureKind, Growth, Jitter};
use tidegate::{
    Call, Chance, Config, ExecuteError, Failed, Gate, GaveUp, Outcome, Progress, RateLimitConfig, Reason,
    RetryPolicy,
};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A simple gate without chance.
fn plain() -> Gate {
    Gate::simple(RateLimitConfig { jitter_factor: 0.0, ..RateLimitConfig::default() }).expect("valid")
}

fn gate(config: &str) -> Gate {
    Gate::builder().config(Config::parse(config).expect("valid")).build().expect("valid")
}

fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    let line = |(name, value): &(&'static str, &str)| {
        (http::HeaderName::from_static(name), value.parse().expect("a header's value"))
    };
    lines.iter().map(line).collect()
}

fn too_fast() -> Failed {
    Outcome::refused().because("too fast")
}

/// Unlike a refusal it opens no backoff window, so what is waited is the delays between attempts.
fn nobody_there() -> Failed {
    Outcome::unreached().because("nobody there")
}

/// What an exhausted call says of itself.
fn exhausted<E>(error: ExecuteError<E>) -> (u32, Duration, E, GaveUp) {
    match error {
        ExecuteError::Exhausted { attempts, waited, last, why, history } => {
            assert_eq!(history.len(), attempts as usize, "the whole history");
            (attempts, waited, last, why)
        }
        ExecuteError::Refused(refused) => panic!("refused: {refused}"),
        _ => panic!("passed through"),
    }
}

/// One look at a future; what it came to, if it did.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
