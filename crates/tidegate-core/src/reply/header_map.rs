//! Reading an [`http::HeaderMap`], for those who have nothing else of the reply at hand.

use std::time::Duration;

use http::HeaderMap;

use super::{Reader, Reading, UnixMillis};

/// What to wait when a reply says nothing.
const DEFAULT_WAIT: Duration = Duration::from_secs(1);

/// How long a refused call should wait, by its reply's headers: `retry-after-ms`, `retry-after` in any form,
/// else the reset of the limit that is exhausted, else one second.
///
/// Moments are measured from the reply's own `Date`; a reply without one that names a moment is measured from
/// [`retry_after_at`]'s `now`, which this function does not have, and so counts as saying nothing.
///
/// ```
/// use http::HeaderMap;
/// use tidegate_core::reply::retry_after;
///
/// let mut headers = HeaderMap::new();
/// assert_eq!(retry_after(&headers).as_millis(), 1000);
/// headers.insert("retry-after", "2".parse().unwrap());
/// headers.insert("retry-after-ms", "1873".parse().unwrap());
/// assert_eq!(retry_after(&headers).as_millis(), 1873);
/// ```
#[must_use]
pub fn retry_after(headers: &HeaderMap) -> Duration {
    // Far enough ahead that every moment without a `Date` has passed already and comes out as zero.
    const NO_CLOCK: UnixMillis = UnixMillis(i64::MAX / 2000);
    let reading = read(headers, NO_CLOCK);
    match reading.header_wait() {
        Some(wait) if wait.ms > 0 || headers.contains_key(http::header::DATE) || plain_zero(headers) => {
            Duration::from_millis(wait.ms)
        }
        _ => DEFAULT_WAIT,
    }
}

/// The same, for a caller with a clock.
#[must_use]
pub fn retry_after_at(headers: &HeaderMap, now: UnixMillis) -> Duration {
    read(headers, now).header_wait().map_or(DEFAULT_WAIT, |wait| Duration::from_millis(wait.ms))
}

fn read(headers: &HeaderMap, now: UnixMillis) -> Reading {
    let lines = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    Reader::default().read(429, lines, b"", now)
}

/// Whether the upstream says in so many words that no wait is needed.
fn plain_zero(headers: &HeaderMap) -> bool {
    ["retry-after-ms", "retry-after"].iter().any(|name| {
        let value = headers.get(*name).and_then(|value| value.to_str().ok());
        value.and_then(super::value::amount) == Some(0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn the_most_precise_word_wins() {
        let ms = |lines: &[(&'static str, &str)]| retry_after(&map(lines)).as_millis();
        assert_eq!(ms(&[]), 1000);
        assert_eq!(ms(&[("retry-after", "soon")]), 1000);
        assert_eq!(ms(&[("retry-after", "-5")]), 1000);
        assert_eq!(ms(&[("retry-after", "0")]), 0);
        assert_eq!(ms(&[("retry-after", "2.5")]), 2500);
        assert_eq!(
            ms(&[("retry-after", "10abc"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "7")]),
            7000
        );
        assert_eq!(
            ms(&[("x-ratelimit-remaining", "3"), ("x-ratelimit-limit", "9"), ("x-ratelimit-reset", "7")]),
            1000
        );
        assert_eq!(
            ms(&[
                ("date", "Mon, 05 Aug 2019 09:27:00 GMT"),
                ("retry-after", "Mon, 05 Aug 2019 09:27:05 GMT")
            ]),
            5000
        );
        assert_eq!(
            ms(&[
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-requests", "1s"),
                ("x-ratelimit-remaining-tokens", "5"),
                ("x-ratelimit-reset-tokens", "6m0s"),
            ]),
            1000
        );
    }

    #[test]
    fn a_moment_needs_a_clock() {
        let headers = map(&[("retry-after", "Sat, 15 Nov 2025 09:47:40 GMT")]);
        assert_eq!(retry_after(&headers).as_millis(), 1000);
        assert_eq!(retry_after_at(&headers, UnixMillis::from_secs(1_763_200_000)).as_millis(), 60_000);
    }
}
