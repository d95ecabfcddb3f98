//! A plain HTTP client: one connection a request.

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tidegate_core::reply::{Reader, Reading, UnixMillis};
use tidegate_core::vendors::by_name;
use tidegate_sim::upstream::http::LimitedServer;
use tokio::net::TcpStream;

#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }

    /// What the engine understands of it.
    pub fn read(&self, vendor: &str) -> Reading {
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let now = UnixMillis(0);
        Reader::of(by_name(vendor).unwrap()).read(self.status.as_u16(), headers, &self.body, now)
    }
}

/// Sends a request and reads the whole answer, if there is one.
pub async fn send(
    server: &LimitedServer,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Result<Reply, hyper::Error> {
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let reply = sender.send_request(request.body(Full::new(body.into())).unwrap()).await?;
    let (parts, body) = reply.into_parts();
    let body = body.collect().await?.to_bytes();
    driver.abort();
    Ok(Reply { status: parts.status, headers: parts.headers, body })
}

pub async fn get(server: &LimitedServer, path: &str) -> Reply {
    send(server, "GET", path, &[], "").await.unwrap()
}

pub async fn post(server: &LimitedServer, path: &str, body: &Value) -> Reply {
    send(server, "POST", path, &[], body.to_string()).await.unwrap()
}
