//! How an upstream is connected to: over TLS where the URL says so, through a proxy where the environment does.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::header::HeaderValue;
use http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tower_service::Service;
use tracing::warn;

use crate::body::BoxError;

/// A connection as it comes from here, over TLS or not.
pub(super) type Stream = MaybeHttpsStream<Wire>;

/// Makes connections.
pub(super) type Connector = HttpsConnector<Way>;

/// `upgrades`: for requests that want their connection to become something else, which only one of HTTP/1.1 can.
pub(super) fn connector(patience: Duration, proxies: Proxies, upgrades: bool) -> Connector {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(patience));
    let tls = HttpsConnectorBuilder::new().with_tls_config(tls()).https_or_http();
    let way = Way { http, proxies, patience };
    match upgrades {
        true => tls.enable_http1().wrap_connector(way),
        false => tls.enable_all_versions().wrap_connector(way),
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
pub(super) struct Proxies(Arc<Matcher>);

impl Proxies {
    pub fn from_env() -> Proxies {
        Proxies(Arc::new(Matcher::from_env()))
    }

    /// What a proxy wants to be told with each request to this address. Over TLS it is said once, when the tunnel is
    /// asked for.
    pub fn auth(&self, to: &Uri) -> Option<HeaderValue> {
        let plain = to.scheme() == Some(&Scheme::HTTP);
        let proxy = self.on_the_way_to(to).filter(|_| plain)?;
        proxy.basic_auth().map(sensitive)
    }

    /// No proxy reaches what is on this machine.
    fn on_the_way_to(&self, uri: &Uri) -> Option<Intercept> {
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let local = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if local { None } else { self.0.intercept(uri) }
    }
}

/// The way to an upstream: straight, or through a proxy.
#[derive(Clone, Debug)]
pub(super) struct Way {
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
pub(super) struct Wire {
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
