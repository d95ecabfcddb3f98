//! How much memory waiting requests take.

use super::client::post;
use super::script::{Script, reply};
use super::*;

#[tokio::test]
async fn bodies_beyond_the_memory_are_not_read_until_they_may_go() {
    let upstream = Script::says(reply("200 OK", "", "well")).await;
    let config = format!(
        "buffer_memory = \"64KiB\"\n[services.api]\nupstream = \"{}\"\nconcurrency = 100\nrequests = {{ limit = \"120/min\", burst = 1 }}\n",
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
            status["waiting"] == 2 && status["buffered_bytes"] == 40 << 10
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
