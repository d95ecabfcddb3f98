//! Replies as nobody should send them: the stored ones, mutated, and pure noise.
//!
//! Whatever comes in, reading it ends, and what comes out keeps its promises: finite amounts, times between
//! zero and 366 days, nothing left above its limit. What does not matter (the case of names, lines about
//! other things between them) changes nothing.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::Value;
use tidegate_core::reply::{MAX_MS, Reader, Reading, StreamReader, UnixMillis};
use tidegate_core::vendors::{all, by_name};

const NOW: UnixMillis = UnixMillis(1_763_200_000_000);

#[derive(Clone, Debug)]
struct Stored {
    vendor: String,
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

fn stored() -> &'static [Stored] {
    static STORED: LazyLock<Vec<Stored>> = LazyLock::new(load);
    &STORED
}

fn load() -> Vec<Stored> {
    let files = [include_str!("vectors/replies.json"), include_str!("vectors/more.json")];
    let vectors = files.iter().flat_map(|file| serde_json::from_str::<Vec<Value>>(file).unwrap());
    vectors
        .map(|vector| Stored {
            vendor: vector["vendor"].as_str().unwrap().into(),
            status: u16::try_from(vector["status"].as_u64().unwrap()).unwrap(),
            headers: vector["headers"]
                .as_array()
                .unwrap()
                .iter()
                .map(|pair| {
                    (pair[0].as_str().unwrap().to_owned(), pair[1].as_str().unwrap().as_bytes().to_vec())
                })
                .collect(),
            body: match &vector["body"] {
                Value::Null => Vec::new(),
                Value::String(text) => text.clone().into_bytes(),
                json => json.to_string().into_bytes(),
            },
        })
        .collect()
}

fn read(reply: &Stored, reader: &Reader<'_>, now: UnixMillis) -> Reading {
    let headers = reply.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
    reader.read(reply.status, headers, &reply.body, now)
}

fn holds(reading: &Reading) -> Result<(), TestCaseError> {
    for ms in [reading.retry_after_ms, reading.body_retry_after_ms, reading.wait().map(|wait| wait.ms)] {
        prop_assert!(ms.is_none_or(|ms| ms <= MAX_MS));
    }
    prop_assert!(reading.limits.len() <= 48);
    for limit in reading.limits.iter().chain(&reading.body_limits) {
        for amount in [limit.limit, limit.remaining, limit.used, limit.cost, limit.fill] {
            prop_assert!(amount.is_none_or(f64::is_finite), "{limit:?}");
        }
        for ms in [limit.reset_ms, limit.window_ms, limit.interval_ms] {
            prop_assert!(ms.is_none_or(|ms| ms <= MAX_MS), "{limit:?}");
        }
    }
    for limit in &reading.limits {
        prop_assert!(limit.limit.is_none_or(|most| most >= 0.0));
        if let (Some(left), Some(most)) = (limit.remaining, limit.limit) {
            prop_assert!(left <= most, "{limit:?}");
        }
    }
    let json = serde_json::to_value(reading).unwrap();
    prop_assert!(json["limits"].is_array());
    Ok(())
}

/// Values that break careless readers.
fn nasty() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just("".into()),
        Just("-1".into()),
        Just("-0".into()),
        Just("9".repeat(400).into_bytes()),
        Just("1e308".into()),
        Just("NaN".into()),
        Just(", , ,".into()),
        Just(";;w=;q=".into()),
        Just("\"".into()),
        Just("9223372036854775807".into()),
        Just("-9223372036854775808".into()),
        Just("99999h99999m99999s".into()),
        Just("Fri, 31 Dec 9999 23:59:59 GMT".into()),
        Just("0001-01-01T00:00:00+23:59".into()),
        Just("\"a\";r=999999999999999;t=999999999999999".into()),
        Just("limit=999999999999999, remaining=999999999999999, reset=999999999999999".into()),
        Just("1/0".into()),
        Just(vec![0xff, 0xfe, 0x00]),
        "[0-9]{1,20}(\\.[0-9]{0,20})?".prop_map(String::into_bytes),
        "[ -~]{0,40}".prop_map(String::into_bytes),
        "\\PC{0,20}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..40),
    ]
}

#[derive(Clone, Debug)]
enum Mutation {
    Replace(prop::sample::Index, Vec<u8>),
    Splice(prop::sample::Index, prop::sample::Index, Vec<u8>),
    Repeat(prop::sample::Index, Vec<u8>),
    Join(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index),
    Borrow(prop::sample::Index, prop::sample::Index),
    Status(u16),
    BodyByte(prop::sample::Index, u8),
    BodyCut(prop::sample::Index),
    Body(Vec<u8>),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        (index(), nasty()).prop_map(|(at, value)| Mutation::Replace(at, value)),
        (index(), index(), nasty()).prop_map(|(at, byte, value)| Mutation::Splice(at, byte, value)),
        (index(), nasty()).prop_map(|(at, value)| Mutation::Repeat(at, value)),
        (index(), nasty()).prop_map(|(at, value)| Mutation::Join(at, value)),
        index().prop_map(Mutation::Remove),
        (index(), index()).prop_map(|(from, which)| Mutation::Borrow(from, which)),
        (100u16..1000).prop_map(Mutation::Status),
        (index(), any::<u8>()).prop_map(|(at, byte)| Mutation::BodyByte(at, byte)),
        index().prop_map(Mutation::BodyCut),
        prop::collection::vec(any::<u8>(), 0..200).prop_map(Mutation::Body),
    ]
}

