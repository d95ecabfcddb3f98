//! Connections that are closed to make room for new ones.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::get;
use super::script::Script;
use super::*;

/// A client that says that it speaks HTTP/2, and then nothing more: no ping of the sidecar's is ever answered.
async fn silent(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("sent");
    // Empty SETTINGS.
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.expect("sent");
    // The sidecar's own: from here on HTTP/2 is spoken.
    stream.read_exact(&mut [0; 9]).await.expect("SETTINGS");
    stream
}

#[tokio::test]
async fn an_idle_http2_client_that_does_not_answer_makes_room_all_the_same() {
    let server = started(builder("http://127.0.0.1:1", "").max_connections(2)).await;
    let _silent = (silent(server.address()).await, silent(server.address()).await);
    let answer = tokio::time::timeout(Duration::from_secs(20), get(&server, "/healthz")).await;
    assert_eq!(answer.expect("pings are waited for up to two minutes").status, 200);
}

/// A reply that is sent for long is no idle connection, though its call was answered long ago.
#[tokio::test]
async fn a_stream_that_is_being_sent_is_not_closed_to_make_room() {
    let upstream = Script::plays(|mut stage| async move {
        stage.say("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nsea ").await;
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        stage.say("well").await;
    })
    .await;
    let server = started(builder(&upstream.url(), "").max_connections(1)).await;
    let stream = TcpStream::connect(server.address()).await.expect("it listens");
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("HTTP/2");
    let connection = tokio::spawn(connection);
    let request = Request::get(format!("{}/api/x", server.url())).body(Empty::<Bytes>::new());
    let reply = sender.send_request(request.expect("a request")).await.expect("a head");
    // All places are taken: this one waits until the other client has gone.
    let waits = get(&server, "/healthz");
    let read = async {
        let body = reply.into_body().collect().await.expect("it is whole").to_bytes();
        connection.abort();
        body
    };
    let (answer, body) = tokio::join!(waits, read);
    assert_eq!((answer.status.as_u16(), &*body), (200, &b"sea well"[..]));
}
