//! The pool of idle connections to one upstream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use http::header::{HOST, HeaderValue, PROXY_AUTHORIZATION};
use http::uri::{Parts, Scheme};
use http::{Request, Uri};
use parking_lot::Mutex;

use super::connect_error::{ConnectError, Reachability};
use super::connector::{Connected, Connector, Deadline};
use super::http1::Http1;
use super::http2::{self, Opening, Slot, Streams, Turn};
use crate::proxy::request_body::OutgoingBody;
use crate::workers::WorkerId;

/// The connections to one upstream.
#[derive(Debug)]
pub(super) struct Pool {
    /// Its name in the log.
    name: String,
    /// The value of the `Host` header.
    host: Option<HeaderValue>,
    proxy_auth: Option<HeaderValue>,
    /// Each with the time of its return. The latest is the last.
    idle: Mutex<Vec<(Http1, Instant)>>,
    streams: Arc<Streams>,
    /// Whether the last connection was one of HTTP/1.1, or HTTP/2 is not allowed.
    http1: AtomicBool,
    pub reachability: Reachability,
}

/// A connection that a request can be sent on.
pub(super) enum Connection {
    /// For one call.
    Http1(Http1),
    /// For one stream of it.
    Http2(Slot),
}

impl Pool {
    /// Makes a pool. With `only_http1` no connection speaks HTTP/2.
    pub fn new(uri: &Uri, proxy_auth: Option<HeaderValue>, only_http1: bool) -> Pool {
        let name = uri.authority().map_or_else(String::new, ToString::to_string);
        let http1 = only_http1 || uri.scheme() != Some(&Scheme::HTTPS);
        Pool {
            name,
            host: host(uri),
            proxy_auth,
            idle: Mutex::default(),
            streams: Arc::default(),
            http1: http1.into(),
            reachability: Reachability::default(),
        }
    }

    /// Returns the upstream's name for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes a request one of HTTP/1.1 for this upstream. Only proxies get absolute URLs.
    pub fn address(&self, request: &mut Request<OutgoingBody>, uri: &Uri, to_proxy: bool) {
        *request.uri_mut() = if to_proxy { uri.clone() } else { path_of(uri) };
        let headers = request.headers_mut();
        if let Some(host) = &self.host {
            headers.insert(HOST, host.clone());
        }
        if let Some(auth) = self.proxy_auth.as_ref().filter(|_| to_proxy) {
            headers.insert(PROXY_AUTHORIZATION, auth.clone());
        }
    }

    /// Takes the connection that was used last, so that the others may expire. A connection of another thread is better
    /// than none, since a new one takes longer.
    pub fn take(&self) -> Option<Connection> {
        // Most upstreams speak HTTP/1.1 only: their calls do not lock the HTTP/2 streams.
        if !self.http1.load(Ordering::Relaxed)
            && let Some(slot) = self.streams.take()
        {
            return Some(Connection::Http2(slot));
        }
        loop {
            let (mut http1, _) = take_one(&mut self.idle.lock())?;
            if http1.is_ready(&mut Context::from_waker(Waker::noop())) {
                return Some(Connection::Http1(http1));
            }
        }
    }

    /// Keeps a connection for the next call.
    pub fn keep(&self, http1: Http1) {
        self.idle.lock().push((http1, Instant::now()));
    }

    /// Puts back a connection on which nothing was sent.
    pub fn put_back(&self, connection: Connection) {
        if let Connection::Http1(mut http1) = connection
            && http1.is_ready(&mut Context::from_waker(Waker::noop()))
        {
            self.keep(http1);
        }
    }

    /// Connects, or waits for a connection that another call has begun to open.
    ///
    /// # Errors
    /// Returns why there is no connection within the connect timeout.
    pub async fn connect(
        self: &Arc<Self>,
        connector: &Connector,
        uri: &Uri,
    ) -> Result<Connection, ConnectError> {
        let deadline = Deadline::after(connector.within);
        loop {
            if self.http1.load(Ordering::Relaxed) {
                let connected = connector.connect(uri, deadline).await.inspect_err(|why| self.failed(why))?;
                if let Some(http1) = self.connected(connected, self.streams.open(), deadline).await? {
                    return Ok(Connection::Http1(http1));
                }
            } else {
                let (turn, opening) = self.streams.wait();
                if let Some(opening) = opening {
                    tokio::spawn(self.clone().open(connector.clone(), uri.clone(), opening));
                }
                let turn = async { Ok(turn.await.unwrap_or(Turn::Failed(ConnectError::Late))) };
                match deadline.bound("the wait for a free HTTP/2 stream", turn).await? {
                    Turn::Slot(slot) => return Ok(Connection::Http2(slot)),
                    Turn::Failed(why) => return Err(why),
                    Turn::Http1 => {}
                }
            }
            if let Some(kept) = self.take() {
                return Ok(kept);
            }
        }
    }

