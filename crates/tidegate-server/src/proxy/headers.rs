//! Which headers are forwarded, and which belong to one connection only.

use bytes::BytesMut;
use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, Method};

/// Headers of one connection, beside those that `Connection` names.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];
/// The prefix of headers that are for the sidecar.
const OWN_PREFIX: &str = "x-tidegate-";

/// Removes the headers of a request that its upstream must not get.
pub(super) fn to_upstream(headers: &mut HeaderMap) {
    // The upstream client sets host and length itself.
    let other = |name: &HeaderName| [HOST, CONTENT_LENGTH, EXPECT].contains(name) || is_own(name);
    remove_hop_by_hop(headers, other);
}

/// Returns whether a request of this method states the length of its body though it has none (RFC 9110, section 8.6).
pub(super) fn wants_length(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH].contains(method)
}

/// Returns whether a header is for the sidecar.
pub(super) fn is_own(name: &HeaderName) -> bool {
    name.as_str().starts_with(OWN_PREFIX)
}

/// Copies the values into memory of their own. Before, they share the connection's buffer and keep all of it, which is most
/// of the memory of a waiting call.
pub(super) fn detach(headers: &mut HeaderMap) {
    let length = headers.values().map(HeaderValue::len).sum();
    let mut all = BytesMut::with_capacity(length);
    for value in headers.values() {
        all.extend_from_slice(value.as_bytes());
    }
    let mut all = all.freeze();
    for value in headers.values_mut() {
        let own = HeaderValue::from_maybe_shared(all.split_to(value.len()));
        if let Ok(mut own) = own {
            own.set_sensitive(value.is_sensitive());
            *value = own;
        }
    }
}

/// Asks for an uncompressed reply, which is cheaper to read. Not if the header may be signed.
pub(super) fn request_uncompressed(headers: &mut HeaderMap) {
    if !is_signed(headers) {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
}

/// Removes the headers of a reply that its client must not get.
pub(super) fn to_client(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers, |_| false);
}

/// Returns whether the request is signed, so that its body and headers must not change.
pub(super) fn is_signed(headers: &HeaderMap) -> bool {
    headers.iter().any(|(name, value)| match name.as_str() {
        "x-amz-content-sha256" | "x-amz-date" => true,
        "content-digest" | "digest" | "content-md5" => true,
        "signature" | "signature-input" => true,
        "authorization" => value.as_bytes().starts_with(b"AWS4-"),
        _ => false,
    })
}

/// Removes headers of one connection, and those that `others` selects. Walks the headers that are present, which are fewer
/// than the candidates.
fn remove_hop_by_hop(headers: &mut HeaderMap, others: impl Fn(&HeaderName) -> bool) {
    let is_hop_by_hop = |name: &HeaderName| HOP_BY_HOP.contains(name);
    let mut removed: Vec<HeaderName> =
        headers.keys().filter(|name| is_hop_by_hop(name) || others(name)).cloned().collect();
    if removed.contains(&CONNECTION) {
        let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
        removed.extend(values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok()));
    }
    for name in removed {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn what_is_between_two_neighbours_does_not_go_on() {
        let mut these = headers(&[
            ("connection", "close, X-Mine"),
            ("x-mine", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-authorization", "Basic x"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("host", "localhost"),
            ("content-length", "3"),
            ("x-tidegate-loop", "agent-7"),
            ("authorization", "Bearer x"),
            ("accept", "*/*"),
        ]);
        to_upstream(&mut these);
        let mut left: Vec<&str> = these.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "authorization"]);
    }

    #[test]
    fn values_that_are_detached_are_the_same() {
        let mut these =
            headers(&[("authorization", "Bearer x"), ("accept", ""), ("accept", "*/*"), ("x-y", "z")]);
        these.get_mut("authorization").expect("there").set_sensitive(true);
        let before = these.clone();
        detach(&mut these);
        assert_eq!(these, before);
        assert!(these["authorization"].is_sensitive());
    }

    #[test]
    fn a_signature_is_seen() {
        assert!(is_signed(&headers(&[("authorization", "AWS4-HMAC-SHA256 Credential=x")])));
        assert!(is_signed(&headers(&[("content-digest", "sha-256=:x:")])));
        assert!(!is_signed(&headers(&[("authorization", "Bearer x")])));
    }
}
