//! The way of one call through the sidecar.
//!
//! ```text
//!  request ─► its service, its address ─► its body, as far as it can be kept ─► which call it is
//!          ─► the gate: wait, send, judge, send again ─► the reply as it comes, and the permit with it
//! ```
//!
//! Nothing of a reply goes to the client before it is known that there will be no other attempt; from its first byte
//! on it goes as it comes. A client that goes away drops this future or the reply's body: either ends the call at the
//! upstream and gives back what it holds.

mod attempt;
mod client;
mod headers;
mod hints;
mod location;
mod path;
mod reply;
mod source;
mod timed;
mod upgrade;
mod upstream;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderName, HeaderValue, UPGRADE};
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tidegate::wire::{Meaning, Shown};
use tidegate::{Attempt, Call, ExecuteError, GaveUp};
use tidegate_core::request::stream_usage::asking;
use tidegate_core::request::{Why, normal_path};
use tracing::{Instrument, debug};

use crate::app::{App, Counted};
use crate::auth::Caller;
use crate::body::Body;
use crate::events::Event;
use crate::refusal::millis;
use crate::route::Who;
use crate::shape::Shape;
use crate::span;
use attempt::{Failed, Head, Reply, Unsent, send};
use source::{Source, Unread};
use upgrade::Wish;
use upstream::Nowhere;

pub use client::ProxyError;
pub(crate) use client::{Client, check_proxies};
pub(crate) use reply::Proxied;
pub use upstream::UpstreamError;
pub(crate) use upstream::{Service, Services};

const WAITED: HeaderName = HeaderName::from_static("x-tidegate-waited-ms");
const ATTEMPTS: HeaderName = HeaderName::from_static("x-tidegate-attempts");
const LIMIT: HeaderName = HeaderName::from_static("x-tidegate-limit");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A call that is ready for the gate.
pub(crate) struct Prepared {
    call: Call,
    head: Head,
    source: Source,
    /// The caller did not ask what the stream costs; we do.
    hide_usage: bool,
    /// Goes with the reply.
    counted: Option<Counted>,
    /// What the connection is to become, if that is wanted; boxed, since few calls want it.
    wish: Option<Box<Wish>>,
}

/// What a call took so far.
#[derive(Clone, Default)]
struct Took {
    attempts: u32,
    waited: Duration,
    held_by: Option<Arc<str>>,
}

