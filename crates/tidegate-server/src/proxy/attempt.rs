//! One attempt: sends the request and reads the outcome of the reply.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, Uri};
use parking_lot::Mutex;
use tidegate::wire::{Meaning, ReplyBody, judge};
use tidegate::{Attempt, Outcome};

use super::body_timeout::BodyTimeout;
use super::client::{Client, ConnectError, Departure, SendError, UpstreamBody, innermost};
use super::request_body::RequestBody;
use super::upgrade::AgreedUpgrade;
use crate::timeouts::Timeouts;

/// A reply, and the permit that goes with it.
pub(super) type Reply = Response<ReplyBody<BodyTimeout<UpstreamBody>>>;

/// The request without its body.
pub(super) struct Head {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    /// Whether the client asks to upgrade the connection.
    pub upgrades: bool,
    /// How far wall-clock time is ahead of the gate's, if upstreams are told when each call was granted.
    pub clock_offset: Option<u64>,
}

/// An attempt that did not succeed.
pub(super) enum Failed {
    /// The upstream replied with an error.
    Reply(Box<Reply>),
    /// There was no connection.
    Unreached(ConnectError),
    /// The upstream says that it did not process the request.
    Unprocessed(String),
    /// The connection broke off before a reply.
    Broken(String),
    /// There was no reply in time.
    Slow(Duration),
    /// The body was sent, and there is no copy of it.
    Spent,
    /// The permit was given back: the call queues again.
    Late,
}

/// A request whose permit is older than this is not sent under it. Many that waited for the same connection would arrive
/// together, and so would those that a pause of the process held up. Most connections within a continent take less.
const MAX_AGE: Duration = Duration::from_millis(50);
/// The same for a call that has given a permit back before. Such calls rarely wait for the same connection again, and a
/// call that is always late must be sent in the end.
const MAX_AGE_AGAIN: Duration = Duration::from_secs(1);
/// How often a call gives its permit back before it counts as failed.
const MAX_LATE: u32 = 3;
/// How long a call is retried at an upstream to which no connection was ever made. The address is likely wrong, so the
/// caller gets an early error. With the usual delays this is the third attempt, after 3 s.
const RETRY_UNKNOWN_UPSTREAM: Duration = Duration::from_millis(2_500);

/// The attempts of a call that were not sent.
#[derive(Default)]
pub(super) struct UnsentAttempts {
    /// How often the call gave its permit back.
    late: AtomicU32,
    /// When the call first got no connection.
    unreached: OnceLock<Instant>,
}

impl Failed {
    /// Returns the error for the client if the upstream did not reply: status, code and message.
    pub fn error(&self, attempts: u32, took: Duration) -> (StatusCode, &'static str, String) {
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

/// When a call was granted, in nanoseconds of Unix time. Tests check it.
const GRANTED: HeaderName = HeaderName::from_static("x-tidegate-granted-ns");

/// Makes an attempt.
pub(super) async fn send(
    client: &Client,
    head: &Head,
    request_body: &RequestBody,
    attempt: Attempt,
    meaning: &Meaning,
    timeouts: Timeouts,
    (agreed, unsent): (&Mutex<Option<AgreedUpgrade>>, &UnsentAttempts),
) -> Result<Reply, Failed> {
    let Some(body) = request_body.next() else { return Err(Failed::Spent) };
    let mut request = Request::new(body);
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = head.uri.clone();
    *request.headers_mut() = head.headers.clone();
    if let Some(ahead) = head.clock_offset {
        let at = attempt.granted_at().0.wrapping_add(ahead);
        request.headers_mut().insert(GRANTED, at.into());
    }
    let sending = SendingAttempt { attempt: &attempt, unsent, sent: AtomicBool::new(false) };
    let answered = async {
        let reply = client.send(request, &sending).await;
        let mut reply =
            reply.map_err(|error| sending.failed(error, request_body, || client.was_reached(&head.uri)))?;
        if reply.status() == StatusCode::SWITCHING_PROTOCOLS {
            if !head.upgrades {
                attempt.report(Outcome::failed());
                return Err(Failed::Broken("it switched to another protocol without being asked".into()));
            }
            let upstream = hyper::upgrade::on(&mut reply);
            *agreed.lock() = Some(AgreedUpgrade { upstream, permit: attempt.keep_permit() });
        }
        let reply = reply.map(|body| BodyTimeout::new(body, timeouts.upstream));
        judge(reply, &attempt, meaning).await.map_err(|reply| Failed::Reply(Box::new(reply)))
    };
    let result = tokio::time::timeout(timeouts.upstream_head, answered).await.unwrap_or_else(|_| {
        // An attempt that was not sent is not charged.
        let sent = sending.sent.load(Ordering::Relaxed);
        attempt.report(if sent { Outcome::failed() } else { Outcome::unreached() });
        Err(Failed::Slow(timeouts.upstream_head))
    });
    if result.is_err() && request_body.is_gone() {
        attempt.ends_call();
    }
    result
}

/// An attempt whose request is on its way to a connection.
struct SendingAttempt<'a> {
    attempt: &'a Attempt,
    unsent: &'a UnsentAttempts,
    sent: AtomicBool,
}

impl Departure for SendingAttempt<'_> {
    fn connecting(&self) {
        self.attempt.prepares();
        self.sent.store(false, Ordering::Relaxed);
    }

