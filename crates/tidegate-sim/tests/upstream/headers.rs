//! What the model knows comes back out of its headers through the engine's own reader, for each style.

use tidegate_core::reply::{Kind, Reader, Reading, UnixMillis, Verdict};
use tidegate_core::vendors::by_name;
use tidegate_sim::HeaderStyle;

use super::*;

/// 2026-04-12T21:16:45Z.
const UNIX: u64 = 1_776_028_605;

fn styled(style: HeaderStyle, limits: &[UpstreamLimit]) -> Upstream {
    Upstream::new(&UpstreamSpec { headers: style, ..only(limits) }, 1, Nanos::ZERO)
}

/// The headers at `at`, where virtual time began at [`UNIX`].
fn headers(upstream: &Upstream, refused: Option<&RefusedBy>, at: Nanos) -> Vec<(String, String)> {
    upstream.headers(refused, at, Duration::from_secs(UNIX) + at.since(Nanos::ZERO))
}

fn read(vendor: &str, upstream: &Upstream, refused: Option<&RefusedBy>, at: Nanos) -> Reading {
    let headers = headers(upstream, refused, at);
    let lines = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let now = UnixMillis((UNIX * 1000 + at.0 / 1_000_000) as i64);
    let status = refused.map_or(200, |by| upstream.refused_status(by));
    Reader::of(by_name(vendor).unwrap()).read(status, lines, b"", now)
}

/// What a reading says of each limit: kind, limit, remaining, reset in milliseconds, window in milliseconds.
type Said = (Kind, Option<f64>, Option<f64>, Option<u64>, Option<u64>);

fn said(reading: &Reading) -> Vec<Said> {
    let limit = |limit: &tidegate_core::reply::Limit| {
        (limit.kind.clone(), limit.limit, limit.remaining, limit.reset_ms, limit.window_ms)
    };
    reading.limits.iter().map(limit).collect()
}

fn lines(headers: &[(String, String)]) -> Vec<(&str, &str)> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// 3 of 600 requests and 450 of 60,000 tokens, of buckets, at 0 ms.
fn spent(style: HeaderStyle) -> Upstream {
    let mut upstream = styled(
        style,
        &[requests(Model::TokenBucket, 600, 60_000), tokens(Model::TokenBucket, 60_000, 60_000)],
    );
    for _ in 0..3 {
        let _ = accepted(upstream.receive(&of_tokens(150), ms(0)));
    }
    upstream
}

/// Until a call of 59,800 tokens is refused: 250 are missing, which takes a quarter of a second.
fn spent_and_refused(style: HeaderStyle) -> (Upstream, RefusedBy) {
    let mut upstream = spent(style);
    let by = refused(upstream.receive(&of_tokens(59_800), ms(0)));
    (upstream, by)
}

#[test]
fn openai_says_how_long_until_full_as_go_prints_durations() {
    let (upstream, by) = spent_and_refused(HeaderStyle::OpenAi);
    assert_eq!(
        lines(&headers(&upstream, None, ms(0))),
        [
            ("x-ratelimit-limit-requests", "600"),
            ("x-ratelimit-limit-tokens", "60000"),
            ("x-ratelimit-remaining-requests", "597"),
            ("x-ratelimit-remaining-tokens", "59550"),
            ("x-ratelimit-reset-requests", "300ms"),
            ("x-ratelimit-reset-tokens", "450ms"),
        ]
    );
    let known = [
        (Kind::Requests, Some(600.0), Some(597.0), Some(300), None),
        (Kind::Tokens, Some(60_000.0), Some(59_550.0), Some(450), None),
    ];
    let reading = read("openai", &upstream, None, ms(0));
    assert_eq!((said(&reading), reading.retry_after_ms), (known.to_vec(), None));
    let reading = read("openai", &upstream, Some(&by), ms(0));
    assert_eq!((said(&reading), reading.retry_after_ms), (known.to_vec(), Some(1000)));
    assert_eq!(reading.verdict, Verdict::RateLimited);
}

