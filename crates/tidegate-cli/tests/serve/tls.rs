//! Upstreams over TLS: which certificates are trusted, and which protocol is spoken.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::ask;
use super::sidecar::{Folder, Sidecar};

/// Returns what a server on localhost needs to speak TLS, and the certificate that it shows.
pub fn acceptor(protocols: &[&str]) -> (TlsAcceptor, String) {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]);
    let signed = signed.expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("known")
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key)
        .expect("it fits");
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    (TlsAcceptor::from(Arc::new(config)), signed.cert.pem())
}

/// An HTTPS server that says which version of HTTP it was asked in, and the certificate that it shows.
fn secure_server(protocols: &[&str]) -> (SocketAddr, String) {
    let (acceptor, certificate) = acceptor(protocols);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            tell.send(listener.local_addr().expect("bound")).expect("it waits");
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(|request| async { Ok::<_, Infallible>(answer(request)) });
                    let builder = auto::Builder::new(TokioExecutor::new());
                    builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await.ok();
                });
            }
        });
    });
    (told.recv().expect("it listens"), certificate)
}

/// Which version it was asked in; where the connection is to become something else it does, and says that.
fn answer(mut request: Request<Incoming>) -> Response<Full<Bytes>> {
    let words = format!("{:?} {}", request.version(), request.uri().path());
    if !request.headers().contains_key("upgrade") {
        return Response::new(Full::new(Bytes::from(words)));
    }
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let mut stream = TokioIo::new(upgrade.await.expect("it was agreed"));
        stream.write_all(format!("switched from {words}").as_bytes()).await.expect("sent");
        stream.shutdown().await.ok();
    });
    let agreed = Response::builder().status(101).header("connection", "upgrade").header("upgrade", "sea");
    agreed.body(Full::default()).expect("a response")
}

/// The sidecar in front of it, and what it answers.
fn asked(server: SocketAddr, trusted: Option<&str>) -> String {
    asked_with(server, trusted, "")
}

fn asked_with(server: SocketAddr, trusted: Option<&str>, headers: &str) -> String {
    let config = format!(
        "[services.api]\nupstream = \"https://localhost:{}\"\nretry = {{ max_retries = 0 }}\n",
        server.port()
    );
    let folder = Folder::with("ca.pem", trusted.unwrap_or_default());
    let path = folder.0.join("ca.pem").display().to_string();
    let environment = [("SSL_CERT_FILE", &*path)];
    let sidecar = Sidecar::start(&config, if trusted.is_some() { &environment } else { &[] });
    ask(sidecar.address, "/api/x", headers)
}

#[test]
fn the_systems_authorities_are_trusted_and_http2_is_spoken_where_it_can_be() {
    let (server, certificate) = secure_server(&["h2", "http/1.1"]);
    let said = asked(server, Some(&certificate));
    assert!(said.starts_with("HTTP/1.1 200 OK") && said.ends_with("HTTP/2.0 /x"), "{said}");
    let (server, certificate) = secure_server(&["http/1.1"]);
    let said = asked(server, Some(&certificate));
    assert!(said.ends_with("HTTP/1.1 /x"), "{said}");
}

#[test]
fn a_connection_becomes_something_else_though_http2_could_be_spoken() {
    let (server, certificate) = secure_server(&["h2", "http/1.1"]);
    let said = asked_with(server, Some(&certificate), "connection: upgrade\r\nupgrade: sea\r\n");
    assert!(said.starts_with("HTTP/1.1 101") && said.ends_with("switched from HTTP/1.1 /x"), "{said}");
}

#[test]
fn nobody_else_is_trusted() {
    let (server, _) = secure_server(&["http/1.1"]);
    let (_, other) = secure_server(&["http/1.1"]);
    for trusted in [None, Some(&*other)] {
        let said = asked(server, trusted);
        assert!(said.starts_with("HTTP/1.1 502") && said.contains("upstream_unreachable"), "{said}");
        assert!(said.contains("the TLS handshake with localhost") && said.contains("certificate"), "{said}");
    }
}
