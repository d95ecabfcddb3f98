//! The API key that the sidecar sends in place of the caller's.

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use tidegate_core::vendors::Vendor;

/// The header in which a vendor expects its key. All other vendors expect a bearer token.
const KEY_HEADERS: [(&str, HeaderName); 3] = [
    ("anthropic", HeaderName::from_static("x-api-key")),
    ("azure-openai", HeaderName::from_static("api-key")),
    ("google-gemini", HeaderName::from_static("x-goog-api-key")),
];
/// All headers that may hold a key.
pub(super) static KEYS: [HeaderName; 4] = [
    AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
];

/// A key, and the header that carries it.
#[derive(Debug)]
pub(super) struct ApiKey {
    header: HeaderName,
    value: HeaderValue,
}

impl ApiKey {
    /// Reads the key of a vendor from an environment variable.
    ///
    /// # Errors
    /// Returns a sentence that says what is wrong with the variable, without its value.
    pub fn from_env(vendor: Option<&Vendor>, variable: &str) -> Result<ApiKey, String> {
        let Some(key) = std::env::var(variable).ok().filter(|key| !key.is_empty()) else {
            return Err(format!(
                "{} is not set or empty: set it, or remove `api_key_env` to pass on the caller's own key",
                described(variable)
            ));
        };
        let vendor_header =
            KEY_HEADERS.into_iter().find(|(name, _)| vendor.is_some_and(|vendor| vendor.name == *name));
        let (header, value) = match vendor_header {
            Some((_, header)) => (header, key),
            None => (AUTHORIZATION, format!("Bearer {key}")),
        };
        let mut value: HeaderValue = value.parse().map_err(|_| {
            format!("{} holds characters that no header can carry, such as a line break", described(variable))
        })?;
        value.set_sensitive(true);
        Ok(ApiKey { header, value })
    }

    /// Puts the key into a request, and removes all other keys from it.
    pub fn insert(&self, headers: &mut HeaderMap) {
        for name in &KEYS {
            headers.remove(name);
        }
        headers.insert(&self.header, self.value.clone());
    }
}

/// Returns how an error names the variable. If the name looks like a key that was written into the wrong place, the error must
/// not repeat it. Names of variables are seldom long, and hardly ever have lowercase letters and digits as keys do.
fn described(variable: &str) -> String {
    let is_in = |kind: fn(&u8) -> bool| variable.as_bytes().iter().any(kind);
    if variable.len() >= 20 && is_in(u8::is_ascii_lowercase) && is_in(u8::is_ascii_digit) {
        return "the environment variable that `api_key_env` names".into();
    }
    format!("the environment variable `{variable}`, which `api_key_env` names,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_without_a_key_is_named_unless_it_may_be_the_key() {
        let error = |variable| ApiKey::from_env(None, variable).expect_err("not set");
        assert!(error("OPENAI_API_KEY_NOT_SET").contains("`OPENAI_API_KEY_NOT_SET`"));
        assert!(error("my_key").contains("`my_key`"));
        assert!(!error("sk_live_51Habc0123456789").contains("sk_live"), "it is a key of Stripe's");
    }
}
