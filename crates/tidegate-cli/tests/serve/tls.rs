//! Upstreams over TLS: who is trusted, and what is spoken.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::ask;
use super::sidecar::{Folder, Sidecar};

/// An HTTPS server that says which version of HTTP it was asked in, and the certificate that it shows.
fn secure_server(protocols: &[&str]) -> (SocketAddr, String) {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("known")
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key)
        .expect("it fits");
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
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
                    let service = service_fn(|request: Request<_>| async move {
                        let words = format!("{:?} {}", request.version(), request.uri().path());
                        Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from(words))))
                    });
                    let builder = auto::Builder::new(TokioExecutor::new());
                    builder.serve_connection(TokioIo::new(stream), service).await.ok();
                });
            }
        });
    });
    (told.recv().expect("it listens"), signed.cert.pem())
}

/// The sidecar in front of it, and what it answers.
fn asked(server: SocketAddr, trusted: Option<&str>) -> String {
    let config = format!(
        "[services.api]\nupstream = \"https://localhost:{}\"\nretry = {{ max_retries = 0 }}\n",
        server.port()
    );
    let folder = Folder::with("ca.pem", trusted.unwrap_or_default());
    let path = folder.0.join("ca.pem").display().to_string();
    let environment = [("SSL_CERT_FILE", &*path)];
    let sidecar = Sidecar::start(&config, if trusted.is_some() { &environment } else { &[] });
    ask(sidecar.address, "/api/x", "")
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
fn nobody_else_is_trusted() {
    let (server, _) = secure_server(&["http/1.1"]);
    let (_, other) = secure_server(&["http/1.1"]);
    for trusted in [None, Some(&*other)] {
        let said = asked(server, trusted);
        assert!(said.starts_with("HTTP/1.1 502") && said.contains("upstream_unreachable"), "{said}");
    }
}