/// Why a request is not forwarded: a status, a word and a sentence.
type Wrong = (StatusCode, &'static str, String);

impl Service {
    /// Reads a request as far as the gate has to know it.
    pub async fn prepare(
        &self,
        app: &Arc<App>,
        caller: &Caller,
        who: &Who<'_>,
        name: &str,
        path: &str,
        mut request: Request<Incoming>,
    ) -> Result<Prepared, Wrong> {
        let wrong = |code, message: &str| (StatusCode::BAD_REQUEST, code, message.to_owned());
        let wish = Wish::of(&mut request);
        let (mut parts, body) = request.into_parts();
        let uri = self.uri(path, parts.uri.query()).map_err(|nowhere| match nowhere {
            Nowhere::NoUpstream => (
                StatusCode::NOT_FOUND,
                "no_upstream",
                format!("the service `{name}` has no upstream to forward to"),
            ),
            Nowhere::Outside => wrong("bad_path", "the path leads out of the service"),
        })?;
        let stated =
            hints::stated(name, who, &parts.headers).map_err(|message| wrong("bad_hint", &message))?;
        caller
            .may_call(&stated, &app.in_force().config)
            .map_err(|(status, code, message)| (status, code, message.to_owned()))?;
        let counted = app.count_call();
        let memory = app.memory.share(app.memory.owners(caller.bearer(stated.stated_loop()).levels()));
        let source = Source::read(body, memory, app.times.client).await;
        let mut source = source.map_err(|unread| match unread {
            Unread::Slow => (
                StatusCode::REQUEST_TIMEOUT,
                "slow_body",
                "the body of the request did not come in time".into(),
            ),
            Unread::Broken => wrong("broken_body", "the body of the request broke off"),
        })?;

        let headers = &mut parts.headers;
        let states_no_body = headers.get(CONTENT_LENGTH).is_some_and(|length| length == "0");
        headers::to_upstream(headers);
        if source.whole().is_some_and(Bytes::is_empty)
            && (states_no_body || headers::wants_length(&parts.method))
        {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        if let Some(wish) = &wish {
            wish.put(headers);
        }
        self.put_key(headers);
        let asked = source.asked(headers);
        let shown = Shown {
            method: parts.method.as_str(),
            path,
            headers,
            bytes: Some(source.length()),
            asked: asked.as_ref(),
        };
        if let Some(why) = shown.refused(&stated, &app.gate) {
            return Err(unaccountable(why));
        }
        let call = shown.call(stated, &app.gate);
        let mut hide_usage = false;
        if call.stated_model().is_some() {
            headers::ask_for_plain(headers);
            if asked.is_some_and(|asked| asked.stream && asked.unread.is_none())
                && self.can_be_asked_for_usage(&normal_path(path))
                && !headers::is_signed(headers)
                && let Some(asking) = source.whole().and_then(|body| asking(body))
            {
                source = source.rewritten(asking);
                hide_usage = true;
            }
        }
        if app.gate.waiting() > 0 {
            headers::detach(&mut parts.headers);
        }
        let head = Head {
            method: parts.method,
            uri,
            headers: parts.headers,
            upgrades: wish.is_some(),
            stamped: app.stamped,
        };
        let wish = wish.map(Box::new);
        Ok(Prepared { call, head, source, hide_usage, counted: Some(counted), wish })
    }
}

/// Says why a call is not made whose body cannot be accounted for.
fn unaccountable(why: Why) -> Wrong {
    let status = match why {
        Why::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Why::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
        Why::Compressed | Why::NotJson | Why::Streamed => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Why::ManyModels => StatusCode::BAD_REQUEST,
    };
    let code = if why == Why::ManyModels { "bad_request" } else { "unread_body" };
    (status, code, format!("the body of the request {}, so the call cannot be accounted for", why.words()))
}

impl Prepared {
    /// Makes the call.
    ///
    /// `prefix` is what the client wrote before the path at the service.
    pub async fn go(&mut self, app: &App, service: &Service, prefix: &str) -> Response<Body> {
        let shape = service.shape();
        let Prepared { call, head, source, hide_usage, counted, wish } = self;
        let (call, head, source) = (&*call, &*head, &*source);
        let (took, agreed, unsent) = (Mutex::new(Took::default()), Mutex::new(None), Unsent::default());
        let begun = Instant::now();
        let client = if head.upgrades { &app.upgrades } else { &app.client };
        let meaning = Meaning::of(&app.gate, call).within(&app.memory, source.owners());
        let repeatable = head.headers.contains_key(&IDEMPOTENCY_KEY);
        let execute = app.gate.execute(call, |attempt: Attempt| {
            *took.lock() = Took {
                attempts: attempt.number(),
                waited: attempt.waited(),
                held_by: attempt.held_by().cloned(),
            };
            send(client, head, source, attempt, &meaning, app.times, (&agreed, &unsent))
        });
        // In one place: whoever waits in the queue is as large as what stands here.
        let mut execute = execute.name_limits(true);
        if repeatable {
            execute = execute.repeatable(true);
        }
        let span = span::of(call, app);
        let mut response = match (&mut execute).instrument(span.clone()).await {
            Ok(reply) => match (wish.take(), agreed.lock().take()) {
                (Some(wish), Some(agreed)) => {
                    wish.come_true(agreed, app, counted.take());
                    switched(reply)
                }
                _ => pass_on(reply, *hide_usage, counted.take()),
            },
            Err(ExecuteError::Refused(refused)) => {
                app.events.tell(|| Event::refused(call.service(), &refused));
                shape.refused(&refused)
            }
            Err(ExecuteError::Failed(failed)) => {
                // An upstream's reply is for the SDK to judge. Without one, the call may have been done.
                let is_last = !matches!(failed, Failed::Reply(_));
                let attempts = took.lock().attempts;
                told(failed, shape, counted.take(), (attempts, begun.elapsed()), is_last)
            }
            Err(ExecuteError::Exhausted { last, waited, attempts, why, .. }) => {
                took.lock().waited = waited;
                if let Failed::Unreached(why) = &last {
                    client.gave_up(&head.uri, attempts, begun.elapsed(), why);
                }
                let is_last = match why {
                    GaveUp::InputGone => false,
                    _ if attempts > 1 => true,
                    // It was never retried here, for lack of time or since the upstream's reply is the SDK's to judge.
                    GaveUp::TimeSpent => false,
                    _ => !matches!(last, Failed::Reply(_)),
                };
                told(last, shape, counted.take(), (attempts, begun.elapsed()), is_last)
            }
            Err(_) => {
                let message = "the call could not be made";
                shape.error(StatusCode::BAD_GATEWAY, "upstream_broken", message)
            }
        };
        service.lead_back(response.headers_mut(), prefix);
        let took = took.into_inner();
        span::ended(&span, took.waited, took.attempts, response.status());
        span.in_scope(|| debug!(method = %head.method, "the call is over"));
        took.tell(response.headers_mut());
        response
    }
}

impl Took {
    fn tell(&self, headers: &mut HeaderMap) {
        headers.insert(WAITED, number(millis(self.waited)));
        headers.insert(ATTEMPTS, number(self.attempts.into()));
        if let Some(limit) =
            self.held_by.as_ref().and_then(|limit| HeaderValue::from_bytes(limit.as_bytes()).ok())
        {
            headers.insert(LIMIT, limit);
        }
    }
}

/// Most calls go at once, and once.
fn number(number: u64) -> HeaderValue {
    match number {
        0 => HeaderValue::from_static("0"),
        1 => HeaderValue::from_static("1"),
        _ => number.into(),
    }
}

/// Answers a call that failed. What the upstream said last is worth more than words of ours. If the answer `is_last`, what
/// was worth trying again was tried, and an SDK that goes on would only multiply it.
fn told(
    failed: Failed,
    shape: Shape,
    counted: Option<Counted>,
    (attempts, took): (u32, Duration),
    is_last: bool,
) -> Response<Body> {
    let mut response = match failed {
        Failed::Reply(reply) => pass_on(*reply, false, counted),
        failed => {
            let (status, code, message) = failed.told(attempts, took);
            let mut response = shape.error(status, code, &message);
            response.headers_mut().remove(&SHOULD_RETRY);
            response
        }
    };
    if is_last {
        response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    response
}

fn pass_on(reply: Reply, hide_usage: bool, counted: Option<Counted>) -> Response<Body> {
    let (mut parts, body) = reply.into_parts();
    headers::to_client(&mut parts.headers);
    // Events that are compressed cannot be taken out: the caller sees one more than it asked for.
    let hide_usage = hide_usage && !parts.headers.contains_key(CONTENT_ENCODING);
    if hide_usage {
        parts.headers.remove(CONTENT_LENGTH);
    }
    // hyper speaks for this side of us.
    parts.version = http::Version::HTTP_11;
    Response::from_parts(parts, Body::Proxied(Box::new(Proxied::new(body, hide_usage, counted))))
}

/// The upstream's agreement, which is its neighbour's word and so not passed on by itself.
fn switched(reply: Reply) -> Response<Body> {
    let protocol = reply.headers().get(UPGRADE).cloned();
    let mut response = pass_on(reply, false, None);
    if let Some(protocol) = protocol {
        upgrade::put(response.headers_mut(), protocol);
    }
    response
}
