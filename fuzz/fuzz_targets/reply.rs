//! Any bytes, taken as a raw reply: a status, header lines, an empty line, a body.
//!
//! ```text
//! cargo +nightly fuzz run reply
//! ```

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_core::reply::{MAX_MS, Reader, StreamReader, UnixMillis};
use tidegate_core::vendors::all;

fuzz_target!(|data: &[u8]| {
    let Some((head, rest)) = data.split_first_chunk::<4>() else { return };
    let status = u16::from_le_bytes([head[0], head[1]]) % 1000;
    let now = UnixMillis::from_secs(1_763_200_000);
    let split = rest.windows(2).position(|pair| pair == b"\n\n").unwrap_or(rest.len());
    let body = rest.get(split + 2..).unwrap_or_default();
    let headers: Vec<(&str, &[u8])> = rest[..split]
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((std::str::from_utf8(&line[..colon]).ok()?, &line[colon + 1..]))
        })
        .collect();
    let vendors = all().count();
    let reader = match usize::from(head[2]) % (vendors + 1) {
        0 => Reader::default(),
        place => all().nth(place - 1).map(Reader::of).unwrap_or_default(),
    };
    let reading = reader.read(status, headers, body, now);
    assert!(reading.retry_after_ms.is_none_or(|ms| ms <= MAX_MS));
    for limit in reading.limits.iter().chain(&reading.body_limits) {
        assert!(limit.reset_ms.is_none_or(|ms| ms <= MAX_MS));
        assert!(limit.remaining.is_none_or(f64::is_finite));
    }

    let mut stream = StreamReader::new();
    for piece in body.chunks(1 + usize::from(head[3])) {
        stream.push(piece);
    }
    let _ = (stream.usage(), stream.failure(&reader, now));
});
