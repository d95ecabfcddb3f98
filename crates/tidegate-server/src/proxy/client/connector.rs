//! Connects to upstreams: name look-up, TCP, a proxy if the environment names one, TLS if the URL says so.
//!
//! One deadline covers all stages. Each stage has its own error, so that a caller learns what failed.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::Intercept;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower_service::Service;
use tracing::warn;

use super::connect_error::{ConnectError, innermost};
use crate::descriptors::Descriptors;
use crate::outbound_proxies::{Proxies, sensitive};

/// Makes connections.
#[derive(Clone)]
pub(super) struct Connector {
    proxies: Proxies,
    /// Offers the protocols that an upstream may speak.
    tls: TlsConnector,
    /// Offers no protocol: proxies speak HTTP/1.1.
    tls_to_proxy: TlsConnector,
    /// Closes idle connections if there is no descriptor for a new one.
    pub descriptors: Arc<Descriptors>,
    /// How long all stages may take together.
    pub within: Duration,
}

/// A connection that was made.
pub(super) struct Connected {
    pub stream: Stream,
    /// Whether a proxy is at the other end that expects absolute URLs.
    pub to_proxy: bool,
    /// Whether HTTP/2 was agreed on.
    pub http2: bool,
}

/// The time by which a connection is to be made.
#[derive(Clone, Copy)]
pub(super) struct Deadline {
    at: Instant,
    within: Duration,
}

impl Deadline {
    pub fn after(within: Duration) -> Deadline {
        Deadline { at: Instant::now() + within, within }
    }

    /// Returns one that is a twentieth of the time earlier.
    pub fn sooner(self) -> Deadline {
        Deadline { at: self.at - self.within / 20, ..self }
    }

    /// Waits for a while. Returns whether there is time for that.
    async fn pause(self, span: Duration) -> bool {
        let is_in_time = Instant::now() + span < self.at;
        if is_in_time {
            tokio::time::sleep(span).await;
        }
        is_in_time
    }

    /// Runs one stage of connecting.
    pub async fn bound<T>(
        self,
        stage: &'static str,
        work: impl Future<Output = Result<T, ConnectError>>,
    ) -> Result<T, ConnectError> {
        let late = ConnectError::Timeout { within: self.within, stage };
        tokio::time::timeout_at(self.at, work).await.unwrap_or(Err(late))
    }
}

impl Connector {
    /// Makes a connector. `upgrades` is for requests that ask to upgrade their connection, which only HTTP/1.1 can do.
    pub fn new(
        within: Duration,
        proxies: Proxies,
        descriptors: Arc<Descriptors>,
        upgrades: bool,
    ) -> Connector {
        let protocols: &[&[u8]] = if upgrades { &[b"http/1.1"] } else { &[b"h2", b"http/1.1"] };
        Connector { proxies, tls: tls(protocols), tls_to_proxy: tls(&[]), descriptors, within }
    }

    /// Connects to the upstream of a URL.
    pub async fn connect(&self, to: &Uri, deadline: Deadline) -> Result<Connected, ConnectError> {
        let secure = to.scheme() == Some(&Scheme::HTTPS);
        let target = Target::of(to, if secure { 443 } else { 80 });
        let (stream, to_proxy) = match self.proxies.for_url(to) {
            None => (Stream::Tcp(target.connect(&self.descriptors, deadline).await?), false),
            Some(proxy) => self.through(&proxy, &target, secure, deadline).await?,
        };
        if !secure {
            return Ok(Connected { stream, to_proxy, http2: false });
        }
        let stream = target.secure(&self.tls, stream, deadline).await?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(Connected { stream: Stream::Tls(Box::new(stream)), to_proxy, http2 })
    }

    /// Connects to a proxy, and through it where a tunnel is needed. Returns whether the proxy expects absolute URLs.
    async fn through(
        &self,
        proxy: &Intercept,
        target: &Target,
        secure: bool,
        deadline: Deadline,
    ) -> Result<(Stream, bool), ConnectError> {
        let scheme = proxy.uri().scheme_str().unwrap_or("http");
        let default = match scheme {
            "https" => 443,
            "socks5" | "socks5h" => 1080,
            _ => 80,
        };
        let at = Target::of(proxy.uri(), default);
        let mut stream = Stream::Tcp(at.connect(&self.descriptors, deadline).await?);
        // TLS comes first: the first bytes after it may be the password.
        if scheme == "https" {
            stream = Stream::Tls(Box::new(at.secure(&self.tls_to_proxy, stream, deadline).await?));
        }
        let failed = |why: String| ConnectError::Proxy { proxy: at.to_string(), to: target.to_string(), why };
        let connected = Open(Some(TokioIo::new(stream)));
        if scheme.starts_with("socks5") {
            // `socks5h` leaves the name to the proxy.
            let to = match scheme {
                "socks5" => target.resolve(deadline).await?.first().map(SocketAddr::to_string),
                _ => Some(target.to_string()),
            };
            let to = to
                .and_then(|to| Uri::builder().scheme("http").authority(to).path_and_query("/").build().ok());
            let to = to.ok_or_else(|| failed("the name has no address".into()))?;
            let mut socks = SocksV5::new(proxy.uri().clone(), connected);
            if let Some((user, password)) = proxy.raw_auth() {
                socks = socks.with_auth(user.to_owned(), password.to_owned());
            }
            let agreed = async { socks.call(to).await.map_err(|error| failed(innermost(&error))) };
            let stream = deadline.bound("the proxy's handshake", agreed).await?;
            return Ok((stream.into_inner(), false));
        }
        if !secure {
            return Ok((connected.0.map(TokioIo::into_inner).ok_or(ConnectError::Late)?, true));
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), connected);
        if let Some(auth) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(sensitive(auth));
        }
        let to = Uri::builder().scheme("https").authority(target.to_string()).path_and_query("/").build();
        let to = to.map_err(|error| failed(error.to_string()))?;
        let agreed = async { tunnel.call(to).await.map_err(|error| failed(innermost(&error))) };
        let stream = deadline.bound("the proxy's handshake", agreed).await?;
        Ok((stream.into_inner(), false))
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("proxies", &self.proxies).finish_non_exhaustive()
    }
}

