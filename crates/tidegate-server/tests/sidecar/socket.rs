//! The Unix socket: its rights, and what happens to its file.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::*;

/// A path of its own, in the folder for such things.
fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tidegate-{}-{name}.sock", std::process::id()))
}

fn on(path: &PathBuf, config: &str) -> ServerBuilder {
    let config = Config::parse(config).expect("valid");
    Server::builder().config(config).listen("127.0.0.1:0").socket(path)
}

async fn ask(path: &PathBuf, request: &str) -> String {
    let mut stream = UnixStream::connect(path).await.expect("it listens");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut said = String::new();
    stream.read_to_string(&mut said).await.expect("an answer");
    said
}

#[tokio::test]
async fn permits_are_had_over_a_socket_that_is_closed_to_others_and_goes_with_the_sidecar() {
    let path = path("use");
    let server = started(on(&path, "[services.git]\nconcurrency = 1\n")).await;
    let mode = std::fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let body = r#"{"service": "git"}"#;
    // Its host may be any: no page reaches it.
    let request = format!(
        "POST /v1/acquire HTTP/1.1\r\nhost: whatever\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let said = ask(&path, &request).await;
    assert!(said.starts_with("HTTP/1.1 200") && said.contains("\"permit\""), "{said}");
    assert_eq!(limit(&server, "git/concurrency").await["used"], 1);
    server.stop(Duration::from_secs(5)).await;
    assert!(!path.exists());
}

#[tokio::test]
async fn a_socket_that_was_left_behind_is_replaced_and_one_in_use_is_not() {
    let path = path("stale");
    drop(UnixListener::bind(&path).expect("a socket"));
    assert!(path.exists(), "left behind");
    let server = started(on(&path, "")).await;
    let second = on(&path, "").start().await.expect_err("in use");
    assert!(second.to_string().contains("the socket is in use"), "{second}");
    let said = ask(&path, "GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    drop(server);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_file_that_is_no_socket_is_left_alone() {
    let path = path("file");
    std::fs::write(&path, "precious").expect("written");
    let error = on(&path, "").start().await.expect_err("not so");
    assert!(error.to_string().contains("no socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).expect("there"), "precious");
    std::fs::remove_file(&path).expect("removed");
}

#[tokio::test]
async fn a_socket_of_somebody_else_in_its_place_is_not_removed() {
    let path = path("other");
    let server = started(on(&path, "")).await;
    std::fs::remove_file(&path).expect("removed");
    let _other = UnixListener::bind(&path).expect("a socket");
    server.stop(Duration::from_secs(5)).await;
    assert!(path.exists());
    std::fs::remove_file(&path).expect("removed");
}
