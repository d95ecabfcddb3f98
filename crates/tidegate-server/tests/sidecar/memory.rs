//! How much memory waiting requests take.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{post, send};
use super::script::{Script, reply};
use super::*;

#[tokio::test]
async fn bodies_beyond_the_memory_are_not_read_until_they_may_go() {
    let upstream = Script::says(reply("200 OK", "", "well")).await;
    let config = format!(
        "buffer_memory = \"256KiB\"\n[services.api]\nupstream = \"{}\"\nconcurrency = 100\nrequests = {{ limit = \"120/min\", burst = 1 }}\n",
        upstream.url()
    );
    let config = Config::parse(&config).expect("valid");
    let server = started(Server::builder().config(config).listen("127.0.0.1:0")).await;
    post(&server, "/api/x", "").await;
    let body = "x".repeat(40 << 10);
    let (one, other, ()) = tokio::join!(
        post(&server, "/api/x", body.clone()),
        post(&server, "/api/x", body.clone()),
        until(|| async {
            let status = status(&server).await;
            // One loop of this machine gets a quarter. The other body is read as far as there is room.
            let bytes = status["buffered_bytes"].as_u64().expect("a number");
            status["waiting"] == 2 && (40 << 10..=64 << 10).contains(&bytes)
        }),
    );
    assert_eq!((one.text(), other.text()), ("well".into(), "well".into()));
    let lengths: Vec<usize> = upstream
        .requests()
        .iter()
        .map(|request| request.split_once("\r\n\r\n").expect("a body").1.len())
        .collect();
    assert_eq!(lengths, [0, body.len(), body.len()]);
    holds_nothing(&server).await;
}

/// A sidecar with 64 MiB for bodies, and limits that count what it understood.
async fn counting(upstream: &str) -> Server {
    let config = format!(
        "buffer_memory = \"64MiB\"\n[services.api]\nupstream = \"{upstream}\"\nconcurrency = 100\n\
         [services.api.models.\"gpt-4o*\"]\nrequests = {{ limit = \"1000/h\", burst = 1000 }}\ntokens = {{ limit = \"1G/h\", burst = \"1G\" }}\n"
    );
    let config = Config::parse(&config).expect("valid");
    started(Server::builder().config(config).listen("127.0.0.1:0")).await
}

#[tokio::test]
async fn what_is_only_announced_takes_no_memory_and_no_accounting() {
    let upstream = Script::says(reply("200 OK", "", "well")).await;
    let server = counting(&upstream.url()).await;
    let mut silent = Vec::new();
    for _ in 0..32 {
        let mut stream = TcpStream::connect(server.address()).await.expect("it listens");
        let head = "POST /api/x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 8388608\r\n\r\n{";
        stream.write_all(head.as_bytes()).await.expect("sent");
        silent.push(stream);
    }
    until(|| async { status(&server).await["calls"] == 32 }).await;
    assert!(status(&server).await["buffered_bytes"].as_u64().expect("a number") <= 32);
    assert_eq!(post(&server, "/api/v1/chat/completions", CHAT).await.text(), "well");
    assert_eq!(limit(&server, "api/model:gpt-4o*/requests/1h").await["used"], 1);
    drop(silent);
    holds_nothing(&server).await;
}

#[tokio::test]
async fn a_call_for_which_there_is_no_memory_is_accounted_for_by_its_beginning_and_its_length() {
    let upstream = Script::says(reply("200 OK", "", "well")).await;
    let server = counting(&upstream.url()).await;
    let small = Config::parse(&format!(
        "buffer_memory = \"1KiB\"\n[services.api]\nupstream = \"{}\"\nconcurrency = 100\n\
         [services.api.models.\"gpt-4o*\"]\ntokens = {{ limit = \"1G/h\", burst = \"1G\" }}\n",
        upstream.url()
    ));
    server.reconfigure(small.expect("valid")).expect("valid");
    let body = format!(r#"{{"model": "gpt-4o", "input": "{}"}}"#, "sea ".repeat(50_000));
    let sent = send(&server, "POST", "/api/v1/responses", &[], body.clone()).await.expect("an answer");
    assert_eq!(sent.text(), "well");
    assert_eq!(limit(&server, "api/model:gpt-4o*/tokens/1h").await["used"], body.len().div_ceil(4));
    assert!(upstream.requests().pop().expect("asked").ends_with(&body));
    holds_nothing(&server).await;
}

#[tokio::test]
async fn a_loop_whose_bodies_wait_takes_no_other_loops_accounting_away() {
    let upstream = Script::says(reply("200 OK", "", "well")).await;
    let config = format!(
        "buffer_memory = \"8MiB\"\n\
         [services.api]\nupstream = \"{0}\"\nconcurrency = 100\nrequests = {{ limit = \"1/h\", burst = 1 }}\n\
         queue = {{ timeout = \"48h\" }}\n\
         [services.chat]\nupstream = \"{0}\"\ntokens = {{ limit = \"1G/h\", burst = \"1G\" }}\n",
        upstream.url()
    );
    let config = Config::parse(&config).expect("valid");
    let server = started(Server::builder().config(config).listen("127.0.0.1:0")).await;
    post(&server, "/api/x", "").await;
    let address = server.address();
    let waits = || async move {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let head = "POST /~greedy/api/x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1048576\r\n\r\n";
        stream.write_all(head.as_bytes()).await.expect("sent");
        stream.write_all(&[b'x'; 1 << 20]).await.expect("sent");
        stream.read_to_end(&mut Vec::new()).await.ok();
    };
    let greedy: Vec<_> = (0..12).map(|_| tokio::spawn(waits())).collect();
    until(|| async { status(&server).await["waiting"] == 12 }).await;
    let taken = status(&server).await["buffered_bytes"].as_u64().expect("a number");
    assert!(taken <= 2 << 20, "a quarter of all: {taken}");
    // Read as a whole: 4 tokens for the question, and up to 8 for the answer.
    assert_eq!(post(&server, "/~modest/chat/v1/chat/completions", CHAT).await.text(), "well");
    assert_eq!(limit(&server, "chat/tokens/1h").await["used"], 12);
    greedy.iter().for_each(tokio::task::JoinHandle::abort);
}
