//! Sends requests to upstreams, on connections that are kept.
//!
//! An HTTP/1.1 connection carries one call at a time and is moved by the task of that call, so a call needs no other task
//! and wakes none. One of HTTP/2 is shared by all calls to its upstream. A request goes out a second time only if nothing
//! of it was sent: its connection had been kept, and the upstream had just hung up.

mod answer;
mod home;
mod http1;
mod way;

use std::sync::Arc;
use std::time::Duration;

use http::uri::{Authority, Scheme};
use http::{Request, Response, StatusCode, Uri};
use hyper::client::conn::http2;
use hyper_util::client::legacy::connect::Connection;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::RwLock;
use tower_service::Service;

use super::source::Outgoing;
use crate::body::BoxError;
use crate::server::Times;
use home::{Home, Kept};
use http1::Http1;
use way::{Connector, Proxies, connector};

pub(crate) use answer::Answer;

/// Sends requests to upstreams.
#[derive(Debug)]
pub(crate) struct Client {
    connector: Connector,
    proxies: Proxies,
    /// How long a connection is kept on which nothing is asked.
    idle: Duration,
    /// Where connections are kept; as few as there are upstreams in the configs, so looked through rather than hashed.
    homes: RwLock<Vec<(Scheme, Authority, Arc<Home>)>>,
}

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// There was no connection.
    #[error("no connection")]
    Unreached(#[source] BoxError),
    /// It broke off.
    #[error("the connection broke off")]
    Broken(#[source] hyper::Error),
}

impl Client {
    pub fn new(times: Times) -> Client {
        Client::made(times, false)
    }

    /// For requests that want their connection to become something else.
    pub fn for_upgrades(times: Times) -> Client {
        Client::made(times, true)
    }

    fn made(times: Times, upgrades: bool) -> Client {
        let proxies = Proxies::from_env();
        Client {
            connector: connector(times.connect, proxies.clone(), upgrades),
            proxies,
            idle: times.upstream_idle,
            homes: RwLock::default(),
        }
    }

    /// Sends a request to its whole address and waits for the head of its reply. Whoever wants to know is told when there
    /// is a connection and it leaves.
    pub async fn send(
        &self,
        mut request: Request<Outgoing>,
        leaves: impl Fn(),
    ) -> Result<Response<Answer>, SendError> {
        let uri = request.uri().clone();
        let home = self.home(&uri);
        loop {
            let (kept, connection) = match home.take() {
                Some(kept) => (true, kept),
                // Boxed: it is large, rare, and else part of every call.
                None => (false, Box::pin(self.connect(&home, &uri)).await?),
            };
            leaves();
            let mut failed = match connection {
                Kept::Http1(mut http1) => {
                    home.address(&mut request, &uri, http1.to_proxy);
                    match http1.send(request).await {
                        Ok(reply) if reply.status() == StatusCode::SWITCHING_PROTOCOLS => {
                            http1.let_go();
                            return Ok(reply.map(Answer::whole));
                        }
                        Ok(reply) => return Ok(reply.map(|body| Answer::over(body, http1, home))),
                        Err(failed) => failed,
                    }
                }
                Kept::Http2(mut http2) => {
                    *request.uri_mut() = uri.clone();
                    match http2.try_send_request(request).await {
                        Ok(reply) => return Ok(reply.map(Answer::whole)),
                        Err(failed) => failed,
                    }
                }
            };
            match failed.take_message() {
                Some(unsent) if kept => request = unsent,
                _ => return Err(SendError::Broken(failed.into_error())),
            }
        }
    }

    /// Closes connections that were not used for long, as long as it is polled.
    pub async fn sweep(&self) {
        loop {
            tokio::time::sleep(self.idle / 4).await;
            self.homes.read().iter().for_each(|(.., home)| home.sweep(self.idle));
        }
    }

    fn home(&self, uri: &Uri) -> Arc<Home> {
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
            // No upstream is without: it is read as a whole URL.
            return Arc::new(Home::new(uri, None));
        };
        let known = |homes: &[(Scheme, Authority, Arc<Home>)]| {
            let (.., home) = homes.iter().find(|(by, at, _)| by == scheme && at == authority)?;
            Some(home.clone())
        };
        if let Some(home) = known(&self.homes.read()) {
            return home;
        }
        let mut homes = self.homes.write();
        known(&homes).unwrap_or_else(|| {
            let home = Arc::new(Home::new(uri, self.proxies.auth(uri)));
            homes.push((scheme.clone(), authority.clone(), home.clone()));
            home
        })
    }

    async fn connect(&self, home: &Arc<Home>, uri: &Uri) -> Result<Kept, SendError> {
        let stream = self.connector.clone().call(uri.clone()).await.map_err(SendError::Unreached)?;
        let connected = stream.connected();
        if !connected.is_negotiated_h2() {
            return Http1::new(stream, connected.is_proxied())
                .await
                .map(Kept::Http1)
                .map_err(SendError::Broken);
        }
        // Of many who found none at the same time, one connection is enough.
        if let Some(shared) = home.http2() {
            return Ok(Kept::Http2(shared));
        }
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        let (sender, driver) =
            http2.timer(TokioTimer::new()).handshake(stream).await.map_err(SendError::Broken)?;
        tokio::spawn(driver);
        home.share(sender.clone());
        Ok(Kept::Http2(sender))
    }
}
