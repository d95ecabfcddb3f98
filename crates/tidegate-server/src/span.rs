//! One `tracing` span for each call, forwarded or granted a permit: its loop, how long it waited, and its outcome.
//!
//! The library adds a span for each attempt inside of it. The level is debug, so nothing is computed unless a subscriber
//! wants it. No secret and no path is recorded. Of the endpoint only the matching pattern of the config is, since some APIs
//! carry keys in their paths.

use std::time::Duration;

use http::StatusCode;
use tidegate::Call;
use tidegate_core::Config;
use tracing::field::Empty;
use tracing::{Span, debug_span};

use crate::config_store::ConfigStore;
use crate::refusal::millis;

/// Returns the span of a call that is about to wait.
pub(crate) fn of(call: &Call, config: &ConfigStore) -> Span {
    let span = debug_span!(
        "call",
        service = call.service(),
        endpoint = Empty,
        model = Empty,
        "loop" = Empty,
        loop_type = Empty,
        priority = Empty,
        waited_ms = Empty,
        attempts = Empty,
        status = Empty,
    );
    if !span.is_disabled() {
        describe(&span, call, &config.active().config);
    }
    span
}

fn describe(span: &Span, call: &Call, config: &Config) {
    let service = config.services.get(call.service());
    let endpoint = service
        .zip(call.stated_endpoint())
        .and_then(|(service, endpoint)| service.endpoint_pattern(endpoint));
    let by_type = call.stated_loop_type().and_then(|name| config.loop_types.get(name)?.priority);
    let priority = call.stated_priority().or(by_type).unwrap_or_default();
    let parts = [
        ("endpoint", endpoint),
        ("model", call.stated_model()),
        ("loop", call.stated_loop()),
        ("loop_type", call.stated_loop_type()),
        ("priority", Some(priority.name())),
    ];
    for (name, value) in parts {
        if let Some(value) = value {
            span.record(name, value);
        }
    }
}

/// Records the outcome of a call.
pub(crate) fn ended(span: &Span, waited: Duration, attempts: u32, status: StatusCode) {
    span.record("waited_ms", millis(waited));
    span.record("attempts", attempts);
    span.record("status", status.as_u16());
}
