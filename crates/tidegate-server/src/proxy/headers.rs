//! Which headers go on, and which are between two neighbours only.

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
/// What begins so is for us.
const OURS: &str = "x-tidegate-";

/// Makes a request's headers those that its upstream gets.
pub(super) fn to_upstream(headers: &mut HeaderMap) {
    // The client that sends it knows host and length better.
    let other = |name: &HeaderName| [HOST, CONTENT_LENGTH, EXPECT].contains(name) || is_ours(name);
    keep_but(headers, other);
}

/// Returns whether a request of this method states the length of its body though it has none (RFC 9110, section 8.6).
pub(super) fn wants_length(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH].contains(method)
}

/// Whether a header is for us.
pub(super) fn is_ours(name: &HeaderName) -> bool {
    name.as_str().starts_with(OURS)
}

/// Gives the values memory of their own. As they come they are parts of the connection's buffer, all of which they keep:
/// of little weight in a call that goes at once, and most of its weight in one that waits.
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

/// Asks for an answer that can be read on its way. Not where the header may be signed: a compressed answer is read too,
/// at a cost.
pub(super) fn ask_for_plain(headers: &mut HeaderMap) {
    if !is_signed(headers) {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
}

/// Makes a reply's headers those that the client gets.
pub(super) fn to_client(headers: &mut HeaderMap) {
    keep_but(headers, |_| false);
}

/// Whether a body may not be changed: it is signed, or its signature is.
pub(super) fn is_signed(headers: &HeaderMap) -> bool {
    headers.iter().any(|(name, value)| match name.as_str() {
        "x-amz-content-sha256" | "x-amz-date" => true,
        "content-digest" | "digest" | "content-md5" => true,
        "signature" | "signature-input" => true,
        "authorization" => value.as_bytes().starts_with(b"AWS4-"),
        _ => false,
    })
}

/// Drops headers of one connection and those `others`. Looks at those that are there: fewer than those that could be.
fn keep_but(headers: &mut HeaderMap, others: impl Fn(&HeaderName) -> bool) {
    let of_the_hop = |name: &HeaderName| HOP_BY_HOP.contains(name);
    let mut gone: Vec<HeaderName> =
        headers.keys().filter(|name| of_the_hop(name) || others(name)).cloned().collect();
    if gone.contains(&CONNECTION) {
        let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
        gone.extend(values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok()));
    }
    for name in gone {
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