#[test]
fn the_vendors_own_numbers_come_out() {
    // Captured: 160000/159976 -> 9ms and 5000/4999 -> 12ms (OpenAI), 1000/998 a day -> 2m52.8s (Groq).
    let day = 86_400_000;
    for (limit, spend, reset) in [
        (tokens(Model::TokenBucket, 160_000, 60_000), 24, "9ms"),
        (tokens(Model::TokenBucket, 40_000, 60_000), 120, "180ms"),
        (tokens(Model::TokenBucket, 1_000, day), 2, "2m52.8s"),
        (tokens(Model::FixedWindow, 1_000, 360_000), 2, "6m0s"),
    ] {
        let mut upstream = styled(HeaderStyle::OpenAi, &[limit]);
        let _ = accepted(upstream.receive(&of_tokens(spend), ms(0)));
        let headers = headers(&upstream, None, ms(0));
        assert_eq!(headers[2], ("x-ratelimit-reset-tokens".to_owned(), reset.to_owned()));
    }
}

#[test]
fn azure_says_whole_seconds_and_the_wait_in_milliseconds() {
    let (upstream, by) = spent_and_refused(HeaderStyle::Azure);
    assert_eq!(
        lines(&headers(&upstream, Some(&by), ms(0))),
        [
            ("retry-after-ms", "250"),
            ("x-ratelimit-limit-requests", "600"),
            ("x-ratelimit-limit-tokens", "60000"),
            ("x-ratelimit-remaining-requests", "597"),
            ("x-ratelimit-remaining-tokens", "59550"),
            ("x-ratelimit-reset-requests", "1"),
            ("x-ratelimit-reset-tokens", "1"),
            ("retry-after", "1"),
        ]
    );
    let reading = read("azure-openai", &upstream, Some(&by), ms(0));
    let known = [
        (Kind::Requests, Some(600.0), Some(597.0), Some(1000), None),
        (Kind::Tokens, Some(60_000.0), Some(59_550.0), Some(1000), None),
    ];
    assert_eq!((said(&reading), reading.retry_after_ms), (known.to_vec(), Some(250)));
    assert_eq!(read("azure-openai", &upstream, None, ms(0)).verdict, Verdict::Ok);
}

#[test]
fn anthropic_says_when_full_and_rounds_tokens_to_thousands() {
    let bucket =
        |dimension, units| UpstreamLimit { dimension, ..requests(Model::TokenBucket, units, 60_000) };
    let mut upstream = styled(
        HeaderStyle::Anthropic,
        &[
            bucket(Dimension::Requests, 50),
            bucket(Dimension::InputTokens, 50_000),
            bucket(Dimension::OutputTokens, 10_000),
        ],
    );
    let cost = Cost::new().with(Dimension::InputTokens, 25_600).with(Dimension::OutputTokens, 0);
    let held = accepted(upstream.receive(&cost, ms(0)));
    upstream.end(held, &Cost::new().with(Dimension::OutputTokens, 2_000), ms(0));
    let by = refused(upstream.receive(&cost, ms(0)));
    assert_eq!(
        lines(&headers(&upstream, Some(&by), ms(0))),
        [
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "49"),
            ("anthropic-ratelimit-requests-reset", "2026-04-12T21:16:47Z"),
            ("anthropic-ratelimit-input-tokens-limit", "50000"),
            ("anthropic-ratelimit-input-tokens-remaining", "24000"),
            ("anthropic-ratelimit-input-tokens-reset", "2026-04-12T21:17:16Z"),
            ("anthropic-ratelimit-output-tokens-limit", "10000"),
            ("anthropic-ratelimit-output-tokens-remaining", "8000"),
            ("anthropic-ratelimit-output-tokens-reset", "2026-04-12T21:16:57Z"),
            ("anthropic-ratelimit-tokens-limit", "60000"),
            ("anthropic-ratelimit-tokens-remaining", "32000"),
            ("anthropic-ratelimit-tokens-reset", "2026-04-12T21:17:16Z"),
            ("retry-after", "2"),
        ]
    );
    let reading = read("anthropic", &upstream, Some(&by), ms(0));
    let known = [
        (Kind::Requests, Some(50.0), Some(49.0), Some(2_000), None),
        (Kind::InputTokens, Some(50_000.0), Some(24_000.0), Some(31_000), None),
        (Kind::OutputTokens, Some(10_000.0), Some(8_000.0), Some(12_000), None),
        (Kind::Tokens, Some(60_000.0), Some(32_000.0), Some(31_000), None),
    ];
    assert_eq!((said(&reading), reading.retry_after_ms), (known.to_vec(), Some(2_000)));
    assert_eq!(reading.verdict, Verdict::RateLimited);
}

