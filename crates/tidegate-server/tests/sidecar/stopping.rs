//! The end of a sidecar, and another config while it runs.

use std::sync::Arc;

use tokio::sync::Notify;

use super::client::{open, post};
use super::script::Script;
use super::*;

const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n";

#[tokio::test]
async fn what_is_under_way_ends_and_nothing_new_begins() {
    let go_on = Arc::new(Notify::new());
    let told = go_on.clone();
    let upstream = Script::plays(move |mut stage| {
        let told = told.clone();
        async move {
            stage.say(EVENTS).await;
            told.notified().await;
            stage.say("data: 2\n\n").await;
        }
    })
    .await;
    let server = sidecar(&upstream.url(), "").await;
    let address = server.address();
    let mut stream = open(&server, "GET", "/api/x", &[], "").await.expect("a head");
    assert_eq!(stream.next().await, Some("data: 1\n\n".into()));
    let stopping = tokio::spawn(server.stop(Duration::from_secs(30)));
    until(|| async { tokio::net::TcpStream::connect(address).await.is_err() }).await;
    go_on.notify_one();
    assert_eq!(stream.next().await, Some("data: 2\n\n".into()));
    assert_eq!(stream.next().await, None);
    stopping.await.expect("stopped");
}

#[tokio::test]
async fn what_takes_too_long_is_cut_off() {
    let upstream = Script::plays(|mut stage| async move {
        stage.say(EVENTS).await;
        stage.until_gone().await;
    })
    .await;
    let server = sidecar(&upstream.url(), "").await;
    let mut stream = open(&server, "GET", "/api/x", &[], "").await.expect("a head");
    assert_eq!(stream.next().await, Some("data: 1\n\n".into()));
    let gate = server.gate().clone();
    tokio::time::timeout(Duration::from_secs(10), server.stop(Duration::from_millis(100)))
        .await
        .expect("stopped");
    assert_eq!(gate.limit("api/concurrency").expect("known").used, 0);
}

#[tokio::test]
async fn another_config_comes_into_force_and_a_bad_one_does_not() {
    let upstream = upstream(&[]).await;
    let server = sidecar(&upstream.url(), "requests = \"60/min\"").await;
    post(&server, "/api/x", "").await;
    let other = format!(
        "[services.api]\nupstream = \"{}\"\nrequests = \"90/min\"\n[services.more]\n",
        upstream.url()
    );
    server.reconfigure(Config::parse(&other).expect("valid")).expect("in force");
    let changed = limit(&server, "api/requests/1m").await;
    assert_eq!((changed["capacity"].as_u64(), changed["used"].as_u64()), (Some(90), Some(1)));
    let bad = "[services.api]\nupstream = \"http://me:secret@127.0.0.1\"\n";
    assert!(server.reconfigure(Config::parse(bad).expect("well written")).is_err());
    assert_eq!(limit(&server, "api/requests/1m").await["capacity"], 90);
    assert_eq!(post(&server, "/more/x", "").await.json()["error"]["code"], "no_upstream");
}
