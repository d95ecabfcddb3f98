//! Sends requests to upstreams, on pooled connections.
//!
//! An HTTP/1.1 connection carries one call at a time and is driven by the task of that call, so a call needs no other task
//! and wakes none. An HTTP/2 connection carries as many calls as its peer allows, and is driven by a task of its own: see
//! [`http2`].
//!
//! A request is put on the wire at most once. If the upstream has closed a kept connection and nothing of the request was
//! written there, the request goes on another connection. If an HTTP/2 upstream says that it did not process a request that
//! was sent, the call ends here, and passes the limits again before it is sent again.

mod connect_error;
mod connector;
mod http1;
mod http2;
mod pool;
mod upstream_body;

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, HOST, PROXY_AUTHORIZATION};
use http::uri::{Authority, Scheme};
use http::{Request, Response, StatusCode, Uri, Version};
use http_body::Body;
use parking_lot::RwLock;

use super::headers::wants_length;
use super::request_body::OutgoingBody;
use crate::body::BoxError;
use crate::descriptors::{ConnectionHolder, Descriptors};
use crate::outbound_proxies::Proxies;
use crate::timeouts::Timeouts;
use connector::Connector;
use pool::{Connection, Pool};

pub(crate) use connect_error::{ConnectError, innermost};
pub(crate) use upstream_body::UpstreamBody;