#[test]
fn github_says_unix_seconds_and_answers_403() {
    let limits = [
        requests(Model::FixedWindow, 3, 3_600_000),
        UpstreamLimit { hidden: true, ..requests(Model::SlidingLog, 2, 30_000) },
    ];
    let mut upstream = styled(HeaderStyle::GitHub, &limits);
    let _ = accepted(upstream.receive(&Cost::new(), ms(0)));
    let _ = accepted(upstream.receive(&Cost::new(), ms(10_500)));
    let secondary = refused(upstream.receive(&Cost::new(), ms(10_500)));
    let reading = read("github", &upstream, Some(&secondary), ms(10_500));
    assert_eq!((upstream.refused_status(&secondary), reading.retry_after_ms), (429, Some(20_000)));
    assert_eq!(reading.limits[0].remaining, Some(1.0), "headers do not show what refused");
    let _ = accepted(upstream.receive(&Cost::new(), ms(40_500)));
    let primary = refused(upstream.receive(&Cost::new(), ms(40_500)));
    assert_eq!(upstream.refused_status(&primary), 403);
    assert_eq!(
        lines(&headers(&upstream, Some(&primary), ms(40_500))),
        [
            ("x-ratelimit-limit", "3"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-used", "3"),
            ("x-ratelimit-reset", "1776032205"),
            ("x-ratelimit-resource", "core"),
        ]
    );
    let reading = read("github", &upstream, Some(&primary), ms(40_500));
    assert_eq!(reading.verdict, Verdict::RateLimited);
    assert_eq!(said(&reading), [(Kind::Requests, Some(3.0), Some(0.0), Some(3_559_500), None)]);
    assert_eq!(reading.retry_after_ms, None);
}

/// 590 of 600 a minute and 3 of 10,000 an hour less, in fixed windows, at 1.2 s.
fn two_windows(style: HeaderStyle) -> (Upstream, RefusedBy) {
    let limits = [
        requests(Model::FixedWindow, 600, 60_000),
        requests(Model::FixedWindow, 10_000, 3_600_000),
        UpstreamLimit { hidden: true, ..tokens(Model::FixedWindow, 5, 7_000) },
        requests(Model::Concurrency, 1_000, 1_000),
    ];
    let mut upstream = styled(style, &limits);
    for _ in 0..590 {
        let _ = accepted(upstream.receive(&of_tokens(0), ms(1_200)));
    }
    let _ = accepted(upstream.receive(&of_tokens(5), ms(1_200)));
    let by = refused(upstream.receive(&of_tokens(5), ms(1_200)));
    (upstream, by)
}

#[test]
fn the_first_ietf_drafts_tell_the_tightest_limit_and_all_policies() {
    let (upstream, by) = two_windows(HeaderStyle::IetfOld);
    assert_eq!(
        lines(&headers(&upstream, Some(&by), ms(1_200))),
        [
            ("RateLimit-Limit", "600, 600;w=60, 10000;w=3600"),
            ("RateLimit-Remaining", "9"),
            ("RateLimit-Reset", "59"),
            ("retry-after", "6"),
        ]
    );
    let reading = read("ietf-draft-03", &upstream, Some(&by), ms(1_200));
    let known = [
        (Kind::Requests, Some(600.0), Some(9.0), Some(59_000), Some(60_000)),
        (Kind::Requests, Some(10_000.0), None, None, Some(3_600_000)),
    ];
    assert_eq!((said(&reading), reading.retry_after_ms), (known.to_vec(), Some(6_000)));
}

#[test]
fn the_later_ietf_drafts_tell_all_limits_slots_included() {
    let (upstream, by) = two_windows(HeaderStyle::IetfNew);
    assert_eq!(
        lines(&headers(&upstream, Some(&by), ms(1_200))),
        [
            (
                "RateLimit-Policy",
                "\"requests-1m\";q=600;w=60, \"requests-1h\";q=10000;w=3600, \
                 \"concurrency\";q=1000;qu=\"concurrent-requests\""
            ),
            ("RateLimit", "\"requests-1m\";r=9;t=59, \"requests-1h\";r=9409;t=3599, \"concurrency\";r=409"),
            ("retry-after", "6"),
        ]
    );
    let reading = read("ietf-draft-10", &upstream, Some(&by), ms(1_200));
    let mut known = [
        (Kind::Requests, Some(600.0), Some(9.0), Some(59_000), Some(60_000)),
        (Kind::Requests, Some(10_000.0), Some(9_409.0), Some(3_599_000), Some(3_600_000)),
        (Kind::Concurrency, Some(1_000.0), Some(409.0), None, None),
    ];
    known.sort_by_key(|limit| limit.4);
    let mut told = said(&reading);
    told.sort_by_key(|limit| limit.4);
    assert_eq!((told, reading.retry_after_ms), (known.to_vec(), Some(6_000)));
}

#[test]
fn the_later_drafts_tell_when_more_fits_and_not_when_all_does() {
    let mut upstream = styled(HeaderStyle::IetfNew, &[requests(Model::SlidingLog, 10, 60_000)]);
    let _ = accepted(upstream.receive(&Cost::new(), ms(0)));
    let _ = accepted(upstream.receive(&Cost::new(), ms(20_000)));
    let at = ms(30_000);
    assert_eq!(headers(&upstream, None, at)[1].1, "\"requests-1m\";r=8;t=30");
    let fresh = styled(HeaderStyle::IetfNew, &[requests(Model::TokenBucket, 10, 60_000)]);
    assert_eq!(headers(&fresh, None, at)[1].1, "\"requests-1m\";r=10");
}

#[test]
fn those_who_say_little_say_only_that() {
    let (upstream, by) = spent_and_refused(HeaderStyle::RetryAfter);
    assert_eq!(headers(&upstream, None, ms(0)), []);
    assert_eq!(lines(&headers(&upstream, Some(&by), ms(0))), [("retry-after", "1")]);
    assert_eq!(read("generic", &upstream, Some(&by), ms(0)).retry_after_ms, Some(1_000));
    let (upstream, by) = spent_and_refused(HeaderStyle::None);
    assert_eq!(headers(&upstream, Some(&by), ms(0)), []);
    assert_eq!(read("generic", &upstream, Some(&by), ms(0)).verdict, Verdict::RateLimited);
}

#[test]
fn every_model_tells_what_it_knows() {
    // Ten of forty at 0 ms, then ten more at 100 ms; told at 200 ms, of windows of a second.
    for (model, remaining, reset_ms) in [
        (Model::FixedWindow, 20.0, 800),
        (Model::SlidingLog, 20.0, 900),
        // 10, less the 4 that flow in 100 ms, and 10 more, less 4.
        (Model::TokenBucket, 28.0, 300),
        (Model::Gcra, 28.0, 300),
    ] {
        let mut upstream = styled(HeaderStyle::OpenAi, &[requests(model, 40, 1_000)]);
        for at in [0, 100] {
            let ten = Cost::new().with(Dimension::Requests, 10);
            let _ = accepted(upstream.receive(&ten, ms(at)));
        }
        let reading = read("openai", &upstream, None, ms(200));
        let known = (Kind::Requests, Some(40.0), Some(remaining), Some(reset_ms), None);
        assert_eq!(said(&reading), [known], "{model:?}");
    }
}

#[test]
fn a_wait_that_nobody_knows_is_not_told() {
    for style in [HeaderStyle::OpenAi, HeaderStyle::Azure, HeaderStyle::RetryAfter, HeaderStyle::IetfNew] {
        let mut upstream = styled(style, &[requests(Model::Concurrency, 1, 1_000)]);
        let _held = accepted(upstream.receive(&Cost::new(), ms(0)));
        let by = refused(upstream.receive(&Cost::new(), ms(0)));
        assert_eq!(read("generic", &upstream, Some(&by), ms(0)).retry_after_ms, None);
    }
}
