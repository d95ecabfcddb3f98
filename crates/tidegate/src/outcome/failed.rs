//! What an error means that nobody has explained.
//!
//! The caller's error may be of any type, and most types say nothing here: such an error is passed on as it is,
//! since trying again what is not understood can do harm. Errors of the network are understood, with the feature
//! `reqwest` those of its client, and so is [`Failed`], alone or as the cause of a boxed error.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};

use super::Outcome;

/// An error that says how its attempt ended, for those who have no error type of their own.
///
/// ```
/// use http::{HeaderMap, StatusCode};
/// use tidegate::{Failed, Outcome};
///
/// fn check(status: StatusCode, headers: &HeaderMap) -> Result<(), Failed> {
///     if status.is_success() { Ok(()) } else { Err(Outcome::reply(status, headers).because("no luck")) }
/// }
/// let error = check(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new()).unwrap_err();
/// assert_eq!(error.to_string(), "no luck");
/// ```
#[derive(Debug)]
// Boxed, since it travels in every result of its attempt, and most of them are no errors.
pub struct Failed(Box<Inner>);

#[derive(Debug)]
struct Inner {
    outcome: Outcome,
    cause: Box<dyn Error + Send + Sync>,
}

impl Failed {
    /// How the attempt ended.
    #[must_use]
    pub fn outcome(&self) -> &Outcome {
        &self.0.outcome
    }
}

impl Outcome {
    /// The outcome as an error, with its cause: an error or a text.
    #[must_use]
    pub fn because(self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Failed {
        Failed(Box::new(Inner { outcome: self, cause: cause.into() }))
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.cause.fmt(f)
    }
}

impl Error for Failed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.cause.source()
    }
}

/// How an attempt ended that came to this error, if errors of its type are known here.
pub(crate) fn outcome_of<E: 'static>(error: &E) -> Option<Outcome> {
    let error: &dyn Any = error;
    let error: &(dyn Error + 'static) = if let Some(failed) = error.downcast_ref::<Failed>() {
        failed
    } else if let Some(io) = error.downcast_ref::<io::Error>() {
        io
    } else if let Some(of_client) = of_client(error) {
        of_client
    } else if let Some(boxed) = error.downcast_ref::<Box<dyn Error + Send + Sync>>() {
        &**boxed
    } else if let Some(boxed) = error.downcast_ref::<Box<dyn Error>>() {
        &**boxed
    } else {
        return None;
    };
    std::iter::successors(Some(error), |&error| error.source()).find_map(of_one)
}

/// An error of an HTTP client that is known here.
#[cfg(feature = "reqwest")]
fn of_client(error: &dyn Any) -> Option<&(dyn Error + 'static)> {
    error.downcast_ref::<::reqwest::Error>().map(|error| error as &(dyn Error + 'static))
}

#[cfg(not(feature = "reqwest"))]
fn of_client(_: &dyn Any) -> Option<&(dyn Error + 'static)> {
    None
}

fn of_one(error: &(dyn Error + 'static)) -> Option<Outcome> {
    #[cfg(feature = "reqwest")]
    if let Some(error) = error.downcast_ref::<::reqwest::Error>() {
        return of_reqwest(error);
    }
    match error.downcast_ref::<Failed>() {
        Some(failed) => Some(failed.0.outcome.clone()),
        None => of_io(error.downcast_ref::<io::Error>()?),
    }
}

/// Returns what an error of `reqwest` means. An error that was made from a reply knows its status.
#[cfg(feature = "reqwest")]
pub(crate) fn of_reqwest(error: &::reqwest::Error) -> Option<Outcome> {
    match error.status() {
        Some(status) => Some(Outcome::reply(status, &http::HeaderMap::new())),
        None if error.is_connect() => Some(Outcome::unreached()),
        None if error.is_builder() || error.is_redirect() || error.is_decode() => None,
        None => Some(Outcome::failed()),
    }
}

fn of_io(error: &io::Error) -> Option<Outcome> {
    match error.kind() {
        ErrorKind::ConnectionRefused
        | ErrorKind::HostUnreachable
        | ErrorKind::NetworkUnreachable
        | ErrorKind::NetworkDown
        | ErrorKind::AddrNotAvailable => Some(Outcome::unreached()),
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::NotConnected
        | ErrorKind::BrokenPipe
        | ErrorKind::TimedOut
        | ErrorKind::UnexpectedEof => Some(Outcome::failed()),
        _ => None,
    }
}