/// Sends requests to upstreams.
#[derive(Debug)]
pub(crate) struct Client {
    connector: Connector,
    proxies: Proxies,
    /// Whether requests ask to upgrade their connection.
    upgrades: bool,
    /// How long an idle HTTP/1.1 connection is kept.
    idle: Duration,
    /// The pools of all upstreams. They are few, so a search is faster than a hash map.
    pools: RwLock<Vec<(Scheme, Authority, Arc<Pool>)>>,
}

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// There was no connection: nothing was sent.
    #[error("no connection")]
    Unreached {
        #[source]
        why: ConnectError,
        request: Box<Request<OutgoingBody>>,
    },
    /// The upstream says that it has not processed the request.
    #[error("the upstream did not process the request")]
    Unprocessed(#[source] h2::Error),
    /// The connection broke off, and the request may have been processed.
    #[error("the connection broke off")]
    Broken(#[source] BoxError),
    /// There is a connection, but the permit is too old: nothing was sent.
    #[error("the permit was too old when the connection was there")]
    Late(Box<Request<OutgoingBody>>),
}

/// Callbacks of a request before it is sent.
pub(crate) trait Departure {
    /// Notes that the request waits for a new connection. Nothing was sent.
    fn connecting(&self);

    /// Decides whether the request may still be sent. There is a connection, and nothing was sent.
    fn may_send(&self) -> bool;
}

impl Client {
    /// Makes a client. `descriptors` closes idle connections if there is no descriptor for a new one.
    pub fn new(timeouts: Timeouts, descriptors: Arc<Descriptors>) -> Client {
        Client::build(timeouts, descriptors, false)
    }

    /// Makes a client for requests that ask to upgrade their connection.
    pub fn for_upgrades(timeouts: Timeouts, descriptors: Arc<Descriptors>) -> Client {
        Client::build(timeouts, descriptors, true)
    }

    fn build(timeouts: Timeouts, descriptors: Arc<Descriptors>, upgrades: bool) -> Client {
        let proxies = Proxies::from_env();
        Client {
            connector: Connector::new(timeouts.connect, proxies.clone(), descriptors, upgrades),
            proxies,
            upgrades,
            idle: timeouts.upstream_idle,
            pools: RwLock::default(),
        }
    }

    /// Sends a request to its whole address and waits for the head of its reply.
    pub async fn send(
        &self,
        mut request: Request<OutgoingBody>,
        departure: &impl Departure,
    ) -> Result<Response<UpstreamBody>, SendError> {
        let uri = request.uri().clone();
        let pool = self.pool(&uri);
        loop {
            let (kept, connection) = match pool.take() {
                Some(kept) => (true, kept),
                None => {
                    departure.connecting();
                    // Boxed: it is large, rare, and would be part of every call.
                    match Box::pin(pool.connect(&self.connector, &uri)).await {
                        Ok(connection) => (false, connection),
                        Err(why) => return Err(SendError::Unreached { why, request: Box::new(request) }),
                    }
                }
            };
            if !departure.may_send() {
                pool.put_back(connection);
                return Err(SendError::Late(Box::new(request)));
            }
            // The request, if its connection had ended before any of it was written, and the error.
            let (unsent, why) = match connection {
                Connection::Http1(mut http1) => {
                    pool.address(&mut request, &uri, http1.to_proxy);
                    let mut failed = match http1.send(request).await {
                        Ok(reply) if reply.status() == StatusCode::SWITCHING_PROTOCOLS => {
                            http1.let_go();
                            return Ok(reply.map(UpstreamBody::whole));
                        }
                        Ok(reply) => return Ok(reply.map(|body| UpstreamBody::over(body, http1, pool))),
                        Err(failed) => failed,
                    };
                    match failed.take_message() {
                        Some(unsent) => (unsent, failed.into_error().to_string()),
                        None => return Err(SendError::Broken(failed.into_error().into())),
                    }
                }
                Connection::Http2(slot) => {
                    let (head, body) = for_http2(request, &uri);
                    match http2::send(slot, head.clone(), body).await {
                        Ok(reply) => return Ok(reply.map(|body| UpstreamBody::Http2(Box::new(body)))),
                        Err(http2::Failed::Unsent(error, body)) => (head.map(|()| body), error.to_string()),
                        Err(http2::Failed::Unprocessed(error)) => return Err(SendError::Unprocessed(error)),
                        Err(http2::Failed::Broken(error)) => return Err(SendError::Broken(error)),
                    }
                }
            };
            if !kept {
                let why = ConnectError::Closed { at: pool.name().to_owned(), why };
                return Err(SendError::Unreached { why, request: Box::new(unsent) });
            }
            request = unsent;
        }
    }

    /// Returns whether there was ever a connection to an upstream.
    pub fn was_reached(&self, uri: &Uri) -> bool {
        self.pool(uri).reachability.was_reached()
    }

    /// Logs that a call was given up because its upstream cannot be reached.
    pub fn gave_up(&self, uri: &Uri, attempts: u32, took: Duration, why: &ConnectError) {
        let pool = self.pool(uri);
        pool.reachability.gave_up(pool.name(), attempts, took, why);
    }

    /// Closes connections that were idle for too long, for as long as the future is polled.
    pub async fn sweep(&self) {
        loop {
            tokio::time::sleep(self.idle / 4).await;
            self.pools.read().iter().for_each(|(.., pool)| pool.sweep(self.idle));
        }
    }

    fn pool(&self, uri: &Uri) -> Arc<Pool> {
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
            // Unreachable: the `upstream` of a service is a whole URL.
            return Arc::new(Pool::new(uri, None, self.upgrades));
        };
        let known = |pools: &[(Scheme, Authority, Arc<Pool>)]| {
            let (.., pool) = pools.iter().find(|(by, at, _)| by == scheme && at == authority)?;
            Some(pool.clone())
        };
        if let Some(pool) = known(&self.pools.read()) {
            return pool;
        }
        let mut pools = self.pools.write();
        known(&pools).unwrap_or_else(|| {
            let pool = Arc::new(Pool::new(uri, self.proxies.auth(uri), self.upgrades));
            pools.push((scheme.clone(), authority.clone(), pool.clone()));
            pool
        })
    }
}

impl ConnectionHolder for Client {
    /// Closes one connection of each upstream that has an idle one, of either protocol.
    fn close_idle(&self) -> usize {
        self.pools.read().iter().map(|(.., pool)| pool.close_idle()).sum()
    }
}

/// Makes a request one of HTTP/2. It may have been made for an HTTP/1.1 connection that had been closed.
fn for_http2(request: Request<OutgoingBody>, uri: &Uri) -> (Request<()>, OutgoingBody) {
    let (mut head, body) = request.into_parts();
    head.uri = uri.clone();
    head.version = Version::HTTP_2;
    head.headers.remove(HOST);
    head.headers.remove(PROXY_AUTHORIZATION);
    let stated = wants_length(&head.method);
    if let Some(length) = body.size_hint().exact().filter(|length| *length > 0 || stated) {
        head.headers.insert(CONTENT_LENGTH, length.into());
    }
    (Request::from_parts(head, ()), body)
}
