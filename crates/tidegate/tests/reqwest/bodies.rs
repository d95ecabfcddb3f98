//! Replies reach the caller as they came, and say what their calls cost.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use reqwest::Body;
use tidegate::{Call, Config, Gate};
use tokio::time::Instant;

use super::upstream::Upstream;
use super::{CHAT, client, gate, used};

const URL: &str = "http://api.example/v1/chat/completions";
const ANSWER: &str =
    r#"{"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 26, "total_tokens": 30}}"#;
const EVENTS: [&str; 3] = [
    "data: {\"choices\": [{\"delta\": {\"content\": \"sea\"}}]}\n\n",
    "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 4, \"completion_tokens\": 6, \"total_tokens\": 10}}\n\n",
    "data: [DONE]\n\n",
];

#[tokio::test(start_paused = true)]
async fn the_slot_is_held_until_the_body_has_ended_and_the_cost_is_what_it_says() {
    let (gate, upstream) = (gate(), Upstream::default().json(ANSWER));
    let reply = client(&gate, &upstream).post(URL).body(CHAT).send().await.expect("answered");
    assert_eq!(used(&gate), (1, 100), "four tokens asked, and 96 for the answer");
    assert_eq!(reply.content_length(), Some(ANSWER.len() as u64));
    assert_eq!(reply.url().as_str(), URL);
    assert_eq!(reply.text().await.expect("a body"), ANSWER);
    assert_eq!(used(&gate), (0, 30));
}

