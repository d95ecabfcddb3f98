//! Reading headers allocates the result and nothing else.

use tidegate_core::reply::{Reader, UnixMillis};

#[test]
fn a_full_openai_header_block_costs_one_allocation() {
    let headers: [(&str, &[u8]); 12] = [
        ("date", b"Sat, 15 Nov 2025 09:46:40 GMT"),
        ("content-type", b"application/json"),
        ("openai-processing-ms", b"842"),
        ("x-ratelimit-limit-requests", b"10000"),
        ("x-ratelimit-limit-tokens", b"2000000"),
        ("x-ratelimit-limit-tokens_usage_based", b"2000000"),
        ("x-ratelimit-remaining-requests", b"9999"),
        ("x-ratelimit-remaining-tokens", b"1999213"),
        ("x-ratelimit-reset-requests", b"6ms"),
        ("x-ratelimit-reset-tokens", b"23ms"),
        ("x-ratelimit-reset-tokens_usage_based", b"23ms"),
        ("server", b"cloudflare"),
    ];
    let now = UnixMillis::from_secs(1_763_200_000);
    let read = || Reader::default().read(200, headers, b"", now);
    // The first reply makes the index over the vendor table.
    assert_eq!(read().limits.len(), 3);
    let allocations = allocation_counter::measure(|| drop(read())).count_total;
    assert_eq!(allocations, 1);
}