    fn may_send(&self) -> bool {
        let too_old = if self.unsent.late.load(Ordering::Relaxed) == 0 { MAX_AGE } else { MAX_AGE_AGAIN };
        if self.attempt.age() >= too_old {
            return false;
        }
        self.attempt.leaves();
        self.sent.store(true, Ordering::Relaxed);
        true
    }
}

impl SendingAttempt<'_> {
    /// Reports an attempt that got no reply. A body of which nothing was sent is put back.
    fn failed(
        &self,
        error: SendError,
        request_body: &RequestBody,
        was_reached: impl FnOnce() -> bool,
    ) -> Failed {
        let SendingAttempt { attempt, unsent, .. } = self;
        tracing::debug!(error = &error as &dyn std::error::Error, "an attempt failed");
        match error {
            SendError::Unreached { why, request } => {
                request_body.put_back(request.into_body());
                let since = unsent.unreached.get_or_init(Instant::now);
                let outcome = Outcome::unreached();
                attempt.report(if since.elapsed() >= RETRY_UNKNOWN_UPSTREAM && !was_reached() {
                    // Longer than every timeout: there is no other attempt.
                    outcome.retry_after(Duration::MAX)
                } else {
                    outcome
                });
                Failed::Unreached(why)
            }
            SendError::Late(request) => {
                request_body.put_back(request.into_body());
                if unsent.late.fetch_add(1, Ordering::Relaxed) < MAX_LATE {
                    attempt.give_back();
                    return Failed::Late;
                }
                attempt.report(Outcome::unreached());
                Failed::Unreached(ConnectError::Late)
            }
            SendError::Unprocessed(error) => {
                // It was sent: a peer that refuses every stream must not be called more often than the limits allow.
                let outcome = Outcome::unprocessed();
                // A peer that closes a connection gracefully takes the call on another one without delay.
                let closes = error.is_go_away();
                attempt.report(if closes { outcome.retry_after(Duration::ZERO) } else { outcome });
                Failed::Unprocessed(error.to_string())
            }
            SendError::Broken(error) => {
                attempt.report(Outcome::failed());
                Failed::Broken(innermost(&*error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use bytes::Bytes;
    use http_body_util::BodyExt;
    use tidegate::wire::{Memory, Owners};
    use tidegate::{Call, Config, Gate};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers every request on one connection, and counts them.
    async fn upstream() -> (Uri, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let uri = format!("http://{}/x", listener.local_addr().expect("bound")).parse().expect("a URL");
        let arrivals = Arc::new(AtomicUsize::new(0));
        let seen = arrivals.clone();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            while stream.read(&mut [0; 4_096]).await.is_ok_and(|read| read > 0) {
                seen.fetch_add(1, Ordering::Relaxed);
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nwell").await.expect("sent");
            }
        });
        (uri, arrivals)
    }

    /// A process that is stopped between a grant and its socket goes on when the grant's place in the window is long gone.
    #[tokio::test]
    async fn a_permit_that_became_old_is_not_sent_under_on_a_kept_connection_either() {
        let (uri, arrivals) = upstream().await;
        let config = Config::parse("[services.api]\nrequests = { limit = \"100/h\", burst = 100 }");
        let gate = Gate::builder().config(config.expect("valid")).build().expect("valid");
        let call = Call::to("api").endpoint("GET /x");
        let client = Client::new(Timeouts::default(), Arc::default());
        let head =
            Head { method: Method::GET, uri, headers: HeaderMap::new(), upgrades: false, clock_offset: None };
        let request_body = RequestBody::Kept(Bytes::new(), Arc::new(Memory::new(0)).share(Owners::default()));
        let meaning = Meaning::of(&gate, &call);
        for pauses in [[false; 2], [true, false]] {
            let (agreed, unsent, grants) = (Mutex::new(None), UnsentAttempts::default(), AtomicUsize::new(0));
            let execute = gate.execute(&call, |attempt| {
                let pause = pauses[grants.fetch_add(1, Ordering::Relaxed)];
                assert_eq!(attempt.number(), 1, "one that was not sent does not count");
                let sent = send(
                    &client,
                    &head,
                    &request_body,
                    attempt,
                    &meaning,
                    Timeouts::default(),
                    (&agreed, &unsent),
                );
                async move {
                    if pause {
                        tokio::time::sleep(MAX_AGE).await;
                    }
                    sent.await
                }
            });
            let reply = execute.await.unwrap_or_else(|_| panic!("no reply"));
            assert_eq!(reply.into_body().collect().await.expect("whole").to_bytes(), "well");
            let grants = grants.into_inner();
            assert_eq!(grants, 1 + usize::from(pauses[0]), "it passes the limits again");
        }
        assert_eq!(arrivals.load(Ordering::Relaxed), 2);
    }
}
