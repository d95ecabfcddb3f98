//! Which call a request is.

use ::reqwest::{Body, Request};
use tidegate_core::request::Asked;
use tidegate_core::{Call, Config, Dimension};

/// Where requests carry their API key.
const KEYS: [&str; 3] = ["authorization", "x-api-key", "api-key"];

/// The call that a request is: what was stated of it, and where that leaves something open, what the request
/// shows. A body that is streamed shows nothing.
pub(super) fn call_of(request: &Request, stated: &Call, config: &Config) -> Call {
    let mut call = stated.clone();
    if call.stated_endpoint().is_none() {
        call = call.endpoint(&format!("{} {}", request.method(), request.url().path()));
    }
    let key = KEYS.iter().find_map(|name| request.headers().get(*name)?.to_str().ok());
    if let Some(key) = key.filter(|_| call.stated_key().is_none()) {
        call = call.key(key);
    }
    match request.body().and_then(Body::as_bytes) {
        Some(body) => with_body(call, body, config),
        None => call,
    }
}

fn with_body(mut call: Call, body: &[u8], config: &Config) -> Call {
    if !call.cost().states(&Dimension::Bytes) {
        call = call.bytes(body.len() as u64);
    }
    let object = body.trim_ascii_start().starts_with(b"{");
    let Some(Asked { model, estimate }) = object.then(|| Asked::read(body)).flatten() else { return call };
    if let Some(model) = model.filter(|_| call.stated_model().is_none()) {
        call = call.model(&model);
    }
    if !call.cost().states(&Dimension::Tokens) {
        let charge = config.counting(call.service()).reserve(&estimate);
        let parts = call.input_tokens(charge.input_tokens).output_tokens(charge.output_tokens);
        call = parts.tokens(charge.tokens).estimated();
    }
    call
}

#[cfg(test)]
mod tests {
    use ::reqwest::{Method, Url};

    use super::*;

    fn request(body: &'static str) -> Request {
        let url = Url::parse("http://api.example/v1/chat/completions?limit=3").expect("a URL");
        let mut request = Request::new(Method::POST, url);
        *request.body_mut() = Some(body.into());
        request
    }

    const CHAT: &str =
        r#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "four"}], "max_tokens": 9}"#;

    #[test]
    fn a_request_shows_its_endpoint_model_size_and_likely_cost() {
        let call = call_of(&request(CHAT), &Call::to("api"), &Config::default());
        assert_eq!(call.stated_endpoint(), Some("POST /v1/chat/completions"));
        assert_eq!(call.stated_model(), Some("gpt-4o"));
        let units = |dimension| call.cost().units(&dimension);
        assert_eq!((units(Dimension::InputTokens), units(Dimension::OutputTokens)), (1, 9));
        assert_eq!((units(Dimension::Tokens), units(Dimension::Bytes)), (10, CHAT.len() as u64));
    }

    #[test]
    fn what_was_stated_stays() {
        let stated = Call::to("api").endpoint("POST /v1/chat").model("mine").tokens(500).bytes(1).key("a");
        let mut request = request(CHAT);
        request.headers_mut().insert("authorization", "Bearer b".parse().expect("a value"));
        let call = call_of(&request, &stated, &Config::default());
        assert_eq!((call.stated_endpoint(), call.stated_model()), (Some("POST /v1/chat"), Some("mine")));
        assert_eq!((call.cost(), call.stated_key()), (stated.cost(), stated.stated_key()));
    }

    #[test]
    fn the_api_key_is_told_apart_and_not_shown() {
        let mut request = request("");
        request.headers_mut().insert("x-api-key", "sk-secret".parse().expect("a value"));
        let call = call_of(&request, &Call::to("api"), &Config::default());
        assert_eq!(call.stated_key(), Call::to("api").key("sk-secret").stated_key());
        assert!(!format!("{call:?}").contains("secret"));
    }

    #[test]
    fn tokens_are_reserved_as_the_vendor_counts_them() {
        let config = Config::parse("[services.openai]\npreset = \"openai\"\n", "config").expect("valid");
        let call = call_of(&request(CHAT), &Call::to("openai"), &config);
        assert_eq!(call.cost().units(&Dimension::Tokens), 9, "the larger of input and answer");
    }

    #[test]
    fn of_a_body_that_is_no_json_only_the_size_is_known() {
        let call = call_of(&request("to=sea"), &Call::to("api"), &Config::default());
        assert_eq!((call.stated_model(), call.cost().units(&Dimension::Bytes)), (None, 6));
        assert!(!call.cost().states(&Dimension::Tokens));
    }
}
