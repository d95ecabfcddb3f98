//! Why an upstream could not be connected to, and how often the log says so.

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::{info, warn};

use crate::descriptors::is_exhausted;

/// Why there is no connection. Nothing of the request was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("the name `{host}` could not be resolved ({why})")]
    Name { host: String, why: String },
    #[error("{at} refused the connection")]
    Refused { at: String },
    #[error("no file was free for a connection to {at} ({why})")]
    NoFile { at: String, why: String },
    #[error("no connection to {at} ({why})")]
    Tcp { at: String, why: String },
    #[error("the proxy {proxy} did not connect to {to} ({why})")]
    Proxy { proxy: String, to: String, why: String },
    #[error("the TLS handshake with {at} failed ({why})")]
    Tls { at: String, why: String },
    #[error("the HTTP/2 connection to {at} could not be used ({why})")]
    Http2 { at: String, why: String },
    #[error("{at} closed the connection before the request was sent ({why})")]
    Closed { at: String, why: String },
    #[error("not connected within {within:?}; the time ran out in {stage}")]
    Timeout { within: Duration, stage: &'static str },
    #[error("the request could not be sent soon enough after its turn had come, several times in a row")]
    Late,
}

impl ConnectError {
    /// Describes a TCP connection to `at` that failed.
    pub fn tcp(at: &str, error: &(dyn Error + 'static)) -> ConnectError {
        let at = at.to_owned();
        match io_error(error) {
            Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => ConnectError::Refused { at },
            Some(error) if is_exhausted(error) => ConnectError::NoFile { at, why: innermost(error) },
            _ => ConnectError::Tcp { at, why: innermost(error) },
        }
    }

    /// Describes a name look-up that failed.
    pub fn name(host: &str, error: &io::Error) -> ConnectError {
        let (host, why) = (host.to_owned(), innermost(error));
        if is_exhausted(error) {
            ConnectError::NoFile { at: host, why }
        } else {
            ConnectError::Name { host, why }
        }
    }

    /// Describes a TLS handshake with `at` that failed.
    pub fn tls(at: &str, error: &io::Error) -> ConnectError {
        ConnectError::Tls { at: at.to_owned(), why: innermost(error) }
    }
}

fn io_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e io::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error);
        }
        next = error.source();
    }
    None
}

/// Returns the text of the first cause. The errors around it repeat it or say less.
pub(crate) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// Whether connections to one upstream fail. The log has one line at once, and then one for each [`EVERY`].
#[derive(Debug, Default)]
pub(super) struct Reachability {
    failing: Mutex<Option<Failing>>,
    /// Whether there was ever a connection.
    reached: AtomicBool,
}

#[derive(Debug)]
struct Failing {
    since: Instant,
    logged: Instant,
    /// Failures that were not logged.
    unlogged: u64,
    /// When a call was last said to be given up.
    gave_up: Option<Instant>,
}

const EVERY: Duration = Duration::from_secs(30);

impl Reachability {
    /// Notes that a connection to `upstream` failed.
    pub fn failed(&self, upstream: &str, why: &ConnectError) {
        let now = Instant::now();
        let mut failing = self.failing.lock();
        match &mut *failing {
            Some(failing) if now.duration_since(failing.logged) < EVERY => failing.unlogged += 1,
            Some(failing) => {
                warn!(upstream, %why, failures = failing.unlogged + 1, for_s = now.duration_since(failing.since).as_secs(),
                    "an upstream still cannot be reached");
                failing.logged = now;
                failing.unlogged = 0;
            }
            None => {
                warn!(upstream, %why, "an upstream cannot be reached");
                *failing = Some(Failing { since: now, logged: now, unlogged: 0, gave_up: None });
            }
        }
    }

    /// Notes that a call to `upstream` was given up.
    pub fn gave_up(&self, upstream: &str, attempts: u32, took: Duration, why: &ConnectError) {
        let now = Instant::now();
        let mut failing = self.failing.lock();
        let Some(failing) = &mut *failing else { return };
        if failing.gave_up.is_none_or(|last| now.duration_since(last) >= EVERY) {
            failing.gave_up = Some(now);
            warn!(upstream, attempts, took_ms = took.as_millis() as u64, %why, "a call is given up");
        }
    }

    /// Notes that a connection to `upstream` was made.
    pub fn reached(&self, upstream: &str) {
        self.reached.store(true, Ordering::Relaxed);
        if let Some(failing) = self.failing.lock().take() {
            info!(upstream, after_s = failing.since.elapsed().as_secs(), "an upstream can be reached again");
        }
    }

    /// Whether there was ever a connection.
    pub fn was_reached(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_is_named_and_not_its_wrappers() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let said = ConnectError::tcp("a.example:443", &refused).to_string();
        assert_eq!(said, "a.example:443 refused the connection");
        let inner = io::Error::other("unknown issuer");
        let outer = io::Error::new(io::ErrorKind::InvalidData, inner);
        let said = ConnectError::tls("a.example:443", &outer).to_string();
        assert_eq!(said, "the TLS handshake with a.example:443 failed (unknown issuer)");
    }
}
