//! The proxies through which upstreams are reached, as the environment names them.

use std::sync::Arc;

use http::Uri;
use http::header::HeaderValue;
use http::uri::Scheme;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

/// The variables that name proxies. The first one of a pair counts.
const VARIABLES: [&str; 6] =
    ["ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"];

/// The proxies that the environment names.
#[derive(Clone, Debug)]
pub(crate) struct Proxies(Arc<Matcher>);

/// Why a proxy cannot be used. The value is not shown: it may hold a password.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {problem}; supported are http://, https://, socks5:// and socks5h://HOST:PORT")]
pub struct ProxyError {
    variable: String,
    problem: String,
}

impl Proxies {
    pub fn from_env() -> Proxies {
        Proxies(Arc::new(Matcher::from_env()))
    }

    /// Returns the credentials that a proxy wants with each request to this address. Through a tunnel they are sent once,
    /// when the tunnel is requested.
    pub fn auth(&self, to: &Uri) -> Option<HeaderValue> {
        let plain = to.scheme() == Some(&Scheme::HTTP);
        let proxy = self.for_url(to).filter(|_| plain)?;
        proxy.basic_auth().map(sensitive)
    }

    /// Returns the proxy for this address, if there is one. No proxy reaches what is on this machine.
    pub fn for_url(&self, uri: &Uri) -> Option<Intercept> {
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let local = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if local { None } else { self.0.intercept(uri) }
    }
}

/// Checks that every proxy in the environment can be used.
///
/// # Errors
/// Returns an error that names the variable. Without this check an unknown scheme means a direct connection, which the
/// proxy's owner did not want, or calls that all fail.
pub(crate) fn check_env() -> Result<(), ProxyError> {
    for variable in VARIABLES {
        let Ok(value) = std::env::var(variable) else { continue };
        check(&value).map_err(|problem| ProxyError { variable: variable.to_owned(), problem })?;
    }
    Ok(())
}

fn check(value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Ok(());
    }
    let uri: Uri = value.parse().map_err(|_| "the value is not a URL".to_owned())?;
    if uri.host().is_none_or(str::is_empty) {
        return Err("the URL has no host".to_owned());
    }
    match uri.scheme_str() {
        None | Some("http" | "https" | "socks5" | "socks5h") => Ok(()),
        Some(scheme) => Err(format!("a `{scheme}` proxy is not supported")),
    }
}

pub(crate) fn sensitive(value: &HeaderValue) -> HeaderValue {
    let mut value = value.clone();
    value.set_sensitive(true);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_that_cannot_be_used_is_refused_without_its_password() {
        for usable in [
            "",
            "proxy.example:3128",
            "http://proxy.example",
            "https://me:word@proxy.example:8443",
            "socks5h://[::1]:1080",
            "socks5://me:word@proxy.example",
        ] {
            assert_eq!(check(usable), Ok(()), "{usable}");
        }
        for (unusable, why) in [
            ("socks4://me:word@proxy.example", "a `socks4` proxy is not supported"),
            ("ftp://proxy.example", "a `ftp` proxy is not supported"),
            ("http://me word@", "the value is not a URL"),
            ("/proxy", "the URL has no host"),
        ] {
            assert_eq!(check(unusable), Err(why.to_owned()), "{unusable}");
        }
    }
}
