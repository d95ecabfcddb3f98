//! Connections to upstreams: kept alive, over TLS where the URL says so, through a proxy where the environment does.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{HeaderValue, PROXY_AUTHORIZATION};
use http::uri::Scheme;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::legacy::{self, Error};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tower_service::Service;
use tracing::warn;

use super::source::Outgoing;
use crate::body::BoxError;

/// How long a connection is kept on which nothing is asked.
const IDLE: Duration = Duration::from_secs(60);

/// Sends requests to upstreams.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    client: legacy::Client<HttpsConnector<Way>, Outgoing>,
    proxies: Proxies,
}

impl Client {
    pub fn new(patience: Duration) -> Client {
        Client::built(patience, false)
    }

    /// For requests that want their connection to become something else: only HTTP/1.1 can, and no other may have it then.
    pub fn for_upgrades(patience: Duration) -> Client {
        Client::built(patience, true)
    }

    fn built(patience: Duration, upgrades: bool) -> Client {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(patience));
        let proxies = Proxies(Arc::new(Matcher::from_env()));
        let way = Way { http, proxies: proxies.clone(), patience };
        let tls = HttpsConnectorBuilder::new().with_tls_config(tls()).https_or_http();
        let connector = match upgrades {
            true => tls.enable_http1().wrap_connector(way),
            false => tls.enable_all_versions().wrap_connector(way),
        };
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(if upgrades { 0 } else { usize::MAX })
            .build(connector);
        Client { client, proxies }
    }

    /// Sends a request and waits for the head of its reply.
    pub async fn send(&self, mut request: Request<Outgoing>) -> Result<Response<Incoming>, Error> {
        if request.uri().scheme() == Some(&Scheme::HTTP)
            && let Some(proxy) = self.proxies.on_the_way_to(request.uri())
            && let Some(auth) = proxy.basic_auth()
        {
            // Over TLS it is said once, when the tunnel is asked for.
            request.headers_mut().insert(PROXY_AUTHORIZATION, sensitive(auth));
        }
        self.client.request(request).await
    }
}

/// The system's certificate authorities, read once.
fn tls() -> ClientConfig {
    static TLS: OnceLock<ClientConfig> = OnceLock::new();
    let read = || {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = || {
            let builder = ClientConfig::builder_with_provider(provider.clone());
            builder.with_safe_default_protocol_versions().expect("ring knows them")
        };
        match builder().with_native_roots() {
            Ok(builder) => builder.with_no_client_auth(),
            Err(error) => {
                warn!(%error, "there are no certificate authorities: no https upstream will be trusted");
                builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth()
            }
        }
    };
    TLS.get_or_init(read).clone()
}

/// The proxies that the environment names.
#[derive(Clone, Debug)]
struct Proxies(Arc<Matcher>);

impl Proxies {
    /// No proxy reaches what is on this machine.
    fn on_the_way_to(&self, uri: &Uri) -> Option<Intercept> {
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let local = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if local { None } else { self.0.intercept(uri) }
    }
}

/// The way to an upstream: straight, or through a proxy.
#[derive(Clone, Debug)]
struct Way {
    http: HttpConnector,
    proxies: Proxies,
    patience: Duration,
}

impl Service<Uri> for Way {
    type Response = Wire;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Wire, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.http.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let Way { mut http, proxies, patience } = self.clone();
        Box::pin(async move {
            let Some(proxy) = proxies.on_the_way_to(&to) else {
                return Ok(Wire { stream: http.call(to).await?, to_proxy: false });
            };
            if to.scheme() != Some(&Scheme::HTTPS) {
                return Ok(Wire { stream: http.call(proxy.uri().clone()).await?, to_proxy: true });
            }
            let mut tunnel = Tunnel::new(proxy.uri().clone(), http);
            if let Some(auth) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(sensitive(auth));
            }
            let stream = tokio::time::timeout(patience, tunnel.call(to)).await??;
            Ok(Wire { stream, to_proxy: false })
        })
    }
}

fn sensitive(value: &HeaderValue) -> HeaderValue {
    let mut value = value.clone();
    value.set_sensitive(true);
    value
}

/// A connection, and whether a proxy at its other end wants to be told whole URLs.
struct Wire {
    stream: TokioIo<TcpStream>,
    to_proxy: bool,
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.to_proxy)
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl Write for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
