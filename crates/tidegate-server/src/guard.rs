//! Keeps out requests from pages in a browser and from other hosts.
//!
//! A web page can make the user's browser send requests to loopback addresses, and can make a name of its own resolve to
//! one. So every request must name a host that is this machine, must not come from another origin, and must not use the
//! sidecar as a forward proxy.

use std::net::{IpAddr, SocketAddr};

use http::header::{HOST, HeaderName, ORIGIN};
use http::{Request, StatusCode, Version};

/// The hosts that a request may name.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    /// The host as it was written: a name or an address.
    listen_host: String,
    /// Whether other machines are let in. Then every address may be one of this machine's.
    anywhere: bool,
    /// The address at which other machines must show a token.
    exposed: Option<SocketAddr>,
}

/// Why a request is denied: status, code and message.
pub(crate) type Denied = (StatusCode, &'static str, &'static str);

/// Parsed once, and not with every request.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

impl Guard {
    pub fn new(listen: &str, address: SocketAddr, insecure: bool) -> Guard {
        let host = host_of(listen).unwrap_or_default().to_ascii_lowercase();
        let anywhere = !address.ip().is_loopback();
        Guard { listen_host: host, anywhere, exposed: Some(address).filter(|_| anywhere && !insecure) }
    }

    /// Returns the address at which other machines reach the sidecar, unless `insecure_listen` allows that.
    pub fn exposed(&self) -> Option<SocketAddr> {
        self.exposed
    }

    /// Checks a request. `any_host` allows every host name: a caller that needs a token or the rights to a file to get in
    /// is no page of a browser.
    pub fn check<B>(&self, request: &Request<B>, any_host: bool) -> Result<(), Denied> {
        let of_uri = request.uri().authority().map(|authority| authority.as_str());
        let http2 = request.version() == Version::HTTP_2;
        if of_uri.is_some() && !http2 {
            let message = "this is no forward proxy: ask for /{service}/… and not for a whole URL";
            return Err((StatusCode::BAD_REQUEST, "absolute_form", message));
        }
        let mut hosts = request.headers().get_all(HOST).iter();
        let host = hosts.next().map_or(Some(""), |host| host.to_str().ok());
        let host = match (of_uri, host) {
            (Some(authority), _) => authority,
            (None, Some(host)) => host,
            (None, None) => "",
        };
        if hosts.next().is_some() || !any_host && !host_of(host).is_some_and(|name| self.is_us(name)) {
            let message = "the Host header names neither this machine nor the address it listens on";
            return Err((StatusCode::FORBIDDEN, "foreign_host", message));
        }
        let foreign = |origin: &str| {
            let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            !authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
        };
        let mut origins = request.headers().get_all(ORIGIN).iter();
        let site = request.headers().get(SEC_FETCH_SITE);
        if origins.any(|origin| origin.to_str().map_or(true, foreign))
            || site.is_some_and(|site| site != "same-origin" && site != "none")
        {
            let message = "requests from pages of other origins are not answered";
            return Err((StatusCode::FORBIDDEN, "foreign_origin", message));
        }
        Ok(())
    }

    fn is_us(&self, name: &str) -> bool {
        let ours = name.eq_ignore_ascii_case("localhost") || name.eq_ignore_ascii_case(&self.listen_host);
        let address = || name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        // A name can be made to resolve to any address, so an unknown name is denied.
        ours || address().is_ok_and(|address| address.is_loopback() || self.anywhere)
    }
}

/// Returns the host of `host`, `host:port` or `[v6]:port`.
fn host_of(authority: &str) -> Option<&str> {
    if authority.contains('@') {
        return None;
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(inner) => authority.split_at(inner.find(']')? + 2),
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port_fits = port.is_empty() || port[1..].parse::<u16>().is_ok() && port.starts_with(':');
    (!host.is_empty() && port_fits).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(guard: &Guard, headers: &[(&str, &str)]) -> Result<(), &'static str> {
        let mut request = Request::builder().uri("/openai/v1/models");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        guard.check(&request.body(()).expect("a request"), false).map_err(|(_, code, _)| code)
    }

    fn guard(listen: &str) -> Guard {
        Guard::new(listen, listen.parse().expect("an address"), false)
    }

    #[test]
    fn only_this_machines_names_are_answered() {
        let guard = guard("127.0.0.1:8429");
        for host in ["localhost:8429", "LOCALHOST", "127.0.0.1:8429", "127.0.0.2:1", "[::1]:8429"] {
            assert_eq!(asks(&guard, &[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "192.168.0.7",
            "",
            ":8429",
            "localhost:x",
            "a@localhost",
        ] {
            assert_eq!(asks(&guard, &[("host", host)]), Err("foreign_host"), "{host}");
        }
        assert_eq!(asks(&guard, &[]), Err("foreign_host"));
        assert_eq!(asks(&guard, &[("host", "localhost"), ("host", "evil.example")]), Err("foreign_host"));
    }

    #[test]
    fn where_others_are_let_in_every_address_is_ours_and_no_name_is() {
        let guard = guard("0.0.0.0:8429");
        assert_eq!(asks(&guard, &[("host", "192.168.0.7:8429")]), Ok(()));
        assert_eq!(asks(&guard, &[("host", "evil.example")]), Err("foreign_host"));
    }

    #[test]
    fn who_must_show_a_token_may_use_any_name_and_still_come_from_no_other_origin() {
        let guard = guard("0.0.0.0:8429");
        let asks = |origin: &str| {
            let request =
                Request::builder().uri("/v1/status").header("host", "gate.example").header("origin", origin);
            guard.check(&request.body(()).expect("a request"), true).map_err(|(_, code, _)| code)
        };
        assert_eq!(asks("http://gate.example"), Ok(()));
        assert_eq!(asks("http://evil.example"), Err("foreign_origin"));
    }

    #[test]
    fn pages_of_other_origins_are_not_answered() {
        let guard = guard("127.0.0.1:8429");
        let from = |name, value| asks(&guard, &[("host", "localhost:8429"), (name, value)]);
        assert_eq!(from("origin", "http://localhost:8429"), Ok(()));
        assert_eq!(from("sec-fetch-site", "same-origin"), Ok(()));
        for origin in
            ["https://evil.example", "null", "http://localhost:3000", "http://127.0.0.1:8429", "file://"]
        {
            assert_eq!(from("origin", origin), Err("foreign_origin"), "{origin}");
        }
        assert_eq!(from("sec-fetch-site", "cross-site"), Err("foreign_origin"));
        assert_eq!(from("sec-fetch-site", "same-site"), Err("foreign_origin"));
    }

    #[test]
    fn a_whole_url_is_not_a_path() {
        let request = Request::builder().uri("http://localhost/openai").header("host", "localhost");
        let checked = guard("127.0.0.1:1").check(&request.body(()).expect("a request"), false);
        assert_eq!(checked.map_err(|(status, ..)| status), Err(StatusCode::BAD_REQUEST));
        let http2 = Request::builder().uri("http://localhost/openai").version(Version::HTTP_2);
        assert!(guard("127.0.0.1:1").check(&http2.body(()).expect("a request"), false).is_ok());
    }
}