/// A host and a port.
struct Target {
    /// Without brackets.
    host: String,
    port: u16,
}

impl Target {
    fn of(uri: &Uri, default: u16) -> Target {
        let host = uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Target { host: host.to_owned(), port: uri.port_u16().unwrap_or(default) }
    }

    async fn resolve(&self, deadline: Deadline) -> Result<Vec<SocketAddr>, ConnectError> {
        let found = async {
            let found = tokio::net::lookup_host((&*self.host, self.port)).await;
            match found.map(Iterator::collect::<Vec<_>>) {
                Ok(addresses) if !addresses.is_empty() => Ok(addresses),
                Ok(_) => {
                    Err(ConnectError::Name { host: self.host.clone(), why: "it has no address".to_owned() })
                }
                Err(error) => Err(ConnectError::name(&self.host, &error)),
            }
        };
        deadline.bound("the name look-up", found).await
    }

    /// Connects to the address that answers first. If there is no descriptor, closes idle connections and tries again.
    async fn connect(
        &self,
        descriptors: &Descriptors,
        deadline: Deadline,
    ) -> Result<TcpStream, ConnectError> {
        loop {
            let connected = self.try_connect(deadline).await;
            let Err(why @ ConnectError::NoFile { .. }) = connected else { return connected };
            if !deadline.pause(descriptors.make_room(&why)).await {
                return Err(why);
            }
        }
    }

    async fn try_connect(&self, deadline: Deadline) -> Result<TcpStream, ConnectError> {
        let addresses = self.resolve(deadline).await?;
        let connected = async {
            let mut connector = HttpConnector::new_with_resolver(Resolved(addresses));
            connector.enforce_http(false);
            connector.set_nodelay(true);
            // The timeout is divided between the addresses, so that a silent one leaves time for the next.
            connector.set_connect_timeout(Some(deadline.within));
            let uri = Uri::builder().scheme("http").authority(self.to_string()).path_and_query("/").build();
            let uri = uri.map_err(|error| ConnectError::tcp(&self.to_string(), &error))?;
            let stream = connector.call(uri).await;
            stream.map(TokioIo::into_inner).map_err(|error| ConnectError::tcp(&self.to_string(), &error))
        };
        deadline.bound("the TCP connection", connected).await
    }

    async fn secure(
        &self,
        tls: &TlsConnector,
        stream: Stream,
        deadline: Deadline,
    ) -> Result<TlsStream<Stream>, ConnectError> {
        let name = ServerName::try_from(self.host.clone())
            .map_err(|error| ConnectError::Tls { at: self.to_string(), why: error.to_string() })?;
        let agreed = async {
            tls.connect(name, stream).await.map_err(|error| ConnectError::tls(&self.to_string(), &error))
        };
        deadline.bound("the TLS handshake", agreed).await
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Target { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// A resolver with a fixed answer.
#[derive(Clone)]
struct Resolved(Vec<SocketAddr>);

impl Service<Name> for Resolved {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Name) -> Self::Future {
        std::future::ready(Ok(std::mem::take(&mut self.0).into_iter()))
    }
}

/// A connector whose connection is open already.
struct Open(Option<TokioIo<Stream>>);

impl Service<Uri> for Open {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<TokioIo<Stream>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        std::future::ready(self.0.take().ok_or_else(|| io::ErrorKind::NotConnected.into()))
    }
}

/// Returns a TLS client that offers these protocols.
fn tls(protocols: &[&[u8]]) -> TlsConnector {
    let mut config = trusting();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

/// Trusts the system's certificate authorities, which are read once.
fn trusting() -> ClientConfig {
    static TLS: OnceLock<ClientConfig> = OnceLock::new();
    let read = || {
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let error = found.errors.first().map(ToString::to_string).unwrap_or_default();
            warn!(error, "there are no certificate authorities: no https upstream will be trusted");
        }
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring supports the default versions")
            .with_root_certificates(roots)
            .with_no_client_auth()
    };
    TLS.get_or_init(read).clone()
}

/// A connection, over TLS or not. Over a proxy that is spoken to over TLS, one is inside another.
pub(super) enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream<Stream>>),
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, into),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Tcp(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
