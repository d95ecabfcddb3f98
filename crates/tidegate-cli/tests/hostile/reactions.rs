//! What an upstream answers: the bytes of hostile replies, apart from how they are sent.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use fastrand::Rng;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    Fine,
    /// One kind of hint each time: a mixture would hide what a kind does.
    HintOfNothing(u8),
    HintOfYears,
    Error,
    Reset,
    CutHead,
    CutBody,
    Half,
    Silence,
    Dribble,
    Gzip,
    Huge,
    RefusedStream,
    GoAway,
}

/// What headers tell besides.
#[derive(Clone, Copy, Debug)]
pub enum Lie {
    None,
    OtherWindow,
    Huge,
    Negative,
    Garbage,
    Structured,
    NothingLeft,
    /// The written limit, and what is left of it by the upstream's own count.
    Truth(usize, Duration),
}

impl Lie {
    pub const ALL: [Lie; 5] = [Lie::Huge, Lie::Negative, Lie::Garbage, Lie::Structured, Lie::NothingLeft];
}

/// A whole reply.
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
    /// The tokens that it says were served.
    pub tokens: u64,
}

/// The reply to a request that may cost `most` tokens if that is known, with headers that tell what `lie` says. `used` is
/// how much of a limit was used in a stretch of time, by the upstream's own count.
pub fn reply(
    rng: &mut Rng,
    reaction: Reaction,
    most: Option<u64>,
    lie: Lie,
    used: impl Fn(Duration) -> usize,
) -> Reply {
    let mut headers = vec![("content-type", "application/json".to_owned())];
    headers.extend(told(lie, used));
    let tokens = match (reaction, most) {
        (Reaction::Huge, _) | (_, None) => FEW,
        (_, Some(most)) => rng.u64(1..=most),
    };
    let (status, body) = match reaction {
        Reaction::HintOfNothing(kind) => {
            headers.extend(hint_of_nothing(kind));
            (429, Bytes::from_static(REFUSAL))
        }
        Reaction::HintOfYears => {
            headers.extend(hint_of_years(rng));
            (rng.choice([429, 429, 503]).expect("some"), Bytes::from_static(REFUSAL))
        }
        Reaction::Error => {
            (rng.choice([500, 502, 503, 504, 529, 408]).expect("some"), Bytes::from_static(b"{\"error\":{}}"))
        }
        Reaction::Gzip => {
            headers.push(("content-encoding", "gzip".to_owned()));
            match rng.u8(..4) {
                0 => (403, gzip(SECONDARY)),
                1 => (429, gzip(REFUSAL)),
                _ => (200, gzip(answer(tokens).as_bytes())),
            }
        }
        Reaction::Huge => (200, huge()),
        _ => (200, Bytes::from(answer(tokens))),
    };
    Reply { status, headers, body, tokens: if status == 200 { tokens } else { 0 } }
}

/// How many tokens a reply serves if the request does not say how many it may cost.
const FEW: u64 = 4;

fn answer(tokens: u64) -> String {
    let usage = usage(tokens);
    let message = r#"{"index":0,"message":{"role":"assistant","content":"well"}}"#;
    format!(r#"{{"id":"a","choices":[{message}],{usage}}}"#)
}

/// Usage as several vendors write it.
fn usage(tokens: u64) -> String {
    let output = tokens - 1;
    format!(
        r#""usage":{{"prompt_tokens":1,"completion_tokens":{output},"total_tokens":{tokens},"input_tokens":1,"output_tokens":{output}}}"#
    )
}

const REFUSAL: &[u8] = br#"{"error":{"type":"rate_limit_error","message":"slow down"}}"#;
const SECONDARY: &[u8] = br#"{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}"#;

/// A JSON reply of some MiB, whose usage stands at its end.
fn huge() -> Bytes {
    static HUGE: OnceLock<Bytes> = OnceLock::new();
    let make = || {
        let text = "all work and no play ".repeat((12 << 20) / 21);
        let usage = usage(FEW);
        Bytes::from(format!("{{\"choices\":[{{\"message\":{{\"content\":\"{text}\"}}}}],{usage}}}"))
    };
    HUGE.get_or_init(make).clone()
}

fn unix() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

fn hint_of_nothing(kind: u8) -> Vec<(&'static str, String)> {
    match kind {
        0 => vec![("retry-after", "0".into())],
        1 => vec![("retry-after-ms", "0".into())],
        2 => vec![("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT".into())],
        3 => vec![("retry-after", "-1".into())],
        4 => vec![("x-ratelimit-remaining", "0".into()), ("x-ratelimit-reset", (unix() - 60).to_string())],
        _ => vec![],
    }
}

fn hint_of_years(rng: &mut Rng) -> Vec<(&'static str, String)> {
    match rng.u8(..4) {
        0 => vec![("retry-after", "31536000".into())],
        1 => vec![("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT".into())],
        2 => vec![("retry-after", "18446744073709551615".into())],
        _ => vec![("retry-after-ms", "1e300".into())],
    }
}

/// The headers that a reply has because of what it tells.
fn told(lie: Lie, used: impl Fn(Duration) -> usize) -> Vec<(&'static str, String)> {
    let github = |limit: &str, remaining: &str, reset: u64| {
        vec![
            ("x-ratelimit-limit", limit.to_owned()),
            ("x-ratelimit-remaining", remaining.to_owned()),
            ("x-ratelimit-reset", reset.to_string()),
        ]
    };
    match lie {
        Lie::None => vec![],
        Lie::OtherWindow => {
            let hour = 3_600;
            let left = 5_000_usize.saturating_sub(used(Duration::from_secs(hour)));
            github("5000", &left.to_string(), (unix() / hour + 1) * hour)
        }
        Lie::Huge => vec![
            ("x-ratelimit-limit-requests", "18446744073709551615".into()),
            ("x-ratelimit-remaining-requests", "9999999999999".into()),
            ("x-ratelimit-reset-requests", "1ms".into()),
        ],
        Lie::Negative => github("-5", "-17", 0),
        Lie::Garbage => vec![
            ("x-ratelimit-limit", "lots, really".into()),
            ("x-ratelimit-remaining", "NaN".into()),
            ("x-ratelimit-reset", "tomorrow".into()),
            ("ratelimit", "\"a\";r=;t=,,".into()),
        ],
        Lie::Structured => vec![
            ("ratelimit-policy", "\"a\";q=100000;w=1, \"b\";q=7;w=86400".into()),
            ("ratelimit", "\"a\";r=99999;t=1".into()),
        ],
        Lie::NothingLeft => github("5000", "0", unix() + 1),
        Lie::Truth(n, window) => {
            let remaining = n.saturating_sub(used(window));
            vec![
                ("ratelimit-policy", format!("\"a\";q={n};w={}", window.as_secs())),
                ("ratelimit", format!("\"a\";r={remaining};t={}", window.as_secs())),
            ]
        }
    }
}

/// Gzip without compression: a header, stored blocks, and the sums. The sidecar has to read it all the same.
fn gzip(text: &[u8]) -> Bytes {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    let length = u16::try_from(text.len()).expect("one block");
    out.extend(length.to_le_bytes());
    out.extend((!length).to_le_bytes());
    out.extend(text);
    let bit = |sum: u32, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
    let sum = text.iter().fold(!0_u32, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), bit));
    out.extend((!sum).to_le_bytes());
    out.extend(u32::from(length).to_le_bytes());
    Bytes::from(out)
}
