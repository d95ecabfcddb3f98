//! Forwards a call through the sidecar.
//!
//! ```text
//!  request ─► its service, its address ─► its body, as far as it can be kept ─► which call it is
//!          ─► the gate: wait, send, read the outcome, retry ─► the reply as it comes, and the permit with it
//! ```
//!
//! No byte of a reply goes to the client while another attempt is possible. From its first byte on the reply is streamed.
//! If the client disconnects, this future or the reply's body is dropped. Either ends the call at the upstream and releases
//! what it holds.

mod attempt;
mod body_timeout;
mod client;
mod headers;
mod hints;
mod rejected;
mod reply_body;
mod request_body;
mod upgrade;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderName, HeaderValue, UPGRADE};
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tidegate::wire::{Meaning, Shown};
use tidegate::{Attempt, Call, ExecuteError, GaveUp};
use tidegate_core::request::normal_path;
use tidegate_core::request::stream_usage::asking;
use tracing::{Instrument, debug};

use crate::auth::Caller;
use crate::body::Body;
use crate::descriptors::Descriptors;
use crate::error_format::ErrorFormat;
use crate::events::Event;
use crate::lifecycle::Counted;
use crate::refusal::millis;
use crate::route::UrlHints;
use crate::services::Service;
use crate::shared::Shared;
use crate::span;
use attempt::{Failed, Head, Reply, UnsentAttempts, send};
use client::Client;
use rejected::Rejected;
use reply_body::ProxiedBody;
use request_body::RequestBody;
use upgrade::UpgradeRequest;

const WAITED: HeaderName = HeaderName::from_static("x-tidegate-waited-ms");
const ATTEMPTS: HeaderName = HeaderName::from_static("x-tidegate-attempts");
const LIMIT: HeaderName = HeaderName::from_static("x-tidegate-limit");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Forwards calls to the upstreams of services.
#[derive(Debug)]
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    client: Arc<Client>,
    /// For calls that ask to upgrade their connection.
    upgrade_client: Arc<Client>,
    /// How far wall-clock time is ahead of the gate's, if upstreams are told when each call was granted.
    clock_offset: Option<u64>,
}

/// A call that is ready for the gate.
pub(crate) struct Prepared {
    call: Call,
    head: Head,
    request_body: RequestBody,
    /// Whether to remove the usage from the stream: the sidecar asked for it, and the caller did not.
    hide_usage: bool,
    /// Moved into the reply.
    counted: Option<Counted>,
    /// The upgrade that the client asks for. Boxed, since few calls have one.
    upgrade_request: Option<Box<UpgradeRequest>>,
}

/// The attempts of a call so far.
#[derive(Clone, Default)]
struct Progress {
    attempts: u32,
    waited: Duration,
    held_by: Option<Arc<str>>,
}

impl Proxy {
    pub fn new(shared: Arc<Shared>, descriptors: &Arc<Descriptors>, clock_offset: Option<u64>) -> Proxy {
        let client = Arc::new(Client::new(shared.timeouts, descriptors.clone()));
        let upgrade_client = Arc::new(Client::for_upgrades(shared.timeouts, descriptors.clone()));
        descriptors.add(&client);
        descriptors.add(&upgrade_client);
        Proxy { shared, client, upgrade_client, clock_offset }
    }

    /// Closes upstream connections that were idle for too long, for as long as the future is polled.
    pub fn sweep(&self) -> impl Future<Output = ()> + use<> {
        let (client, upgrade_client) = (self.client.clone(), self.upgrade_client.clone());
        async move {
            tokio::join!(client.sweep(), upgrade_client.sweep());
        }
    }

