//! One attempt: the request goes out, and what comes back is judged.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, Uri};
use parking_lot::Mutex;
use tidegate::wire::{Meaning, ReplyBody, judge};
use tidegate::{Attempt, Outcome};

use super::client::{Answer, Client, SendError, Unreached, innermost};
use super::source::Source;
use super::timed::Timed;
use super::upgrade::Agreed;
use crate::server::Times;

/// A reply, and the permit that goes with it.
pub(super) type Reply = Response<ReplyBody<Timed<Answer>>>;

/// What is sent, the body apart.
pub(super) struct Head {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    /// Whether the connection is to become something else.
    pub upgrades: bool,
    /// What wall-clock time is ahead of the gate's, if upstreams are told when calls were let go.
    pub stamped: Option<u64>,
}

/// An attempt that did not succeed.
pub(super) enum Failed {
    /// The upstream said so.
    Reply(Box<Reply>),
    /// There was no connection to it.
    Unreached(Unreached),
    /// It says that it did not process the request.
    Unprocessed(String),
    /// It broke off before it answered.
    Broken(String),
    /// It did not answer in time.
    Slow(Duration),
    /// The body was sent, and there is no copy of it.
    Spent,
    /// The permit was given back: the call queues again.
    Late,
}

/// A request that had to wait for its connection and whose permit is older than this is not sent under it: many that waited
/// for the same connection would arrive together. Most connections within a continent take less.
const LATE: Duration = Duration::from_millis(50);
/// The same for a call that has given a permit back before. Such calls rarely wait for the same connection again, and one
/// that can never keep its connection until its turn must be sent in the end.
const LATE_AGAIN: Duration = Duration::from_secs(1);
/// How often a call gives its permit back before it counts as failed.
const MOST_LATE: u32 = 3;

impl Failed {
    /// Returns what the client is told if the upstream did not reply: a status, a code and a sentence.
    pub fn told(&self, attempts: u32, took: Duration) -> (StatusCode, &'static str, String) {
        let tries = if attempts == 1 { "attempt" } else { "attempts" };
        let tried = format!("{attempts} {tries} in {:.1} s", took.as_secs_f64());
        match self {
            Failed::Reply(reply) => {
                (reply.status(), "upstream_error", "the upstream answered with an error".into())
            }
            Failed::Unreached(why) => {
                let message = format!("the upstream cannot be reached: {why} ({tried})");
                (StatusCode::BAD_GATEWAY, "upstream_unreachable", message)
            }
            Failed::Unprocessed(why) => {
                let message = format!("the upstream did not accept the request: {why} ({tried})");
                (StatusCode::BAD_GATEWAY, "upstream_refused", message)
            }
            Failed::Broken(why) => {
                let message =
                    format!("the connection to the upstream broke off before it answered: {why} ({tried})");
                (StatusCode::BAD_GATEWAY, "upstream_broken", message)
            }
            Failed::Slow(patience) => {
                let message = format!("the upstream did not answer within {patience:?} ({tried})");
                (StatusCode::GATEWAY_TIMEOUT, "upstream_timeout", message)
            }
            Failed::Spent | Failed::Late => {
                let message = "the body of the request was sent, and was too large to be kept";
                (StatusCode::BAD_GATEWAY, "upstream_broken", message.into())
            }
        }
    }
}

/// When a call was let go, in nanoseconds of Unix time: only for those who check that.
const GRANTED: HeaderName = HeaderName::from_static("x-tidegate-granted-ns");

/// Makes an attempt. `late` counts how often the call gave its permit back.
pub(super) async fn send(
    client: &Client,
    head: &Head,
    source: &Source,
    attempt: Attempt,
    meaning: &Meaning,
    times: Times,
    (agreed, late): (&Mutex<Option<Agreed>>, &AtomicU32),
) -> Result<Reply, Failed> {
    let Some(body) = source.next() else { return Err(Failed::Spent) };
    let mut request = Request::new(body);
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = head.uri.clone();
    *request.headers_mut() = head.headers.clone();
    if let Some(ahead) = head.stamped {
        let at = attempt.granted_at().0.wrapping_add(ahead);
        request.headers_mut().insert(GRANTED, at.into());
    }
    let sent = AtomicBool::new(false);
    let leaves = |connected: bool| {
        let too_old = if late.load(Ordering::Relaxed) == 0 { LATE } else { LATE_AGAIN };
        if connected && attempt.age() >= too_old {
            return false;
        }
        attempt.leaves();
        sent.store(true, Ordering::Relaxed);
        true
    };
    let answered = async {
        let reply = client.send(request, leaves).await;
        let mut reply = reply.map_err(|error| failed(error, source, &attempt, late))?;
        if reply.status() == StatusCode::SWITCHING_PROTOCOLS {
            if !head.upgrades {
                attempt.report(Outcome::failed());
                return Err(Failed::Broken("it switched to another protocol without being asked".into()));
            }
            let upstream = hyper::upgrade::on(&mut reply);
            *agreed.lock() = Some(Agreed { upstream, permit: attempt.keep_permit() });
        }
        let reply = reply.map(|body| Timed::new(body, times.upstream));
        judge(reply, &attempt, meaning).await.map_err(|reply| Failed::Reply(Box::new(reply)))
    };
    match tokio::time::timeout(times.upstream_head, answered).await {
        Ok(result) => result,
        Err(_) => {
            // Not sent means not charged.
            let sent = sent.load(Ordering::Relaxed);
            attempt.report(if sent { Outcome::failed() } else { Outcome::unreached() });
            Err(Failed::Slow(times.upstream_head))
        }
    }
}

/// Reports an attempt that got no reply.
fn failed(error: SendError, source: &Source, attempt: &Attempt, late: &AtomicU32) -> Failed {
    tracing::debug!(error = &error as &dyn std::error::Error, "an attempt failed");
    match error {
        SendError::Unreached(why) => {
            attempt.report(Outcome::unreached());
            Failed::Unreached(why)
        }
        SendError::Late(request) if late.fetch_add(1, Ordering::Relaxed) < MOST_LATE => {
            source.put_back(request.into_body());
            attempt.give_back();
            Failed::Late
        }
        SendError::Late(_) => {
            attempt.report(Outcome::unreached());
            Failed::Unreached(Unreached::Late)
        }
        SendError::Unprocessed(error) => {
            // It was sent: a peer that refuses every stream must not be asked more often than the limits allow.
            attempt.report(Outcome::unprocessed());
            Failed::Unprocessed(error.to_string())
        }
        SendError::Broken(error) => {
            attempt.report(Outcome::failed());
            Failed::Broken(innermost(&*error))
        }
    }
}
