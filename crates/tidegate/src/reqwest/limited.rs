//! The middleware: a permit for each attempt, and another attempt where that helps.

use std::time::Duration;

use ::reqwest::{Request, Response};
use async_trait::async_trait;
use http::Extensions;
use http::header::CONTENT_LENGTH;
use http_body::Body;
use reqwest_middleware::{Error, Middleware, Next};
use tidegate_core::Call;
use tidegate_core::request::Why;
use tidegate_core::retry::RetryPolicy;
use tokio::sync::Mutex;

use super::reply::{from_http, to_http};
use crate::execute::{Attempt, ExecuteError};
use crate::gate::Gate;
use crate::outcome::{Outcome, of_reqwest};
use crate::wire::{Content, Meaning, Shown, judge};

/// Lets the requests of a client go when their limits allow, and makes those again that failed; see the
/// [module](super).
#[derive(Clone, Debug)]
pub struct Limited {
    gate: Gate,
    call: Call,
    repeatable: bool,
}

/// What it took to get a reply; in the reply's extensions.
///
/// ```
/// # fn seen(reply: &reqwest::Response) {
/// use tidegate::reqwest::Attempts;
///
/// if let Some(Attempts { count, waited, .. }) = reply.extensions().get() {
///     eprintln!("sent {count} times, after {waited:.1?} of waiting");
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempts {
    /// How often the request was sent.
    pub count: u32,
    /// How long it waited in all, for permits and between attempts.
    pub waited: Duration,
}

impl Limited {
    /// Requests are this call unless they carry one of their own in their extensions.
    #[must_use]
    pub fn new(gate: Gate, call: Call) -> Limited {
        Limited { gate, call, repeatable: false }
    }

    /// Every request may be sent again though it may have been done already.
    #[must_use]
    pub fn repeatable(mut self) -> Limited {
        self.repeatable = true;
        self
    }
}

#[async_trait]
impl Middleware for Limited {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response, Error> {
        let stated = extensions.get::<Call>().unwrap_or(&self.call);
        let call = call_of(&request, stated, &self.gate).map_err(Error::middleware)?;
        // What its method or the preset says is known to the gate.
        let repeatable = self.repeatable || request.headers().contains_key("idempotency-key");
        let meaning = Meaning::of(&self.gate, &call);
        let source = Source::new(request);
        let only_once = source.is_single();
        let extensions = Mutex::new(extensions);

        let (source, extensions, next, meaning) = (&source, &extensions, &next, &meaning);
        let sent = self.gate.execute(call, |attempt| async move {
            let request = source.copy().ok_or(Failed::Spent)?;
            let reply = next.clone().run(request, *extensions.lock().await).await;
            judge_reply(reply, &attempt, meaning).await
        });
        let sent = if repeatable { sent.repeatable(true) } else { sent };
        let sent = if only_once { sent.retry(no_retries()) } else { sent };
        match sent.await {
            Ok(reply) => Ok(reply),
            Err(ExecuteError::Refused(refused)) => Err(Error::middleware(refused)),
            Err(ExecuteError::Failed(failed) | ExecuteError::Exhausted { last: failed, .. }) => failed.told(),
        }
    }
}

/// A request that is sent as often as it takes: a copy of it, or itself where it cannot be copied.
struct Source(parking_lot::Mutex<Option<Request>>);

impl Source {
    fn new(request: Request) -> Source {
        Source(parking_lot::Mutex::new(Some(request)))
    }

    fn is_single(&self) -> bool {
        self.0.lock().as_ref().is_none_or(|request| request.try_clone().is_none())
    }

    fn copy(&self) -> Option<Request> {
        let mut held = self.0.lock();
        held.as_ref()?.try_clone().or_else(|| held.take())
    }
}

/// An attempt that did not succeed.
enum Failed {
    Reply(Response),
    Error(Error),
    /// The request was sent, and there is no copy of it.
    Spent,
}

impl Failed {
    /// What the caller is told in the end: what the upstream said last.
    fn told(self) -> Result<Response, Error> {
        match self {
            Failed::Reply(reply) => Ok(reply),
            Failed::Error(error) => Err(error),
            Failed::Spent => Err(Error::middleware(SentOnce)),
        }
    }
}

/// The body of the request was a stream, and is gone.
#[derive(Debug, thiserror::Error)]
#[error("the request cannot be sent again: its body was a stream")]
struct SentOnce;

/// What an attempt came to. A reply that is no error keeps the permit until its body has ended.
async fn judge_reply(
    reply: Result<Response, Error>,
    attempt: &Attempt,
    meaning: &Meaning,
) -> Result<Response, Failed> {
    let mut reply = match reply {
        Ok(reply) => reply,
        Err(error) => {
            if let Some(outcome) = of_error(&error) {
                attempt.report(outcome);
            }
            return Err(Failed::Error(error));
        }
    };
    reply.extensions_mut().insert(Attempts { count: attempt.number(), waited: attempt.waited() });
    match judge(to_http(reply), attempt, meaning).await {
        Ok(reply) => Ok(from_http(reply)),
        Err(reply) => Err(Failed::Reply(from_http(reply))),
    }
}

/// The body of the request cannot be accounted for, and the config refuses such calls.
#[derive(Debug, thiserror::Error)]
#[error("the body of the request {}", .0.words())]
struct Unaccountable(Why);

/// A stream of unknown length counts as one of so many bytes: the shortest body that the sidecar passes on unread.
const STREAM: u64 = 64 << 10;

/// Returns the call that a request is. A body that is streamed shows nothing but its length, if that is known, so the
/// service's `unread` applies to it.
fn call_of(request: &Request, stated: &Call, gate: &Gate) -> Result<Call, Unaccountable> {
    let announced = || request.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
    let length = request.body().and_then(|body| body.size_hint().exact().or_else(announced));
    let content = request.body().map(|body| match body.as_bytes() {
        Some(bytes) => Content::Whole(bytes),
        None => {
            let length = Some(length.unwrap_or(STREAM));
            Content::Beginning { bytes: &[], length, why: Why::Streamed }
        }
    });
    let asked = content.and_then(|content| content.asked(request.headers()));
    let shown = Shown {
        method: request.method().as_str(),
        path: request.url().path(),
        headers: request.headers(),
        bytes: length,
        asked: asked.as_ref(),
    };
    match shown.refused(stated, gate) {
        Some(why) => Err(Unaccountable(why)),
        None => Ok(shown.call(stated.clone(), gate)),
    }
}

/// What an error means. One of another middleware says nothing.
fn of_error(error: &Error) -> Option<Outcome> {
    match error {
        Error::Reqwest(error) => of_reqwest(error),
        Error::Middleware(_) => None,
    }
}

fn no_retries() -> RetryPolicy {
    RetryPolicy::builder().max_retries(0).build().unwrap_or_default()
}
