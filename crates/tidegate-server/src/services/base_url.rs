//! The URL of a service at its upstream, under which all of its paths are.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};

use super::path::stays_inside;

/// The `upstream` of a service.
#[derive(Debug)]
pub(super) struct BaseUrl {
    pub scheme: Scheme,
    pub authority: Authority,
    /// Without a slash at its end.
    pub path: String,
}

impl BaseUrl {
    /// Parses the `upstream` of a service.
    ///
    /// # Errors
    /// Returns what is wrong with the URL, without its text: it may hold a secret.
    pub fn parse(url: &str) -> Result<BaseUrl, &'static str> {
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
        let path = path.map_or(String::new(), |path| path.path().trim_end_matches('/').to_owned());
        Ok(BaseUrl { scheme, authority, path })
    }

    /// Returns the URL of a path below this one, or none if the path leads out of it.
    pub fn join(&self, path: &str, query: Option<&str>) -> Option<Uri> {
        if !stays_inside(path) {
            return None;
        }
        let query_length = query.map_or(1, |query| query.len() + 2);
        let mut joined = BytesMut::with_capacity(self.path.len() + path.len() + query_length);
        joined.put(self.path.as_bytes());
        joined.put(path.as_bytes());
        if joined.is_empty() {
            joined.put_u8(b'/');
        }
        if let Some(query) = query {
            joined.put_u8(b'?');
            joined.put(query.as_bytes());
        }
        let path = PathAndQuery::from_maybe_shared(Bytes::from(joined)).ok()?;
        let uri = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone());
        uri.path_and_query(path).build().ok()
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}
