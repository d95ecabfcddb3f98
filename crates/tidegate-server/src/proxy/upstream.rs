//! The services that can be forwarded to: where they are, and whose they are.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Uri};
use tidegate::Config;
use tidegate_core::config::ServiceConfig;
use tidegate_core::vendors::Vendor;

use super::location;
use super::path::stays_inside;
use crate::shape::Shape;

/// Where each vendor wants its key; all others want a bearer's.
const KEY_HEADERS: [(&str, HeaderName); 3] = [
    ("anthropic", HeaderName::from_static("x-api-key")),
    ("azure-openai", HeaderName::from_static("api-key")),
    ("google-gemini", HeaderName::from_static("x-goog-api-key")),
];
/// Every header that may hold a key.
static KEYS: [HeaderName; 4] = [
    AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
];
/// Who is known to take `stream_options`.
const ASKED_FOR_USAGE: [&str; 10] = [
    "openai",
    "azure-openai",
    "groq",
    "deepseek",
    "xai",
    "together",
    "fireworks",
    "cerebras",
    "kimi",
    "openrouter",
];

/// The services of a config, by name.
#[derive(Debug)]
pub(crate) struct Services(HashMap<String, Arc<Service>>);

/// One service.
#[derive(Debug)]
pub(crate) struct Service {
    /// None if there is nothing to forward to: it is for those who ask for permits.
    place: Option<Place>,
    vendor: Option<&'static Vendor>,
    key: Option<(HeaderName, HeaderValue)>,
}

/// Where a service is.
#[derive(Debug)]
pub(super) struct Place {
    pub scheme: Scheme,
    pub authority: Authority,
    /// Without a slash at its end.
    pub base: String,
}

/// Why a service cannot be forwarded to.
#[derive(Debug, thiserror::Error)]
#[error("services.{service}: {problem}")]
pub struct UpstreamError {
    service: String,
    problem: String,
}

/// Why a request cannot be forwarded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Nowhere {
    NoUpstream,
    Outside,
}

impl Services {
    pub fn new(config: &Config) -> Result<Services, UpstreamError> {
        let service = |(name, service): (&String, &ServiceConfig)| {
            let vendor = config.vendor(name);
            let wrong = |problem| UpstreamError { service: name.clone(), problem };
            let place = service.upstream.as_deref().map(Place::read).transpose();
            let place = place.map_err(|problem| wrong(problem.to_owned()))?;
            let key = service.api_key_env.as_deref().map(|variable| key(vendor, variable));
            let key = key.transpose().map_err(wrong)?;
            Ok((name.clone(), Arc::new(Service { place, vendor, key })))
        };
        config.services.iter().map(service).collect::<Result<_, _>>().map(Services)
    }

    pub fn get(&self, name: &str) -> Option<&Arc<Service>> {
        self.0.get(name)
    }
}

impl Service {
    /// How its vendor writes errors.
    pub fn shape(&self) -> Shape {
        Shape::of(self.vendor)
    }

    /// The address of a path at this service.
    pub fn uri(&self, path: &str, query: Option<&str>) -> Result<Uri, Nowhere> {
        let place = self.place.as_ref().ok_or(Nowhere::NoUpstream)?;
        if !stays_inside(path) {
            return Err(Nowhere::Outside);
        }
        let mut whole =
            BytesMut::with_capacity(place.base.len() + path.len() + query.map_or(1, |query| query.len() + 2));
        whole.put(place.base.as_bytes());
        whole.put(path.as_bytes());
        if whole.is_empty() {
            whole.put_u8(b'/');
        }
        if let Some(query) = query {
            whole.put_u8(b'?');
            whole.put(query.as_bytes());
        }
        let path = PathAndQuery::from_maybe_shared(Bytes::from(whole)).map_err(|_| Nowhere::Outside)?;
        let uri = Uri::builder().scheme(place.scheme.clone()).authority(place.authority.clone());
        uri.path_and_query(path).build().map_err(|_| Nowhere::Outside)
    }

    /// Puts our key in the place of the caller's, if we hold one.
    pub fn put_key(&self, headers: &mut HeaderMap) {
        if let Some((name, value)) = &self.key {
            for name in &KEYS {
                headers.remove(name);
            }
            headers.insert(name, value.clone());
        }
    }