#[tokio::test(start_paused = true)]
async fn events_pass_as_they_come_and_are_settled_at_their_end() {
    let events = Events(EVENTS.to_vec().into_iter());
    let upstream =
        Upstream::default().then(200, &[("content-type", "text/event-stream")], Body::wrap(events));
    let gate = gate();
    let mut reply = client(&gate, &upstream).post(URL).body(CHAT).send().await.expect("answered");
    for event in EVENTS {
        assert_eq!(used(&gate), (1, 100));
        assert_eq!(reply.chunk().await.expect("not broken").expect("an event"), event);
    }
    assert_eq!(reply.chunk().await.expect("not broken"), None);
    assert_eq!(used(&gate), (0, 10));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_among_the_events_costs_nothing_and_keeps_calls_for_its_model_away() {
    let refusal =
        "data: {\"error\": {\"message\": \"Rate limit reached\", \"code\": \"rate_limit_exceeded\"}}\n\n";
    let events = Body::wrap(Events(vec![EVENTS[0], refusal].into_iter()));
    let upstream = Upstream::default().then(200, &[("content-type", "text/event-stream")], events);
    let gate = gate();
    let reply = client(&gate, &upstream).post(URL).body(CHAT).send().await.expect("answered");
    assert!(reply.text().await.expect("a body").ends_with(refusal));
    assert_eq!(used(&gate), (0, 0));
    let start = Instant::now();
    gate.acquire(Call::to("api").model("sea-2")).await.expect("in time").cancel();
    assert_eq!(start.elapsed(), Duration::ZERO);
    gate.acquire(Call::to("api").model("sea-1")).await.expect("in time").cancel();
    assert_eq!(start.elapsed(), Duration::from_secs(1), "the stream named no time");
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_not_read_to_its_end_keeps_what_was_reserved() {
    let events = Events(EVENTS.to_vec().into_iter());
    let upstream =
        Upstream::default().then(200, &[("content-type", "text/event-stream")], Body::wrap(events));
    let gate = gate();
    let mut reply = client(&gate, &upstream).post(URL).body(CHAT).send().await.expect("answered");
    reply.chunk().await.expect("not broken").expect("an event");
    drop(reply);
    assert_eq!(used(&gate), (0, 100));
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_settled_with_its_last_byte_though_nobody_asks_for_more() {
    let (gate, upstream) = (gate(), Upstream::default().json(ANSWER));
    let mut reply = client(&gate, &upstream).post(URL).body(CHAT).send().await.expect("answered");
    assert_eq!(reply.chunk().await.expect("not broken").expect("all of it"), ANSWER);
    assert_eq!(used(&gate), (0, 30));
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_nobody_reads_was_an_answer_all_the_same() {
    let config = "[services.api]\nbreaker = { failures = 1, open_for = \"30s\" }\n";
    let gate = Gate::builder().config(Config::parse(config).expect("valid")).build().expect("valid");
    let upstream = Upstream::default().then(500, &[], "").json(ANSWER);
    client(&gate, &upstream).post(URL).send().await.expect("answered");
    gate.try_acquire(Call::to("api")).expect_err("the breaker is open");
    tokio::time::sleep(Duration::from_secs(30)).await;
    drop(client(&gate, &upstream).post(URL).send().await.expect("the probe"));
    let both = [gate.try_acquire(Call::to("api")), gate.try_acquire(Call::to("api"))];
    assert!(both.iter().all(Result::is_ok), "the breaker is closed");
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_says_no_cost_keeps_what_was_reserved() {
    for (kind, body) in [("text/plain", ANSWER), ("application/json", r#"{"usage": {"prompt_tokens": 4}}"#)] {
        let (gate, upstream) = (gate(), Upstream::default().then(200, &[("content-type", kind)], body));
        let reply = client(&gate, &upstream).post(URL).body(CHAT).send().await.expect("answered");
        assert_eq!(reply.text().await.expect("a body"), body);
        assert_eq!(used(&gate), (0, 100), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_without_a_body_holds_nothing() {
    let (gate, upstream) = (gate(), Upstream::default().then(204, &[], ""));
    let _reply = client(&gate, &upstream).post(URL).body(CHAT).send().await.expect("answered");
    assert_eq!(used(&gate), (0, 100));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_off_is_broken_for_the_caller_too() {
    for status in [200, 400] {
        let pieces = vec![Ok("{\"usage\": "), Err(std::io::Error::other("broken off"))];
        let broken = Body::wrap(Breaks(pieces.into_iter()));
        let upstream = Upstream::default().then(status, &[("content-type", "application/json")], broken);
        let gate = gate();
        let mut reply = client(&gate, &upstream).post(URL).body(CHAT).send().await.expect("answered");
        assert_eq!(reply.chunk().await.expect("a beginning").expect("a beginning"), "{\"usage\": ");
        assert!(reply.chunk().await.is_err(), "{status}");
        assert_eq!(used(&gate), (0, 100), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_body_of_an_error_comes_whole_however_long_it_is() {
    let long = "sea ".repeat(100_000);
    let (gate, upstream) = (gate(), Upstream::default().then(400, &[], long.clone()));
    let reply = client(&gate, &upstream).post(URL).body(CHAT).send().await.expect("answered");
    assert_eq!((reply.content_length(), used(&gate).0), (Some(400_000), 0));
    assert!(reply.text().await.expect("a body") == long);
}

#[tokio::test(start_paused = true)]
async fn the_model_in_the_body_finds_its_limit() {
    let (gate, upstream) = (gate(), Upstream::default());
    let body = CHAT.replace("sea-1", "small-1");
    client(&gate, &upstream).post(URL).body(body).send().await.expect("answered");
    let small = gate.limit("api/model:small*/tokens/1h").expect("known");
    assert_eq!((small.used, used(&gate)), (100, (0, 100)));
}

#[tokio::test(start_paused = true)]
async fn a_request_may_say_itself_which_call_it_is() {
    let (gate, upstream) = (gate(), Upstream::default());
    let call = Call::to("api").tokens(7);
    client(&gate, &upstream).post(URL).body(CHAT).with_extension(call).send().await.expect("answered");
    assert_eq!(used(&gate), (0, 7));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_a_stream_counts_by_its_length_or_is_refused_as_the_config_says() {
    let gate = |unread: &str| {
        let config = format!("[services.api]\ntokens = \"1M/h\"\n{unread}");
        Gate::builder().config(Config::parse(&config).expect("valid")).build().expect("valid")
    };
    let stream = || Body::wrap(Events(vec![CHAT].into_iter()));
    let spent = |gate: &Gate| gate.limit("api/tokens/1h").expect("known").used;
    for (unread, length, tokens) in [
        ("", Some("4000"), 1_000),
        ("", None, 16_384),
        ("unread = \"estimate\"\n", Some("4000"), 1_000),
        ("unread = \"pass\"\n", Some("4000"), 0),
    ] {
        let (gate, upstream) = (gate(unread), Upstream::default());
        let mut request = client(&gate, &upstream).post(URL).body(stream());
        if let Some(length) = length {
            request = request.header("content-length", length);
        }
        request.send().await.expect("answered");
        assert_eq!(spent(&gate), tokens, "{unread} {length:?}");
    }
    let (gate, upstream) = (gate("unread = \"refuse\"\n"), Upstream::default());
    let error = client(&gate, &upstream).post(URL).body(stream()).send().await.expect_err("refused");
    assert!(error.to_string().contains("is a stream"), "{error}");
    assert_eq!((upstream.sent().len(), spent(&gate)), (0, 0));
    let stated = Call::to("api").model("sea-1").tokens(7);
    let request = client(&gate, &upstream).post(URL).body(stream()).with_extension(stated);
    request.send().await.expect("the program says what it costs");
    assert_eq!(spent(&gate), 7);
}

/// Pieces of a body, one after the other.
struct Events(std::vec::IntoIter<&'static str>);

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next().map(|event| Ok(Frame::data(event.into()))))
    }
}

/// A body that breaks off once, and has ended then.
struct Breaks(std::vec::IntoIter<Result<&'static str, std::io::Error>>);

impl http_body::Body for Breaks {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(self.0.next().map(|piece| piece.map(|piece| Frame::data(piece.into()))))
    }
}

/// Says something, and then nothing more for ever.
struct Stalled(Option<&'static str>);

impl http_body::Body for Stalled {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |text| Poll::Ready(Some(Ok(Frame::data(text.into())))))
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_whose_body_never_ends_is_understood_by_what_has_come() {
    let stalled = Body::wrap(Stalled(Some("{\"error\": ")));
    let upstream = Upstream::default().then(429, &[("retry-after", "7")], stalled).json(ANSWER);
    let (gate, start) = (gate(), Instant::now());
    let reply = client(&gate, &upstream).post(URL).body(CHAT).send();
    let others = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(used(&gate).0, 0, "its slot is free");
        assert_eq!(gate.backoffs().len(), 1, "and its window open");
    };
    let (reply, ()) = tokio::join!(reply, others);
    assert_eq!(reply.expect("the second time").text().await.expect("a body"), ANSWER);
    assert!((8..10).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}
