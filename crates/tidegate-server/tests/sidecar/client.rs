//! A client: one connection a request, and bytes as they are where that matters.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tidegate_server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// A reply whose body is still to be read, and the connection that it comes on.
pub struct Open {
    pub response: Response<Incoming>,
    pub connection: JoinHandle<()>,
}

impl Open {
    /// The next bytes.
    pub async fn next(&mut self) -> Option<String> {
        let frame = self.response.body_mut().frame().await?.expect("a frame");
        frame.into_data().ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Goes away without another word.
    pub fn hang_up(self) {
        self.connection.abort();
    }

    async fn whole(self) -> Result<Reply, hyper::Error> {
        let (parts, body) = self.response.into_parts();
        let body = body.collect().await?.to_bytes();
        self.connection.abort();
        Ok(Reply { status: parts.status, headers: parts.headers, body })
    }
}

/// Sends a request and waits for the head of its reply.
pub async fn open(
    server: &Server,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Result<Open, hyper::Error> {
    let stream = TcpStream::connect(server.address()).await.expect("it listens");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(async { drop(connection.await) });
    let mut request = Request::builder().method(method).uri(path);
    if headers.iter().all(|(name, _)| *name != "host") {
        request = request.header("host", "localhost");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = sender.send_request(request.body(Full::new(body.into())).expect("a request")).await?;
    Ok(Open { response, connection })
}

/// Sends a request and reads the whole answer, if there is one.
pub async fn send(
    server: &Server,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Result<Reply, hyper::Error> {
    open(server, method, path, headers, body).await?.whole().await
}

pub async fn get(server: &Server, path: &str) -> Reply {
    send(server, "GET", path, &[], "").await.expect("an answer")
}

pub async fn post(server: &Server, path: &str, body: impl Into<Bytes>) -> Reply {
    send(server, "POST", path, &[("content-type", "application/json")], body).await.expect("an answer")
}

/// The same over HTTP/2.
pub async fn post_http2(server: &Server, path: &str, body: &'static str) -> Reply {
    post_http2_at(server.address(), path, body).await
}

/// The same to a server by its address, which may stop meanwhile.
pub async fn post_http2_at(address: SocketAddr, path: &str, body: &'static str) -> Reply {
    let stream = TcpStream::connect(address).await.expect("it listens");
    let io = TokioIo::new(stream);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.expect("it speaks HTTP/2");
    let connection = tokio::spawn(async { drop(connection.await) });
    let request = Request::post(format!("http://{address}{path}")).body(Full::new(Bytes::from(body)));
    let response = sender.send_request(request.expect("a request")).await.expect("an answer");
    Open { response, connection }.whole().await.expect("a body")
}

/// Sends bytes as they are and reads until the other side closes, or for half a minute.
pub async fn raw(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address()).await.expect("it listens");
    // It may have answered and closed before it has read all.
    stream.write_all(bytes).await.ok();
    let mut said = Vec::new();
    let read = stream.read_to_end(&mut said);
    tokio::time::timeout(Duration::from_secs(30), read).await.expect("an end").ok();
    String::from_utf8_lossy(&said).into_owned()
}
