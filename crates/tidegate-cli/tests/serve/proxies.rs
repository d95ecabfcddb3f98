//! Through a proxy, where the environment names one.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use super::sidecar::{Folder, Sidecar, command};
use super::tls::acceptor;
use super::{WELL, ask, somebody};

const CONFIG: &str = "[services.plain]\nupstream = \"http://api.example/base\"\n\
    [services.secure]\nupstream = \"https://api.example\"\nretry = { max_retries = 0 }\n\
    [services.direct]\nupstream = \"http://direct.example\"\nretry = { max_retries = 0 }\n";

#[test]
fn http_goes_through_its_proxy_as_a_whole_url() {
    let (proxy, asked) = somebody(WELL);
    let url = format!("http://me:word@{proxy}");
    let sidecar = Sidecar::start(CONFIG, &[("HTTP_PROXY", &url), ("NO_PROXY", "direct.example")]);
    assert!(ask(sidecar.address, "/plain/x", "").ends_with("well"));
    let request = asked.recv().expect("asked").to_ascii_lowercase();
    assert!(request.starts_with("get http://api.example/base/x http/1.1\r\n"), "{request}");
    assert!(request.contains("host: api.example\r\n"), "{request}");
    assert!(request.contains("proxy-authorization: basic bwu6d29yza=="), "{request}");
    // A name that exists nowhere: it was not asked of the proxy.
    assert!(ask(sidecar.address, "/direct/x", "").contains("upstream_unreachable"));
    assert!(asked.try_recv().is_err());
}

#[test]
fn https_goes_through_a_tunnel() {
    let (proxy, asked) = somebody("HTTP/1.1 502 Bad Gateway\r\nconnection: close\r\n\r\n");
    let url = format!("http://me:word@{proxy}");
    let sidecar = Sidecar::start(CONFIG, &[("HTTPS_PROXY", &url)]);
    assert!(
        ask(sidecar.address, "/secure/x", "authorization: Bearer hunter2\r\n")
            .contains("upstream_unreachable")
    );
    let request = asked.recv().expect("asked").to_ascii_lowercase();
    assert!(request.starts_with("connect api.example:443 http/1.1\r\n"), "{request}");
    assert!(request.contains("proxy-authorization: basic bwu6d29yza=="), "{request}");
    assert!(!request.contains("hunter2"), "the proxy learns no key: {request}");
}

#[test]
fn what_is_on_this_machine_needs_no_proxy() {
    let (proxy, asked) = somebody(WELL);
    let (upstream, _asked) = somebody(WELL);
    let config = format!("[services.api]\nupstream = \"http://{upstream}\"\n");
    let sidecar = Sidecar::start(&config, &[("HTTP_PROXY", &format!("http://{proxy}"))]);
    assert!(ask(sidecar.address, "/api/x", "").ends_with("well"));
    assert!(asked.try_recv().is_err());
}

/// The password of a proxy that is named by an `https` URL goes over TLS, and so does all the rest.
#[test]
fn a_proxy_that_is_named_as_secure_is_spoken_to_over_tls() {
    let (acceptor, certificate) = acceptor(&[]);
    let (tell, told) = channel();
    let (listening, listens) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            listening.send(listener.local_addr().expect("bound")).expect("it waits");
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                let mut first = [0];
                stream.peek(&mut first).await.expect("a byte");
                let mut stream = acceptor.accept(stream).await.expect("TLS");
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(tokio::io::AsyncReadExt::read_u8(&mut stream).await.expect("a byte"));
                }
                tokio::io::AsyncWriteExt::write_all(&mut stream, WELL.as_bytes()).await.expect("sent");
                tokio::io::AsyncWriteExt::shutdown(&mut stream).await.ok();
                tell.send((first[0], String::from_utf8_lossy(&request).to_ascii_lowercase())).ok();
            }
        });
    });
    let proxy: SocketAddr = listens.recv().expect("it listens");
    let url = format!("https://me:word@localhost:{}", proxy.port());
    let folder = Folder::with("ca.pem", &certificate);
    let trusted = folder.0.join("ca.pem").display().to_string();
    let environment = [("ALL_PROXY", &*url), ("SSL_CERT_FILE", &*trusted)];
    let sidecar = Sidecar::start(CONFIG, &environment);
    assert!(ask(sidecar.address, "/plain/x", "").ends_with("well"));
    let (first, request) = told.recv().expect("asked");
    assert_eq!(first, 22, "a TLS handshake, before anything else");
    assert!(request.starts_with("get http://api.example/base/x http/1.1\r\n"), "{request}");
    assert!(request.contains("proxy-authorization: basic bwu6d29yza=="), "{request}");
    // The tunnel is made, and what answers in it is no TLS server.
    assert!(ask(sidecar.address, "/secure/x", "").contains("the TLS handshake with api.example:443 failed"));
    let (first, request) = told.recv().expect("asked");
    assert_eq!(first, 22);
    assert!(request.starts_with("connect api.example:443 http/1.1\r\n"), "{request}");
}

/// A SOCKS5 proxy with a password that answers as if it were the upstream. Tells what it was asked for, and in HTTP.
fn socks() -> (SocketAddr, Receiver<(Vec<u8>, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let exact = |stream: &mut TcpStream, length: usize| {
                let mut bytes = vec![0; length];
                stream.read_exact(&mut bytes).map(|()| bytes).unwrap_or_default()
            };
            let methods = exact(&mut stream, 2)[1];
            exact(&mut stream, methods.into());
            stream.write_all(&[5, 2]).expect("sent");
            // Version 1, "me", "word".
            let mut asked = exact(&mut stream, 1 + 1 + 2 + 1 + 4);
            stream.write_all(&[1, 0]).expect("sent");
            asked.extend(exact(&mut stream, 4));
            let length = exact(&mut stream, 1)[0];
            asked.extend(exact(&mut stream, usize::from(length) + 2));
            stream.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 80]).expect("sent");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.extend(exact(&mut stream, 1));
            }
            stream.write_all(WELL.as_bytes()).expect("sent");
            tell.send((asked, String::from_utf8_lossy(&request).into_owned())).ok();
        }
    });
    (address, told)
}

#[test]
fn a_socks_proxy_is_spoken_to_in_its_own_protocol() {
    let (proxy, asked) = socks();
    let sidecar = Sidecar::start(CONFIG, &[("ALL_PROXY", &format!("socks5h://me:word@{proxy}"))]);
    assert!(ask(sidecar.address, "/plain/x", "").ends_with("well"));
    let (asked, request) = asked.recv().expect("asked");
    assert_eq!(asked, [b"\x01\x02me\x04word\x05\x01\x00\x03api.example".as_slice(), &[0, 80]].concat());
    assert!(request.starts_with("GET /base/x HTTP/1.1\r\n"), "{request}");
    assert!(!request.to_ascii_lowercase().contains("proxy-authorization"), "{request}");
}

#[test]
fn a_proxy_that_cannot_be_used_is_refused_at_start_without_its_password() {
    let folder = Folder::with("tidegate.toml", CONFIG);
    let mut command = command(&folder);
    command.args(["--listen", "127.0.0.1:0"]).env("HTTPS_PROXY", "socks4://me:hunter2@127.0.0.1:1");
    let output = command.output().expect("ran");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("HTTPS_PROXY: a `socks4` proxy is not supported"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}
