//! `Location` headers of replies. An address at the upstream becomes one at the sidecar, so that a client that follows it stays
//! behind the limits. Other addresses, and those relative to the request's own, are left as they are.

use http::header::{CONTENT_LOCATION, LOCATION};
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Uri};

use super::base_url::BaseUrl;
use super::path::stays_inside;

/// Rewrites the addresses of a reply. `prefix` is what the client wrote before the path at the service, its hints
/// included.
pub(super) fn rewrite(headers: &mut HeaderMap, base: &BaseUrl, prefix: &str) {
    for name in [LOCATION, CONTENT_LOCATION] {
        let there = headers.get(&name).and_then(|value| value.to_str().ok());
        let here = there.and_then(|there| at_sidecar(there, base, prefix));
        if let Some(here) = here.and_then(|here| HeaderValue::from_str(&here).ok()) {
            headers.insert(name, here);
        }
    }
}

/// Returns the address at the sidecar of one at the upstream, if that one is below the base URL.
fn at_sidecar(there: &str, base: &BaseUrl, prefix: &str) -> Option<String> {
    let path = match there.strip_prefix('/') {
        Some(rest) if !rest.starts_with('/') => there,
        _ => {
            let whole = there.split('#').next()?;
            // An address without a scheme has that of the request.
            let scheme = if whole.starts_with("//") { format!("{}:", base.scheme) } else { String::new() };
            let uri: Uri = format!("{scheme}{whole}").parse().ok()?;
            let is_there = uri.authority().is_some_and(|authority| {
                let port = |port: Option<u16>, scheme: &Scheme| {
                    port.or(if *scheme == Scheme::HTTPS { Some(443) } else { Some(80) })
                };
                let scheme = uri.scheme().unwrap_or(&base.scheme);
                authority.host().eq_ignore_ascii_case(base.authority.host())
                    && port(authority.port_u16(), scheme) == port(base.authority.port_u16(), &base.scheme)
            });
            if !is_there {
                return None;
            }
            let after_scheme = there.split_once("//")?.1;
            after_scheme.find(['/', '?', '#']).map_or("", |at| &after_scheme[at..])
        }
    };
    let rest = path.strip_prefix(&*base.path)?;
    let below = rest.split(['?', '#']).next().is_some_and(stays_inside);
    (below && (rest.is_empty() || rest.starts_with(['/', '?', '#']))).then(|| format!("{prefix}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_to_the_upstream_leads_to_the_sidecar_and_nothing_else_does() {
        let base = BaseUrl::parse("https://api.example/base").expect("a URL");
        let at = |there: &str| at_sidecar(there, &base, "/~agent-7,high/api");
        for (there, here) in [
            ("https://api.example/base/v1/x?y=1#z", Some("/~agent-7,high/api/v1/x?y=1#z")),
            ("https://API.example:443/base", Some("/~agent-7,high/api")),
            ("/base/v1/x", Some("/~agent-7,high/api/v1/x")),
            ("//api.example/base/x", Some("/~agent-7,high/api/x")),
            ("https://api.example/other", None),
            ("https://api.example/based/x", None),
            ("https://api.example/base/../other", None),
            ("https://api.example:8443/base/x", None),
            ("https://elsewhere.example/base/x", None),
            ("/elsewhere", None),
            ("v1/x", None),
            ("../x", None),
            ("", None),
        ] {
            assert_eq!(at(there).as_deref(), here, "{there}");
        }
    }
}
