//! The services that the sidecar forwards to: their URLs, their vendors and their keys.

mod api_key;
mod base_url;
mod location;
mod path;

use std::collections::HashMap;
use std::sync::Arc;

use http::header::HeaderName;
use http::{HeaderMap, Uri};
use tidegate::Config;
use tidegate_core::config::ServiceConfig;
use tidegate_core::vendors::Vendor;

use crate::error_format::ErrorFormat;
use api_key::{ApiKey, KEYS};
use base_url::BaseUrl;

/// The vendors that accept `stream_options`.
const REPORT_STREAM_USAGE: [&str; 10] = [
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
    /// None if the service only gives out permits.
    base_url: Option<BaseUrl>,
    vendor: Option<&'static Vendor>,
    key: Option<ApiKey>,
}

/// Why a service cannot be forwarded to.
#[derive(Debug, thiserror::Error)]
#[error("services.{service}: {problem}")]
pub struct UpstreamError {
    service: String,
    problem: String,
}

/// Why a request has no URL at the upstream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoUrl {
    /// The service has no upstream.
    NoUpstream,
    /// The path leads out of the service.
    Outside,
}

impl Services {
    pub fn new(config: &Config) -> Result<Services, UpstreamError> {
        let service = |(name, service): (&String, &ServiceConfig)| {
            let vendor = config.vendor(name);
            let wrong = |problem| UpstreamError { service: name.clone(), problem };
            let base_url = service.upstream.as_deref().map(BaseUrl::parse).transpose();
            let base_url = base_url.map_err(|problem| wrong(problem.to_owned()))?;
            let key = service.api_key_env.as_deref().map(|variable| ApiKey::from_env(vendor, variable));
            let key = key.transpose().map_err(wrong)?;
            Ok((name.clone(), Arc::new(Service { base_url, vendor, key })))
        };
        config.services.iter().map(service).collect::<Result<_, _>>().map(Services)
    }

    pub fn get(&self, name: &str) -> Option<&Arc<Service>> {
        self.0.get(name)
    }
}

impl Service {
    /// Returns the format in which its vendor writes errors.
    pub fn error_format(&self) -> ErrorFormat {
        ErrorFormat::of(self.vendor)
    }

    /// Returns the URL of a path at this service.
    pub fn url(&self, path: &str, query: Option<&str>) -> Result<Uri, NoUrl> {
        let base_url = self.base_url.as_ref().ok_or(NoUrl::NoUpstream)?;
        base_url.join(path, query).ok_or(NoUrl::Outside)
    }

    /// Replaces the caller's key with the sidecar's, if the sidecar holds one.
    pub fn replace_key(&self, headers: &mut HeaderMap) {
        if let Some(key) = &self.key {
            key.insert(headers);
        }
    }

    /// Returns the headers that are replaced and so are not forwarded. One of them may carry a token in place of a key.
    pub fn key_headers(&self) -> &'static [HeaderName] {
        if self.key.is_some() { &KEYS } else { &[] }
    }

    /// Rewrites addresses in a reply that lead to this service, so that they lead to the sidecar.
    pub fn rewrite_locations(&self, headers: &mut HeaderMap, prefix: &str) {
        if let Some(base_url) = &self.base_url {
            location::rewrite(headers, base_url, prefix);
        }
    }

    /// Returns whether a stream of this endpoint reports its usage on request.
    pub fn reports_stream_usage(&self, path: &str) -> bool {
        path.ends_with("/completions")
            && self.vendor.is_some_and(|vendor| REPORT_STREAM_USAGE.contains(&vendor.name))
    }

    /// Returns its URL for people. There is no secret in it.
    pub fn upstream(&self) -> Option<String> {
        self.base_url.as_ref().map(ToString::to_string)
    }
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
            service(upstream).expect("valid").url(path, query).map(|uri| uri.to_string())
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
        assert_eq!(uri("http://a.example/base", "/../x", None), Err(NoUrl::Outside));
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
