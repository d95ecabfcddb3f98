//! The shape of names, patterns and addresses.

use crate::config::hint::quoted;

pub(super) const HTTP_SCHEMES: [&str; 2] = ["http", "https"];
pub(super) const REDIS_SCHEMES: [&str; 6] = ["redis", "rediss", "redis+unix", "unix", "valkey", "valkeys"];

/// First words of the sidecar's own routes: a service of that name could not be reached.
const TAKEN: [&str; 4] = ["v1", "metrics", "healthz", "readyz"];

/// `host:port`; an IPv6 host stands in brackets.
pub(in crate::config) fn is_listen_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let host_fits = match host.strip_prefix('[') {
        Some(inner) => inner.ends_with(']') && inner.len() > 1,
        None => !host.is_empty() && !host.contains([':', '/']),
    };
    host_fits && !host.contains(char::is_whitespace) && is_port(port)
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

/// One of the schemes, and a host (for a Unix socket: a path) after it.
pub(super) fn is_url(text: &str, schemes: &[&str]) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let has_place = if scheme.ends_with("unix") {
        rest.starts_with('/')
    } else {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        !host.is_empty() && !host.starts_with(':')
    };
    schemes.contains(&scheme) && has_place && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// What is wrong with a service's name: it is the first word of the sidecar's routes.
pub(super) fn wrong_service_name(name: &str) -> Option<(String, &'static str)> {
    if name.is_empty() {
        Some(("a service must have a name".into(), "name it after its API, such as `openai`"))
    } else if TAKEN.contains(&name) {
        Some((
            format!("a service cannot be named `{name}`: the sidecar answers there itself"),
            "use another name",
        ))
    } else if name.contains(['~', '/']) || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        let message = format!("the service name {} cannot stand in a URL", quoted(name));
        Some((message, "use letters, digits, `-` and `_`"))
    } else {
        None
    }
}

/// What is wrong with an endpoint pattern: `METHOD /path`, both with `*` for anything.
pub(super) fn wrong_endpoint(pattern: &str) -> Option<(String, String)> {
    let example = "write a method and a path, such as `POST /v1/embeddings` or `* /v1/files/*`";
    let wrong = |hint: String| Some((format!("{} is not an endpoint pattern", quoted(pattern)), hint));
    let Some((method, path)) = pattern.split_once(' ') else {
        return if pattern.starts_with('/') {
            wrong(format!("name the method too: {}", quoted(&format!("* {pattern}"))))
        } else {
            wrong(example.into())
        };
    };
    let path_fits = path.starts_with('/')
        && !path.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '?' | '#'));
    let is_method = |text: &str| text == "*" || text.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
    if !path_fits || method.is_empty() {
        return wrong(example.into());
    }
    if !is_method(method) {
        let upper = method.to_ascii_uppercase();
        return if is_method(&upper) {
            wrong(format!("did you mean {}?", quoted(&format!("{upper} {path}"))))
        } else {
            wrong(example.into())
        };
    }
    None
}

/// Whether models can be named by that pattern.
pub(super) fn is_model_pattern(pattern: &str) -> bool {
    !pattern.is_empty() && !pattern.contains(|c: char| c.is_whitespace() || c.is_control())
}
