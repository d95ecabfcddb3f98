//! What a refused reply's headers say about coming back.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use tidegate_core::reply::{UnixMillis, retry_after_at};

/// How long to stay away, by the headers of a reply that refused the call; a second if they do not say.
///
/// In this order: `retry-after-ms`; `retry-after` as a number, with or without a fraction, or as an HTTP date
/// in any of its three forms; the reset of the limit that is exhausted. What is negative or makes no sense is
/// not said, a date that has passed is no time at all, and nothing is longer than 366 days. Dates count from
/// the reply's own `Date` where it has one, and from this machine's clock where it has none.
///
/// ```
/// use std::time::Duration;
/// use http::HeaderMap;
/// use tidegate::{BackoffWindow, retry_after};
///
/// let mut headers = HeaderMap::new();
/// assert_eq!(retry_after(&headers), Duration::from_secs(1));
/// headers.insert("retry-after", "20".parse().unwrap());
///
/// let limiter = BackoffWindow::for_key("example");
/// limiter.set(retry_after(&headers));
/// assert!(limiter.remaining() > Duration::from_secs(19));
/// ```
#[must_use]
pub fn retry_after(headers: &HeaderMap) -> Duration {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = UnixMillis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX));
    retry_after_at(headers, now)
}