    /// The headers that are replaced and so are not passed on: a token may stand in the place of a key.
    pub fn key_headers(&self) -> &'static [HeaderName] {
        if self.key.is_some() { &KEYS } else { &[] }
    }

    /// Has a reply lead to the sidecar where it leads to this service.
    pub fn lead_back(&self, headers: &mut HeaderMap, prefix: &str) {
        if let Some(place) = &self.place {
            location::rewrite(headers, place, prefix);
        }
    }

    /// Whether a stream of this endpoint can be asked what it cost.
    pub fn can_be_asked_for_usage(&self, path: &str) -> bool {
        path.ends_with("/completions")
            && self.vendor.is_some_and(|vendor| ASKED_FOR_USAGE.contains(&vendor.name))
    }

    /// Where it is, for people; there is no secret in it.
    pub fn upstream(&self) -> Option<String> {
        let place = self.place.as_ref()?;
        Some(format!("{}://{}{}", place.scheme, place.authority, place.base))
    }
}

impl Place {
    pub fn read(url: &str) -> Result<Place, &'static str> {
        let uri: Uri = url.parse().map_err(|_| "`upstream` is not a URL")?;
        let parts = uri.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err("`upstream` is not a whole URL");
        };
        if authority.as_str().contains('@') {
            return Err(
                "`upstream` holds a user name: a key belongs into the variable that `api_key_env` names",
            );
        }
        let path = parts.path_and_query;
        if path.as_ref().is_some_and(|path| path.query().is_some()) {
            return Err("`upstream` holds a query: only a path can stand before the caller's own");
        }
        let base = path.map_or(String::new(), |path| path.path().trim_end_matches('/').to_owned());
        Ok(Place { scheme, authority, base })
    }
}

fn key(vendor: Option<&Vendor>, variable: &str) -> Result<(HeaderName, HeaderValue), String> {
    let Some(key) = std::env::var(variable).ok().filter(|key| !key.is_empty()) else {
        return Err(format!(
            "{} is not set or empty: set it, or remove `api_key_env` to pass on the caller's own key",
            shown(variable)
        ));
    };
    let own = KEY_HEADERS.into_iter().find(|(name, _)| vendor.is_some_and(|vendor| vendor.name == *name));
    let (name, value) = match own {
        Some((_, header)) => (header, key),
        None => (AUTHORIZATION, format!("Bearer {key}")),
    };
    let mut value: HeaderValue = value.parse().map_err(|_| {
        format!("{} holds characters that no header can carry, such as a line break", shown(variable))
    })?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// Names the variable that `api_key_env` names, unless that may be the key itself, put in the wrong place: variables are
/// seldom long and hardly ever in small letters with digits, as keys are.
fn shown(variable: &str) -> String {
    let is_in = |kind: fn(&u8) -> bool| variable.as_bytes().iter().any(kind);
    if variable.len() >= 20 && is_in(u8::is_ascii_lowercase) && is_in(u8::is_ascii_digit) {
        return "the environment variable that `api_key_env` names".into();
    }
    format!("the environment variable `{variable}`, which `api_key_env` names,")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(upstream: &str) -> Result<Arc<Service>, String> {
        let mut config = Config::parse("[services.api]\n").expect("valid");
        config.services.get_mut("api").expect("there").upstream = Some(upstream.into());
        let services = Services::new(&config).map_err(|error| error.to_string())?;
        Ok(services.get("api").expect("there").clone())
    }

    #[test]
    fn a_path_is_put_behind_the_base_path() {
        let uri = |upstream: &str, path: &str, query| {
            service(upstream).expect("valid").uri(path, query).map(|uri| uri.to_string())
        };
        assert_eq!(uri("http://a.example", "", None).as_deref(), Ok("http://a.example/"));
        assert_eq!(
            uri("https://a.example/", "/v1/x", Some("k=1")).as_deref(),
            Ok("https://a.example/v1/x?k=1")
        );
        assert_eq!(uri("http://a.example:9/base/", "/x", None).as_deref(), Ok("http://a.example:9/base/x"));
        assert_eq!(
            uri("http://a.example/base", "//evil.example/", None).as_deref(),
            Ok("http://a.example/base//evil.example/")
        );
        assert_eq!(uri("http://a.example/base", "/../x", None), Err(Nowhere::Outside));
    }

    #[test]
    fn a_variable_without_a_key_is_named_unless_it_may_be_the_key() {
        let error = |variable| key(None, variable).expect_err("not set");
        assert!(error("OPENAI_API_KEY_NOT_SET").contains("`OPENAI_API_KEY_NOT_SET`"));
        assert!(error("my_key").contains("`my_key`"));
        assert!(!error("sk_live_51Habc0123456789").contains("sk_live"), "it is a key of Stripe's");
    }

    #[test]
    fn what_cannot_be_an_upstream_is_told_without_its_secrets() {
        for upstream in ["http://me:secret@a.example", "http://a.example/?key=secret"] {
            let error = service(upstream).expect_err("not allowed");
            assert!(
                error.starts_with("services.api: `upstream` holds") && !error.contains("secret"),
                "{error}"
            );
        }
    }
}
