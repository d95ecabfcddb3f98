//! What is sent again, when, and what comes back.

use std::time::Duration;

use reqwest::Body;
use reqwest_middleware::ClientBuilder;
use tidegate::reqwest::{Attempts, Limited};
use tidegate::{Call, Reason, Refused};
use tokio::time::Instant;

use super::upstream::Upstream;
use super::{CHAT, client, gate, limited, used};

const URL: &str = "http://api.example/v1/things?page=2";

#[tokio::test(start_paused = true)]
async fn a_refused_request_is_sent_again_when_its_retry_after_is_over() {
    let upstream = Upstream::default().then(429, &[("retry-after", "20")], "").then(200, &[], "fine");
    let reply = client(&gate(), &upstream).post(URL).body(CHAT).send().await.expect("answered");
    let attempts = *reply.extensions().get::<Attempts>().expect("told");
    assert_eq!((attempts.count, reply.url().as_str()), (2, URL));
    assert_eq!(reply.text().await.expect("a body"), "fine");
    let sent = upstream.sent();
    let pause = sent[1].at - sent[0].at - Duration::from_millis(500);
    assert!((20_000..=22_100).contains(&pause.as_millis()), "{pause:?}");
    assert_eq!(attempts.waited.as_secs(), pause.as_secs());
}

#[tokio::test(start_paused = true)]
async fn every_attempt_gets_the_same_body() {
    let busy = |upstream: Upstream| upstream.then(429, &[("retry-after-ms", "100")], "");
    let upstream = busy(busy(Upstream::default()));
    let reply = client(&gate(), &upstream).post(URL).body(CHAT).send().await.expect("answered");
    assert!(reply.status().is_success());
    let bodies: Vec<_> = upstream.sent().into_iter().map(|sent| sent.body).collect();
    assert_eq!(bodies, [CHAT.as_bytes(); 3]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_only_the_body_tells_is_waited() {
    let upstream = Upstream::default().then(
        429,
        &[("content-type", "application/json")],
        r#"{"error": {"message": "Rate limit reached. Please try again in 7s.", "code": "rate_limit_exceeded"}}"#,
    );
    let start = Instant::now();
    client(&gate(), &upstream).get(URL).send().await.expect("answered");
    assert!((8_000..=8_800).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn after_an_error_only_what_does_no_harm_twice_is_sent_again() {
    let failing = || Upstream::default().then(503, &[], "down");
    let gate = gate();

    let upstream = failing();
    let reply = client(&gate, &upstream).post(URL).send().await.expect("answered");
    assert_eq!((reply.status().as_u16(), upstream.sent().len()), (503, 1), "a bare POST");

    let upstream = failing();
    client(&gate, &upstream).get(URL).send().await.expect("answered");
    assert_eq!(upstream.sent().len(), 2, "by its method");

    let upstream = failing();
    client(&gate, &upstream).post(URL).header("idempotency-key", "7").send().await.expect("answered");
    assert_eq!(upstream.sent().len(), 2, "by its key");

    let upstream = failing();
    let all = limited(Limited::new(gate.clone(), Call::to("api")).repeatable(), &upstream);
    all.post(URL).send().await.expect("answered");
    assert_eq!(upstream.sent().len(), 2, "by the program's word");

    for (path, times) in [("chat/completions", 2), ("files", 1)] {
        let upstream = failing();
        let openai = limited(Limited::new(gate.clone(), Call::to("openai")), &upstream);
        openai.post(format!("http://api.example/v1/{path}")).send().await.expect("answered");
        assert_eq!(upstream.sent().len(), times, "by the preset: {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_upstream_said_last_is_what_comes_back() {
    let upstream = Upstream::default()
        .then(429, &[("retry-after", "1")], "first")
        .then(429, &[("retry-after", "1")], "second")
        .then(429, &[("retry-after", "1")], "third");
    let reply = client(&gate(), &upstream).get(URL).send().await.expect("answered");
    assert_eq!((reply.status().as_u16(), upstream.sent().len()), (429, 3));
    assert_eq!(reply.headers()["retry-after"], "1");
    assert_eq!(reply.text().await.expect("a body"), "third");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_wrong_is_not_sent_again() {
    let upstream = Upstream::default().then(400, &[], "what?");
    let reply = client(&gate(), &upstream).get(URL).send().await.expect("answered");
    assert_eq!((reply.status().as_u16(), upstream.sent().len()), (400, 1));
    assert_eq!(reply.text().await.expect("a body"), "what?");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_a_stream_is_sent_once() {
    let upstream = Upstream::default().then(429, &[("retry-after", "1")], "");
    let body = Body::wrap(http_body_util::Full::new(&b"once"[..]));
    let reply = client(&gate(), &upstream).put(URL).body(body).send().await.expect("answered");
    assert_eq!(reply.status().as_u16(), 429);
    let sent = upstream.sent();
    assert_eq!((sent.len(), &sent[0].body[..]), (1, &b"once"[..]));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_gate_is_typed_and_nothing_is_sent() {
    let (gate, upstream) = (gate(), Upstream::default());
    let _held = gate.try_acquire(Call::to("api")).expect("free");
    let call = Call::to("api").timeout(Duration::from_secs(5));
    let error = client(&gate, &upstream).get(URL).with_extension(call).send().await.expect_err("refused");
    let reqwest_middleware::Error::Middleware(error) = error else { panic!("{error}") };
    let refused: &Refused = error.downcast_ref().expect("typed");
    assert_eq!((refused.reason(), refused.limit()), (&Reason::Timeout, Some("api/concurrency")));
    assert_eq!(upstream.sent(), []);
}

#[tokio::test(start_paused = true)]
async fn what_never_connected_is_sent_again_whatever_it_is() {
    let gate = gate();
    let nobody =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let client = ClientBuilder::new(reqwest::Client::new()).with(Limited::new(gate.clone(), Call::to("api")));
    let error = client.build().post(format!("http://{nobody}/")).send().await.expect_err("nobody there");
    assert!(error.is_connect(), "{error}");
    assert_eq!((gate.counts("api").expect("known").granted, used(&gate).0), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn after_a_429_all_requests_of_the_gate_stay_away() {
    let gate = gate();
    let upstream = Upstream::default().then(429, &[("retry-after", "20")], "");
    let body = Body::wrap(http_body_util::Full::new(&b"once"[..]));
    client(&gate, &upstream).put(URL).body(body).send().await.expect("answered");
    client(&gate, &upstream).get(URL).send().await.expect("answered");
    let sent = upstream.sent();
    assert_eq!(sent[1].at - sent[0].at, Duration::from_millis(20_500));
}