    /// Opens connections for the calls that wait for HTTP/2 streams, until there are enough.
    async fn open(self: Arc<Self>, connector: Connector, uri: Uri, opening: Opening) {
        let mut next = Some(opening);
        while let Some(opening) = next.take() {
            // A little less time than the calls have, so that their error names the stage in which the time ran out.
            let deadline = Deadline::after(connector.within).sooner();
            match connector.connect(&uri, deadline).await {
                Ok(connected) => match self.connected(connected, opening, deadline).await {
                    Ok(Some(http1)) => self.keep(http1),
                    Ok(None) => next = self.streams.open_more(),
                    Err(_) => {}
                },
                Err(why) => {
                    self.failed(&why);
                    opening.failed(&why);
                }
            }
        }
    }

    /// Begins to speak HTTP on a new connection. One of HTTP/2 goes into the pool; one of HTTP/1.1 is returned.
    async fn connected(
        &self,
        connected: Connected,
        opening: Opening,
        deadline: Deadline,
    ) -> Result<Option<Http1>, ConnectError> {
        let at = || self.name.clone();
        self.http1.store(!connected.http2, Ordering::Relaxed);
        if connected.http2 {
            let opened = async {
                http2::open(connected.stream).await.map_err(|why| ConnectError::Http2 { at: at(), why })
            };
            match deadline.bound("the wait for HTTP/2 settings that allow a stream", opened).await {
                Ok(opened) => opened.join(&self.streams, opening),
                Err(why) => {
                    self.failed(&why);
                    opening.failed(&why);
                    return Err(why);
                }
            }
            self.reachability.reached(&self.name);
            return Ok(None);
        }
        self.streams.is_http1(opening);
        let http1 = Http1::new(connected.stream, connected.to_proxy).await;
        let http1 = http1.map_err(|error| ConnectError::Tcp { at: at(), why: error.to_string() })?;
        self.reachability.reached(&self.name);
        Ok(Some(http1))
    }

    fn failed(&self, why: &ConnectError) {
        self.reachability.failed(&self.name, why);
    }

    /// Closes the connection of each protocol that has been idle for longest. Returns how many were closed.
    pub fn close_idle(&self) -> usize {
        let http1 = {
            let mut idle = self.idle.lock();
            (!idle.is_empty()).then(|| idle.remove(0))
        };
        usize::from(http1.is_some()) + usize::from(self.streams.close_idle())
    }

    /// Closes connections that were idle for `idle`, and those that the upstream has closed.
    pub fn sweep(&self, idle: Duration) {
        let mut context = Context::from_waker(Waker::noop());
        self.idle.lock().retain_mut(|(http1, since)| since.elapsed() < idle && http1.is_ready(&mut context));
    }
}

/// Takes the latest connection of the current thread, else the latest one.
fn take_one(idle: &mut Vec<(Http1, Instant)>) -> Option<(Http1, Instant)> {
    let worker = WorkerId::current();
    match idle.iter().rposition(|(http1, _)| http1.worker == worker) {
        Some(own) => Some(idle.remove(own)),
        None => idle.pop(),
    }
}

/// Returns the upstream's host, without a default port.
fn host(uri: &Uri) -> Option<HeaderValue> {
    let usual = if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    let host = match uri.port_u16() {
        Some(port) if port != usual => format!("{}:{port}", uri.host()?),
        _ => uri.host()?.to_owned(),
    };
    HeaderValue::try_from(host).ok()
}

fn path_of(uri: &Uri) -> Uri {
    let mut parts = Parts::default();
    parts.path_and_query = uri.path_and_query().cloned();
    Uri::from_parts(parts).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_called_by_its_name_and_an_unusual_port() {
        for (uri, name) in [
            ("http://a.example/x", "a.example"),
            ("http://a.example:80/x", "a.example"),
            ("https://a.example:443/x", "a.example"),
            ("https://a.example:80/x", "a.example:80"),
            ("http://[::1]:9000/x", "[::1]:9000"),
        ] {
            assert_eq!(host(&uri.parse().expect("a URL")).expect("a host"), name, "{uri}");
        }
    }

    #[test]
    fn a_path_goes_without_its_host() {
        assert_eq!(path_of(&"http://a.example/x?y=z".parse().expect("a URL")), "/x?y=z");
        assert_eq!(path_of(&"http://a.example".parse().expect("a URL")), "/");
    }
}
