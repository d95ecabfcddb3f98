//! The caller's hints about a call: in headers, or in the URL where an SDK cannot send headers. Headers take precedence.

use std::time::Duration;

use http::HeaderMap;
use tidegate::{Call, Priority};
use tidegate_core::config::units::parse_duration;

use super::headers::is_own;
use crate::route::UrlHints;

/// Returns the call to a service as far as its hints describe it.
///
/// # Errors
/// Returns a sentence that says what is wrong with a hint.
pub(super) fn read_call(service: &str, hints: &UrlHints<'_>, headers: &HeaderMap) -> Result<Call, String> {
    let mut call = Call::to(service);
    // Most calls have no hints, and one pass over the names shows that.
    let any = headers.keys().any(is_own);
    let text = |name| if any { text(headers, name) } else { Ok(None) };
    if let Some(id) = text("x-tidegate-loop")?.or(hints.loop_id.as_deref()) {
        call = call.loop_id(id);
    }
    if let Some(loop_type) = text("x-tidegate-loop-type")?.or(hints.loop_type.as_deref()) {
        call = call.loop_type(loop_type);
    }
    let priority = text("x-tidegate-priority")?.map(str::parse::<Priority>).transpose();
    if let Some(priority) = priority.map_err(|error| error.to_string())?.or(hints.priority) {
        call = call.priority(priority);
    }
    if let Some(timeout) = text("x-tidegate-timeout")? {
        call = call.timeout(duration(timeout)?);
    }
    Ok(call)
}

/// Parses a timeout. A bare number is seconds, as in `Retry-After`.
fn duration(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => parse_duration(text).map_err(|error| format!("x-tidegate-timeout: {error}")),
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, String> {
    let text = headers.get(name).map(|value| value.to_str().map_err(|_| format!("{name} is no text")));
    Ok(text.transpose()?.map(str::trim).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[(&'static str, &'static str)]) -> Result<Call, String> {
        let hints =
            UrlHints { loop_id: Some("by-url".into()), priority: Some(Priority::Low), ..UrlHints::default() };
        let headers = lines.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
        });
        read_call("api", &hints, &headers.collect())
    }

    #[test]
    fn headers_go_before_the_url() {
        let said = format!("{:?}", read(&[("x-tidegate-loop", "by-header")]).expect("valid"));
        assert!(said.contains("by-header") && said.contains("Low") && !said.contains("by-url"), "{said}");
    }

    #[test]
    fn a_timeout_has_a_unit_or_is_in_seconds() {
        for (text, ms) in [("20s", 20_000), ("250ms", 250), ("30", 30_000), ("0", 0)] {
            let call = read(&[("x-tidegate-timeout", text)]).expect("valid");
            assert_eq!(call.stated_timeout(), Some(Duration::from_millis(ms)), "{text}");
        }
        assert!(read(&[("x-tidegate-timeout", "soon")]).is_err());
        assert!(read(&[("x-tidegate-priority", "urgent")]).is_err());
    }
}
