//! Refusals over HTTP: their status, and the headers that say when to retry.

use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tidegate::{Reason, Refused};

/// Returns the HTTP status of a refusal.
///
/// ```
/// use tidegate::{Call, Config, Gate};
/// let config = Config::parse("[services.api]\nrequests = { limit = \"5/min\", burst = 5 }\n")?;
/// let gate = Gate::builder().config(config).build()?;
/// let refused = gate.try_acquire(Call::to("api").requests(9)).expect_err("can never fit");
/// assert_eq!(tidegate_server::status(&refused), 413);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn status(refused: &Refused) -> StatusCode {
    match refused.reason() {
        Reason::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        Reason::UnknownService(_) => StatusCode::NOT_FOUND,
        Reason::UnknownDimension(_) | Reason::InvalidCost => StatusCode::BAD_REQUEST,
        Reason::Unavailable | Reason::CircuitOpen => StatusCode::SERVICE_UNAVAILABLE,
        // Timeout, hopeless, queue full, and reasons to come: retry later.
        _ => StatusCode::TOO_MANY_REQUESTS,
    }
}

/// Returns the headers of a refusal: when to retry, in whole seconds and in milliseconds, and that the client's SDK should
/// not retry by itself.
#[must_use]
pub fn headers(refused: &Refused) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(HeaderName::from_static("x-should-retry"), HeaderValue::from_static("false"));
    if let Some(wait) = refused.wait() {
        // Rounded up: a client that retries a moment too early is refused again.
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        headers.insert(HeaderName::from_static("retry-after-ms"), HeaderValue::from(millis(wait)));
    }
    headers
}

pub(crate) fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::{Call, Config, Gate};

    #[test]
    fn a_refusal_says_when_to_come_back_and_never_a_moment_too_early() {
        let text = "[services.api]\nrequests = { limit = \"60/min\", burst = 1 }\n";
        let gate = Gate::builder().config(Config::parse(text).expect("valid")).build().expect("valid");
        gate.try_acquire(Call::to("api")).expect("the first").cancel();
        let _held = gate.try_acquire(Call::to("api")).expect("given back");
        let refused = gate.try_acquire(Call::to("api")).expect_err("paced");
        assert_eq!(status(&refused), 429);
        let headers = headers(&refused);
        assert_eq!(headers["retry-after"], "1");
        let millis: u64 = headers["retry-after-ms"].to_str().expect("text").parse().expect("a number");
        assert!(u128::from(millis) * 1_000_000 >= refused.wait().expect("known").as_nanos());
        assert_eq!(headers["x-should-retry"], "false");
    }

    #[test]
    fn each_reason_has_its_status() {
        let gate =
            Gate::builder().config(Config::parse("[services.api]\n").expect("valid")).build().expect("valid");
        assert_eq!(status(&gate.try_acquire(Call::to("nobody")).expect_err("unknown")), 404);
        assert_eq!(status(&gate.try_acquire(Call::to("api").usd(-1.0)).expect_err("negative")), 400);
    }
}
