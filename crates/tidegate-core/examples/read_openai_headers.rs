//! Reads a full OpenAI header block many times, to be timed or counted.
//!
//! ```text
//! cargo run --release -p tidegate-core --example read_openai_headers
//! valgrind --tool=callgrind --toggle-collect='*read_once*' target/release/examples/read_openai_headers 1000
//! ```
//!
//! The first prints nanoseconds and allocations a reply, the second counts instructions (divide by the number
//! of replies).

use std::hint::black_box;
use std::time::Instant;

use tidegate_core::reply::{Reader, Reading, UnixMillis};

const HEADERS: [(&str, &[u8]); 26] = [
    ("date", b"Sat, 15 Nov 2025 09:46:40 GMT"),
    ("content-type", b"application/json"),
    ("content-length", b"1210"),
    ("connection", b"keep-alive"),
    ("access-control-expose-headers", b"X-Request-ID"),
    ("openai-model", b"gpt-4o-2024-08-06"),
    ("openai-organization", b"org-abcdefghijklmnopqrstuvwx"),
    ("openai-processing-ms", b"842"),
    ("openai-project", b"proj_abcdefghijklmnopqrstuvwx"),
    ("openai-version", b"2020-10-01"),
    ("x-envoy-upstream-service-time", b"870"),
    ("x-ratelimit-limit-requests", b"10000"),
    ("x-ratelimit-limit-tokens", b"2000000"),
    ("x-ratelimit-remaining-requests", b"9999"),
    ("x-ratelimit-remaining-tokens", b"1999213"),
    ("x-ratelimit-reset-requests", b"6ms"),
    ("x-ratelimit-reset-tokens", b"23ms"),
    ("x-request-id", b"req_0123456789abcdef0123456789abcdef"),
    ("cf-cache-status", b"DYNAMIC"),
    (
        "set-cookie",
        b"__cf_bm=abc; path=/; expires=Sat, 15-Nov-25 10:16:40 GMT; domain=.api.openai.com; HttpOnly",
    ),
    ("set-cookie", b"_cfuvid=def; path=/; domain=.api.openai.com; HttpOnly; Secure; SameSite=None"),
    ("strict-transport-security", b"max-age=31536000; includeSubDomains; preload"),
    ("x-content-type-options", b"nosniff"),
    ("server", b"cloudflare"),
    ("cf-ray", b"99e0a0b0c0d0e0f0-FRA"),
    ("alt-svc", b"h3=\":443\"; ma=86400"),
];

#[inline(never)]
fn read_once(reader: &Reader<'_>) -> Reading {
    reader.read(200, black_box(HEADERS), b"", UnixMillis::from_secs(1_763_200_000))
}

fn main() {
    let rounds: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let reader = Reader::default();
    // The first reply builds the index over the vendor table; it is not what is measured.
    let reading = Reader::default().read(200, HEADERS, b"", UnixMillis::from_secs(1_763_200_000));
    assert_eq!(reading.limits.len(), 2);
    let allocations = allocation_counter::measure(|| drop(black_box(read_once(&reader)))).count_total;
    let start = Instant::now();
    for _ in 0..rounds {
        black_box(read_once(&reader));
    }
    let nanos = start.elapsed().as_nanos() as f64 / rounds as f64;
    println!("{} headers: {nanos:.0} ns and {allocations} allocation(s) a reply", HEADERS.len());
}