fn mutate(reply: &mut Stored, mutation: Mutation, all: &[Stored]) {
    let headers = &mut reply.headers;
    match mutation {
        Mutation::Status(status) => reply.status = status,
        Mutation::Body(body) => reply.body = body,
        Mutation::BodyByte(at, byte) if !reply.body.is_empty() => {
            let at = at.index(reply.body.len());
            reply.body[at] = byte;
        }
        Mutation::BodyCut(at) if !reply.body.is_empty() => reply.body.truncate(at.index(reply.body.len())),
        Mutation::Borrow(from, which) => {
            let other = &all[from.index(all.len())].headers;
            if !other.is_empty() {
                headers.push(other[which.index(other.len())].clone());
            }
        }
        _ if headers.is_empty() => {}
        Mutation::Replace(at, value) => {
            let at = at.index(headers.len());
            headers[at].1 = value;
        }
        Mutation::Splice(at, byte, value) => {
            let at = at.index(headers.len());
            let old = &mut headers[at].1;
            let byte = byte.index(old.len() + 1);
            old.splice(byte..byte, value);
        }
        Mutation::Repeat(at, value) => {
            let name = headers[at.index(headers.len())].0.clone();
            headers.push((name, value));
        }
        Mutation::Join(at, value) => {
            let at = at.index(headers.len());
            headers[at].1.extend_from_slice(b", ");
            headers[at].1.extend_from_slice(&value);
        }
        Mutation::Remove(at) => {
            let at = at.index(headers.len());
            headers.remove(at);
        }
        Mutation::BodyByte(..) | Mutation::BodyCut(..) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_mutated_reply_is_read_within_bounds(
        which in any::<prop::sample::Index>(),
        vendor in any::<prop::sample::Index>(),
        mutations in prop::collection::vec(mutation(), 1..8),
        now in any::<i64>(),
    ) {
        let all_replies = stored();
        let mut reply = all_replies[which.index(all_replies.len())].clone();
        for mutation in mutations {
            mutate(&mut reply, mutation, all_replies);
        }
        let vendors: Vec<_> = all().collect();
        let readers = [
            Reader::default(),
            Reader::of(by_name(&reply.vendor).unwrap()),
            Reader::of(vendors[vendor.index(vendors.len())]),
        ];
        for reader in &readers {
            holds(&read(&reply, reader, NOW))?;
            holds(&read(&reply, reader, UnixMillis(now)))?;
        }
    }

    #[test]
    fn the_case_of_names_and_other_headers_change_nothing(
        which in any::<prop::sample::Index>(),
        upper in any::<u64>(),
        between in "[a-z]{3,12}",
    ) {
        let all = stored();
        let reply = &all[which.index(all.len())];
        let mut other = reply.clone();
        for (place, (name, _)) in other.headers.iter_mut().enumerate() {
            *name = name
                .chars()
                .enumerate()
                .map(|(at, c)| if upper >> ((place + at) % 64) & 1 == 1 { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
                .collect();
        }
        other.headers.insert(0, (format!("via-{between}"), b"1".to_vec()));
        for reader in [Reader::default(), Reader::of(by_name(&reply.vendor).unwrap())] {
            prop_assert_eq!(read(reply, &reader, NOW), read(&other, &reader, NOW));
        }
    }

    #[test]
    fn noise_is_read_within_bounds(
        status in any::<u16>(),
        headers in prop::collection::vec(("[!-~]{0,40}", prop::collection::vec(any::<u8>(), 0..60)), 0..40),
        body in prop::collection::vec(any::<u8>(), 0..2000),
    ) {
        let reply = Stored { vendor: String::new(), status, headers, body };
        holds(&read(&reply, &Reader::default(), NOW))?;
    }

    #[test]
    fn a_stream_says_the_same_however_it_is_cut(
        which in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(1usize..50, 1..20),
        noise in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let streams: Vec<&Stored> = stored().iter().filter(|r| r.body.starts_with(b"data:") || r.body.starts_with(b"event:")).collect();
        let mut whole = StreamReader::new();
        let body = &streams[which.index(streams.len())].body;
        whole.push(body);
        let mut pieces = StreamReader::new();
        let (mut rest, mut sizes) = (&body[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let size = (*sizes.next().unwrap()).min(rest.len());
            pieces.push(&rest[..size]);
            rest = &rest[size..];
        }
        prop_assert_eq!(whole.usage(), pieces.usage());
        prop_assert_eq!(whole.failure(&Reader::default(), NOW), pieces.failure(&Reader::default(), NOW));
        let mut noisy = StreamReader::new();
        noisy.push(&noise);
        let _ = (noisy.usage(), noisy.failure(&Reader::default(), NOW));
    }
}

#[test]
fn a_flood_of_headers_and_a_huge_body_are_bounded() {
    let headers: Vec<(String, Vec<u8>)> =
        (0..100_000).map(|n| (format!("x-ratelimit-limit-a{n}"), b"1, 2, 3;w=4".to_vec())).collect();
    let mut body = br#"{"error":{"code":"rate_limit_exceeded","message":""#.to_vec();
    body.extend(std::iter::repeat_n(b'a', 40 << 20));
    let reply = Stored { vendor: String::new(), status: 429, headers, body };
    let reading = read(&reply, &Reader::default(), NOW);
    assert!(reading.limits.len() <= 48);
    let deep = "[".repeat(3_000_000).into_bytes();
    let reply = Stored { vendor: String::new(), status: 429, headers: Vec::new(), body: deep };
    read(&reply, &Reader::default(), NOW);
}
