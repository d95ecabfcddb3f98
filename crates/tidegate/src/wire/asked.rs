//! Which call a request is.

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName};
use tidegate_core::request::{Asked, model_in_path};
use tidegate_core::vendor::Estimate;
use tidegate_core::{Call, Dimension};

use crate::gate::Gate;

/// Where requests carry their API key.
static KEYS: [HeaderName; 4] = [
    AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
];

/// What a request shows of itself.
///
/// ```
/// use http::HeaderMap;
/// use tidegate::wire::Shown;
/// use tidegate::{Call, Config, Gate};
///
/// let gate = Gate::builder().config(Config::parse("[services.openai]\npreset = \"openai\"\n")?).build()?;
/// let body = br#"{"model": "gpt-4o", "max_tokens": 100, "messages": []}"#;
/// let asked = tidegate_core::request::Asked::read(body);
/// let shown = Shown {
///     method: "POST",
///     path: "/v1/chat/completions",
///     headers: &HeaderMap::new(),
///     bytes: Some(body.len() as u64),
///     asked: asked.as_ref(),
/// };
/// let call = shown.call(Call::to("openai").loop_id("agent-7"), &gate);
/// assert_eq!((call.stated_endpoint(), call.stated_model()), (Some("POST /v1/chat/completions"), Some("gpt-4o")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Shown<'r> {
    /// Its method.
    pub method: &'r str,
    /// Its path, without a query.
    pub path: &'r str,
    /// Its headers.
    pub headers: &'r HeaderMap,
    /// How long its body is, if that is known.
    pub bytes: Option<u64>,
    /// What its body asks for, if that could be read.
    pub asked: Option<&'r Asked>,
}

impl Shown<'_> {
    /// The call that the request is: what was stated of it, and where that leaves something open, what it shows.
    #[must_use]
    pub fn call(&self, stated: Call, gate: &Gate) -> Call {
        let mut call = stated;
        if call.stated_endpoint().is_none() {
            call = call.endpoint(&[self.method, " ", self.path].concat());
        }
        if call.stated_key().is_none()
            && let Some(key) = KEYS.iter().find_map(|name| self.headers.get(name)?.to_str().ok())
        {
            call = call.key(key);
        }
        if let Some(bytes) = self.bytes.filter(|_| !call.cost().states(&Dimension::Bytes)) {
            call = call.bytes(bytes);
        }
        if call.stated_model().is_none() {
            let model = self.asked.and_then(|asked| asked.model.as_deref());
            if let Some(model) = model.or_else(|| model_in_path(self.path)) {
                call = call.model(model);
            }
        }
        match self.asked.filter(|_| !call.cost().states(&Dimension::Tokens)) {
            Some(asked) => {
                let rules = gate.shared.rules();
                let estimate =
                    Estimate { expected_output: gate.shared.expected_output(&call, asked), ..asked.estimate };
                let charge = rules.counting(rules.service(&call)).reserve(&estimate);
                let parts = call.input_tokens(charge.input_tokens).output_tokens(charge.output_tokens);
                parts.tokens(charge.tokens).estimated()
            }
            None => call,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn call_of(body: &str, headers: &HeaderMap, stated: Call, config: &str) -> Call {
        let gate = Gate::builder().config(Config::parse(config).expect("valid")).build().expect("valid");
        let asked = Asked::read(body.as_bytes());
        let bytes = Some(body.len() as u64);
        let shown =
            Shown { method: "POST", path: "/v1/chat/completions", headers, bytes, asked: asked.as_ref() };
        shown.call(stated, &gate)
    }

    const PLAIN: &str = "[services.api]\n";
    const CHAT: &str =
        r#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "four"}], "max_tokens": 9}"#;

    #[test]
    fn a_request_shows_its_endpoint_model_size_and_likely_cost() {
        let call = call_of(CHAT, &HeaderMap::new(), Call::to("api"), PLAIN);
        assert_eq!(call.stated_endpoint(), Some("POST /v1/chat/completions"));
        assert_eq!(call.stated_model(), Some("gpt-4o"));
        let units = |dimension| call.cost().units(&dimension);
        assert_eq!((units(Dimension::InputTokens), units(Dimension::OutputTokens)), (1, 9));
        assert_eq!((units(Dimension::Tokens), units(Dimension::Bytes)), (10, CHAT.len() as u64));
    }

    #[test]
    fn what_was_stated_stays() {
        let stated = Call::to("api").endpoint("POST /v1/chat").model("mine").tokens(500).bytes(1).key("a");
        let headers = [("authorization", "Bearer b")]
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().expect("a value")));
        let call = call_of(CHAT, &headers.into_iter().collect(), stated.clone(), PLAIN);
        assert_eq!((call.stated_endpoint(), call.stated_model()), (Some("POST /v1/chat"), Some("mine")));
        assert_eq!((call.cost(), call.stated_key()), (stated.cost(), stated.stated_key()));
    }

    #[test]
    fn the_api_key_is_told_apart_and_not_shown() {
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", "sk-secret".parse().expect("a value"));
        let call = call_of("", &headers, Call::to("api"), PLAIN);
        assert_eq!(call.stated_key(), Call::to("api").key("sk-secret").stated_key());
        assert!(!format!("{call:?}").contains("secret"));
    }

    #[test]
    fn tokens_are_reserved_as_the_vendor_counts_them() {
        let config = "[services.openai]\npreset = \"openai\"\n";
        let call = call_of(CHAT, &HeaderMap::new(), Call::to("openai"), config);
        assert_eq!(call.cost().units(&Dimension::Tokens), 9, "the larger of input and answer");
    }

    #[test]
    fn of_a_body_that_is_no_json_only_the_size_is_known() {
        let call = call_of("to=sea", &HeaderMap::new(), Call::to("api"), PLAIN);
        assert_eq!((call.stated_model(), call.cost().units(&Dimension::Bytes)), (None, 6));
        assert!(!call.cost().states(&Dimension::Tokens));
    }
}
