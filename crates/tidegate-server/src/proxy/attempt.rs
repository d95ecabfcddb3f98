//! One attempt: the request goes out, and what comes back is judged.

use std::time::Duration;

use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, Uri};
use parking_lot::Mutex;
use tidegate::wire::{Meaning, ReplyBody, judge};
use tidegate::{Attempt, Outcome};

use super::client::{Answer, Client, SendError};
use super::source::Outgoing;
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
    Unreached,
    /// It broke off before it answered.
    Broken,
    /// It did not answer in time.
    Slow(Duration),
    /// The body was sent, and there is no copy of it.
    Spent,
}

impl Failed {
    /// What the client is told where the upstream did not say anything: a status, a word and a sentence.
    pub fn told(&self) -> (StatusCode, &'static str, String) {
        match self {
            Failed::Reply(reply) => {
                (reply.status(), "upstream_error", "the upstream answered with an error".into())
            }
            Failed::Unreached => {
                (StatusCode::BAD_GATEWAY, "upstream_unreachable", "the upstream cannot be reached".into())
            }
            Failed::Broken => {
                let message = "the connection to the upstream broke off before it answered";
                (StatusCode::BAD_GATEWAY, "upstream_broken", message.into())
            }
            Failed::Slow(patience) => {
                let message = format!("the upstream did not answer within {patience:?}");
                (StatusCode::GATEWAY_TIMEOUT, "upstream_timeout", message)
            }
            Failed::Spent => {
                let message = "the body of the request was sent, and was too large to be kept";
                (StatusCode::BAD_GATEWAY, "upstream_broken", message.into())
            }
        }
    }
}

/// When a call was let go, in nanoseconds of Unix time: only for those who check that.
const GRANTED: HeaderName = HeaderName::from_static("x-tidegate-granted-ns");

/// Makes an attempt.
pub(super) async fn send(
    client: &Client,
    head: &Head,
    body: Option<Outgoing>,
    attempt: Attempt,
    meaning: &Meaning,
    times: Times,
    agreed: &Mutex<Option<Agreed>>,
) -> Result<Reply, Failed> {
    let Some(body) = body else { return Err(Failed::Spent) };
    let mut request = Request::new(body);
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = head.uri.clone();
    *request.headers_mut() = head.headers.clone();
    if let Some(ahead) = head.stamped {
        let at = attempt.granted_at().0.wrapping_add(ahead);
        request.headers_mut().insert(GRANTED, at.into());
    }
    let answered = async {
        let mut reply = client.send(request, || attempt.leaves()).await.map_err(|error| {
            tracing::debug!(error = &error as &dyn std::error::Error, "an attempt failed");
            match error {
                SendError::Unreached(_) => {
                    attempt.report(Outcome::unreached());
                    Failed::Unreached
                }
                SendError::Broken(_) => {
                    attempt.report(Outcome::failed());
                    Failed::Broken
                }
            }
        })?;
        if reply.status() == StatusCode::SWITCHING_PROTOCOLS {
            if !head.upgrades {
                attempt.report(Outcome::failed());
                return Err(Failed::Broken);
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
            attempt.report(Outcome::failed());
            Err(Failed::Slow(times.upstream_head))
        }
    }
}
