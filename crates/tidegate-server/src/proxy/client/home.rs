//! The connections to one upstream that wait for their next call.

use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use http::header::{HOST, HeaderValue, PROXY_AUTHORIZATION};
use http::uri::{Parts, Scheme};
use http::{Request, Uri};
use hyper::client::conn::http2;
use parking_lot::Mutex;

use super::http1::Http1;
use crate::listen::workers::Lane;
use crate::proxy::source::Outgoing;

/// One upstream.
#[derive(Debug)]
pub(super) struct Home {
    /// What it is called by those who ask.
    host: Option<HeaderValue>,
    proxy_auth: Option<HeaderValue>,
    /// Each with when it came back; the latest is the last.
    idle: Mutex<Vec<(Http1, Instant)>>,
    http2: Mutex<Option<http2::SendRequest<Outgoing>>>,
}

/// A connection that can be sent on.
pub(super) enum Kept {
    /// By one.
    Http1(Http1),
    /// By all.
    Http2(http2::SendRequest<Outgoing>),
}

impl Home {
    pub fn new(uri: &Uri, proxy_auth: Option<HeaderValue>) -> Home {
        Home { host: host(uri), proxy_auth, idle: Mutex::default(), http2: Mutex::default() }
    }

    /// Makes a request one of HTTP/1.1 for this upstream. Only proxies want to be told whole addresses.
    pub fn address(&self, request: &mut Request<Outgoing>, uri: &Uri, to_proxy: bool) {
        *request.uri_mut() = if to_proxy { uri.clone() } else { path_of(uri) };
        let headers = request.headers_mut();
        if let Some(host) = &self.host {
            headers.insert(HOST, host.clone());
        }
        if let Some(auth) = self.proxy_auth.as_ref().filter(|_| to_proxy) {
            headers.insert(PROXY_AUTHORIZATION, auth.clone());
        }
    }

    /// The connection that was used last, if it is still there: the others may rest until they are closed. One of another
    /// thread is better than none, since a new one takes longer.
    pub fn take(&self) -> Option<Kept> {
        if let Some(shared) = self.http2() {
            return Some(Kept::Http2(shared));
        }
        loop {
            let (mut http1, _) = take_one(&mut self.idle.lock())?;
            if http1.is_ready(&mut Context::from_waker(Waker::noop())) {
                return Some(Kept::Http1(http1));
            }
        }
    }

    /// Keeps a connection for the next call.
    pub fn keep(&self, http1: Http1) {
        self.idle.lock().push((http1, Instant::now()));
    }

    /// The connection that all use, if there is one.
    pub fn http2(&self) -> Option<http2::SendRequest<Outgoing>> {
        self.http2.lock().clone().filter(http2::SendRequest::is_ready)
    }

    pub fn share(&self, http2: http2::SendRequest<Outgoing>) {
        *self.http2.lock() = Some(http2);
    }

    /// Closes what nobody has used for so long, or what the upstream has closed.
    pub fn sweep(&self, idle: Duration) {
        let mut context = Context::from_waker(Waker::noop());
        self.idle.lock().retain_mut(|(http1, since)| since.elapsed() < idle && http1.is_ready(&mut context));
    }
}

/// The latest of the thread's own, else the latest.
fn take_one(idle: &mut Vec<(Http1, Instant)>) -> Option<(Http1, Instant)> {
    let lane = Lane::current();
    match idle.iter().rposition(|(http1, _)| http1.lane == lane) {
        Some(own) => Some(idle.remove(own)),
        None => idle.pop(),
    }
}

/// The upstream's name, without the port that goes without saying.
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