    /// Reads a request as far as the gate has to know it.
    pub async fn prepare(
        &self,
        service: &Service,
        caller: &Caller,
        hints: &UrlHints<'_>,
        name: &str,
        path: &str,
        mut request: Request<Incoming>,
    ) -> Result<Prepared, Rejected> {
        let shared = &*self.shared;
        let upgrade_request = UpgradeRequest::of(&mut request);
        let (mut parts, body) = request.into_parts();
        let uri = service.url(path, parts.uri.query()).map_err(|error| rejected::no_url(&error, name))?;
        let stated = hints::read_call(name, hints, &parts.headers)
            .map_err(|message| rejected::bad_request("bad_hint", &message))?;
        caller
            .may_call(&stated, &shared.config.active().config)
            .map_err(|(status, code, message)| (status, code, message.to_owned()))?;
        let counted = shared.lifecycle.count_call();
        let memory =
            shared.memory.share(shared.memory.owners(caller.share_owner(stated.stated_loop()).levels()));
        let request_body = RequestBody::read(body, memory, shared.timeouts.client).await;
        let mut request_body = request_body.map_err(|error| rejected::no_body(&error))?;

        let headers = &mut parts.headers;
        let states_no_body = headers.get(CONTENT_LENGTH).is_some_and(|length| length == "0");
        headers::to_upstream(headers);
        if request_body.kept().is_some_and(Bytes::is_empty)
            && (states_no_body || headers::wants_length(&parts.method))
        {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        if let Some(upgrade_request) = &upgrade_request {
            upgrade_request.insert(headers);
        }
        service.replace_key(headers);
        let parameters = request_body.parameters(headers);
        let shown = Shown {
            method: parts.method.as_str(),
            path,
            headers,
            bytes: Some(request_body.length()),
            asked: parameters.as_ref(),
        };
        if let Some(why) = shown.refused(&stated, &shared.gate) {
            return Err(rejected::unaccountable(why));
        }
        let call = shown.call(stated, &shared.gate);
        let mut hide_usage = false;
        if call.stated_model().is_some() {
            headers::request_uncompressed(headers);
            if parameters.is_some_and(|parameters| parameters.stream && parameters.unread.is_none())
                && service.reports_stream_usage(&normal_path(path))
                && !headers::is_signed(headers)
                && let Some(asking) = request_body.kept().and_then(|body| asking(body))
            {
                request_body = request_body.with_text(asking);
                hide_usage = true;
            }
        }
        if shared.gate.waiting() > 0 {
            headers::detach(&mut parts.headers);
        }
        let head = Head {
            method: parts.method,
            uri,
            headers: parts.headers,
            upgrades: upgrade_request.is_some(),
            clock_offset: self.clock_offset,
        };
        let upgrade_request = upgrade_request.map(Box::new);
        Ok(Prepared { call, head, request_body, hide_usage, counted: Some(counted), upgrade_request })
    }
}

impl Prepared {
    /// Makes the call, and returns the reply.
    ///
    /// `prefix` is what the client wrote before the path at the service.
    pub async fn execute(&mut self, proxy: &Proxy, service: &Service, prefix: &str) -> Response<Body> {
        let shared = &*proxy.shared;
        let format = service.error_format();
        let Prepared { call, head, request_body, hide_usage, counted, upgrade_request } = self;
        let (call, head, request_body) = (&*call, &*head, &*request_body);
        let (progress, agreed, unsent) =
            (Mutex::new(Progress::default()), Mutex::new(None), UnsentAttempts::default());
        let begun = Instant::now();
        let client = if head.upgrades { &proxy.upgrade_client } else { &proxy.client };
        let meaning = Meaning::of(&shared.gate, call).within(&shared.memory, request_body.owners());
        let repeatable = head.headers.contains_key(&IDEMPOTENCY_KEY);
        let execute = shared.gate.execute(call, |attempt: Attempt| {
            *progress.lock() = Progress {
                attempts: attempt.number(),
                waited: attempt.waited(),
                held_by: attempt.held_by().cloned(),
            };
            send(client, head, request_body, attempt, &meaning, shared.timeouts, (&agreed, &unsent))
        });
        // Kept as one value: every waiting call has all locals of this function in memory.
        let mut execute = execute.name_limits(true);
        if repeatable {
            execute = execute.repeatable(true);
        }
        let span = span::of(call, &shared.config);
        let mut response = match (&mut execute).instrument(span.clone()).await {
            Ok(reply) => match (upgrade_request.take(), agreed.lock().take()) {
                (Some(upgrade_request), Some(agreed)) => {
                    upgrade_request.start(agreed, shared, counted.take());
                    switched(reply)
                }
                _ => stream_reply(reply, *hide_usage, counted.take()),
            },
            Err(ExecuteError::Refused(refused)) => {
                shared.events.publish(|| Event::refused(call.service(), &refused));
                format.refused(&refused)
            }
            Err(ExecuteError::Failed(failed)) => {
                // The SDK decides about an upstream's reply. Without a reply, the call may have been processed.
                let is_last = !matches!(failed, Failed::Reply(_));
                let attempts = progress.lock().attempts;
                failed_response(failed, format, counted.take(), (attempts, begun.elapsed()), is_last)
            }
            Err(ExecuteError::Exhausted { last, waited, attempts, why, .. }) => {
                progress.lock().waited = waited;
                if let Failed::Unreached(why) = &last {
                    client.gave_up(&head.uri, attempts, begun.elapsed(), why);
                }
                let is_last = match why {
                    GaveUp::InputGone => false,
                    _ if attempts > 1 => true,
                    // The call was not retried here, for lack of time or since the SDK decides about the upstream's reply.
                    GaveUp::TimeSpent => false,
                    _ => !matches!(last, Failed::Reply(_)),
                };
                failed_response(last, format, counted.take(), (attempts, begun.elapsed()), is_last)
            }
            Err(_) => {
                let message = "the call could not be made";
                format.error(StatusCode::BAD_GATEWAY, "upstream_broken", message)
            }
        };
        service.rewrite_locations(response.headers_mut(), prefix);
        let progress = progress.into_inner();
        span::ended(&span, progress.waited, progress.attempts, response.status());
        span.in_scope(|| debug!(method = %head.method, "the call is over"));
        progress.write_headers(response.headers_mut());
        response
    }
}

impl Progress {
    fn write_headers(&self, headers: &mut HeaderMap) {
        headers.insert(WAITED, number(millis(self.waited)));
        headers.insert(ATTEMPTS, number(self.attempts.into()));
        if let Some(limit) =
            self.held_by.as_ref().and_then(|limit| HeaderValue::from_bytes(limit.as_bytes()).ok())
        {
            headers.insert(LIMIT, limit);
        }
    }
}

/// Returns a number as a header. Most calls wait 0 ms and have 1 attempt.
fn number(number: u64) -> HeaderValue {
    match number {
        0 => HeaderValue::from_static("0"),
        1 => HeaderValue::from_static("1"),
        _ => number.into(),
    }
}

/// Returns the reply to a call that failed: the upstream's last reply, if there is one. If the answer `is_last`, what was
/// worth retrying was retried, and retries of the SDK would only multiply it.
fn failed_response(
    failed: Failed,
    format: ErrorFormat,
    counted: Option<Counted>,
    (attempts, elapsed): (u32, Duration),
    is_last: bool,
) -> Response<Body> {
    let mut response = match failed {
        Failed::Reply(reply) => stream_reply(*reply, false, counted),
        failed => {
            let (status, code, message) = failed.error(attempts, elapsed);
            let mut response = format.error(status, code, &message);
            response.headers_mut().remove(&SHOULD_RETRY);
            response
        }
    };
    if is_last {
        response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    response
}

fn stream_reply(reply: Reply, hide_usage: bool, counted: Option<Counted>) -> Response<Body> {
    let (mut parts, body) = reply.into_parts();
    headers::to_client(&mut parts.headers);
    // Compressed events cannot be removed: the caller sees one more than it asked for.
    let hide_usage = hide_usage && !parts.headers.contains_key(CONTENT_ENCODING);
    if hide_usage {
        parts.headers.remove(CONTENT_LENGTH);
    }
    // hyper sets the version of the client's connection.
    parts.version = http::Version::HTTP_11;
    Response::from_parts(parts, Body::Proxied(Box::pin(ProxiedBody::new(body, hide_usage, counted))))
}

/// Returns the upstream's 101 reply. Its headers belong to one connection and are written anew.
fn switched(reply: Reply) -> Response<Body> {
    let protocol = reply.headers().get(UPGRADE).cloned();
    let mut response = stream_reply(reply, false, None);
    if let Some(protocol) = protocol {
        upgrade::insert(response.headers_mut(), protocol);
    }
    response
}
