//! Which failures are worth another attempt.

use super::*;

/// Who says when to come back, from first to last; each line is taken away in turn.
#[tokio::test(start_paused = true)]
async fn r7_the_most_precise_word_on_the_delay_counts() {
    let body = br#"{"error": {"message": "Please try again in 7s.", "code": "rate_limit_exceeded"}}"#;
    let lines = [
        ("retry-after-ms", "1500"),
        ("retry-after", "3"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "5s"),
    ];
    let waited = async |lines: &[(&'static str, &str)], body: &[u8]| {
        let gate = gate("[services.api]\nprofile = \"openai\"\nretry = { jitter = 0.0 }\n");
        let call = gate.execute(Call::to("api"), |attempt| async move {
            if attempt.is_retry() {
                return Ok(());
            }
            attempt.report(Outcome::reply(429_u16, &headers(lines)).body(body));
            Err("too fast")
        });
        call.with_report().await.expect("done").waited
    };
    assert_eq!(waited(&lines, body).await, 1500 * MS);
    assert_eq!(waited(&lines[1..], body).await, 3 * SECOND);
    assert_eq!(waited(&lines[2..], body).await, 5 * SECOND);
    assert_eq!(waited(&[], body).await, 7 * SECOND);
    assert_eq!(waited(&[], b"").await, SECOND, "nobody says: our own backoff");
    for nonsense in ["-5", "10abc", "", "NaN"] {
        assert_eq!(waited(&[("retry-after", nonsense)], b"").await, SECOND, "{nonsense}");
    }
}

#[tokio::test(start_paused = true)]
async fn r7_what_is_worth_another_try_by_status_by_the_upstreams_word_and_by_what_may_be_repeated() {
    let gate = gate("[services.api]\n");
    let attempts = async |endpoint: &str, status: u16, lines: &[(&'static str, &str)]| {
        let calls = Cell::new(0);
        let op = |attempt: tidegate::Attempt| {
            calls.set(calls.get() + 1);
            attempt.report(Outcome::reply(status, &headers(lines)));
            async move { if attempt.is_retry() { Ok(()) } else { Err("failed") } }
        };
        let _ = gate.execute(Call::to("api").endpoint(endpoint), op).await;
        calls.get()
    };
    for status in [408, 409, 429, 500, 502, 503, 529] {
        assert_eq!(attempts("GET /v1/things", status, &[]).await, 2, "{status}");
    }
    for status in [400, 401, 404, 422] {
        assert_eq!(attempts("GET /v1/things", status, &[]).await, 1, "{status}");
    }
    assert_eq!(attempts("GET /v1/things", 500, &[("x-should-retry", "false")]).await, 1);
    assert_eq!(attempts("GET /v1/things", 400, &[("x-should-retry", "true")]).await, 2);
    assert_eq!(attempts("POST /v1/things", 500, &[]).await, 1, "it may have been done");
    assert_eq!(attempts("POST /v1/things", 429, &[]).await, 2, "it was not done");
}

#[tokio::test(start_paused = true)]
async fn r7_generation_is_repeatable_where_the_preset_says_so() {
    let gate = gate("[services.openai]\npreset = \"openai\"\n[services.other]\n");
    let attempts = async |service: &str, endpoint: &str| {
        let calls = Cell::new(0);
        let op = |attempt: tidegate::Attempt| {
            calls.set(calls.get() + 1);
            async move { if attempt.is_retry() { Ok(()) } else { Err(Outcome::failed().because("broken")) } }
        };
        let _ = gate.execute(Call::to(service).endpoint(endpoint), op).await;
        calls.get()
    };
    assert_eq!(attempts("openai", "POST /v1/chat/completions").await, 2);
    assert_eq!(attempts("openai", "POST /v1/files").await, 1);
    assert_eq!(attempts("other", "POST /v1/chat/completions").await, 1);
}

#[tokio::test(start_paused = true)]
async fn r7_a_caller_says_what_may_be_repeated_and_what_its_own_errors_mean() {
    let attempts = async |call: Call, repeatable: Option<bool>, kind: io::ErrorKind| {
        let calls = Cell::new(0);
        let gate = plain();
        let op = |attempt: tidegate::Attempt| {
            calls.set(calls.get() + 1);
            async move { if attempt.is_retry() { Ok(()) } else { Err(io::Error::from(kind)) } }
        };
        let call = gate.execute(call, op);
        let _ = match repeatable {
            Some(repeatable) => call.repeatable(repeatable).await,
            None => call.await,
        };
        calls.get()
    };
    let (refused, reset) = (io::ErrorKind::ConnectionRefused, io::ErrorKind::ConnectionReset);
    assert_eq!(attempts(Call::default(), None, refused).await, 2, "it never got there");
    assert_eq!(attempts(Call::default(), None, reset).await, 1, "it may have been done");
    assert_eq!(attempts(Call::default(), Some(true), reset).await, 2);
    assert_eq!(attempts(Call::default().endpoint("GET /"), None, reset).await, 2);
    assert_eq!(attempts(Call::default().endpoint("GET /"), Some(false), reset).await, 1);
    assert_eq!(attempts(Call::default(), Some(true), io::ErrorKind::PermissionDenied).await, 1);
}

#[tokio::test(start_paused = true)]
async fn r7_an_error_is_understood_in_a_box_and_behind_another() {
    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] io::Error);
    type Boxed = Box<dyn std::error::Error + Send + Sync>;
    let gate = plain();
    let call = gate.execute(Call::default(), |attempt| async move {
        match attempt.number() {
            1 => Err(Boxed::from(Outer(io::ErrorKind::ConnectionRefused.into()))),
            2 => Err(Boxed::from(too_fast())),
            _ => Ok(attempt.number()),
        }
    });
    assert_eq!(call.await.expect("done"), 3);
}
