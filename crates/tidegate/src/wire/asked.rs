//! Which call a request is.

use http::HeaderMap;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName};
use tidegate_core::config::Unread;
use tidegate_core::request::{Asked, Why, begins_as_json, model_in_path, normal_path};
use tidegate_core::vendors::Estimate;
use tidegate_core::{Call, Dimension, MAX_UNITS};

use super::cost::default_memory;
use super::decode::{Coding, Decoder};
use super::memory::Owners;
use crate::gate::Gate;

/// The most that a compressed request is decoded to.
const MAX_DECODED: u64 = 16 << 20;
/// So much of it is looked at.
const BEGINNING: usize = 64 << 10;

/// Where requests carry their API key.
static KEYS: [HeaderName; 4] = [
    AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
];

/// What is there of a request's body before it is sent.
///
/// ```
/// use http::HeaderMap;
/// use tidegate::wire::Content;
///
/// let asked = Content::Whole(br#"{"model": "gpt-4o", "messages": []}"#).asked(&HeaderMap::new());
/// assert_eq!(asked.unwrap().model.as_deref(), Some("gpt-4o"));
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Content<'b> {
    /// All of it.
    Whole(&'b [u8]),
    /// The beginning.
    Beginning {
        /// As far as it was read.
        bytes: &'b [u8],
        /// How long all of it is, if that is known.
        length: Option<u64>,
        /// Why it is not there as a whole.
        why: Why,
    },
}

impl Content<'_> {
    /// Reads what the request asks for. Returns none for an empty body, which asks for nothing.
    #[must_use]
    pub fn asked(&self, headers: &HeaderMap) -> Option<Asked> {
        let (bytes, length, why) = match *self {
            Content::Whole([]) => return None,
            Content::Whole(bytes) => (bytes, bytes.len() as u64, Why::NotJson),
            // It is at least as long as what came of it.
            Content::Beginning { bytes, length, why } => {
                (bytes, length.unwrap_or(0).max(bytes.len() as u64), why)
            }
        };
        let coding = Coding::of(headers);
        let why = if coding == Coding::Plain { why } else { Why::Compressed };
        let whole = matches!(self, Content::Whole(_));
        let read = whole.then(|| Asked::read(bytes)).flatten();
        let is_read = read.is_some();
        let asked = read.unwrap_or_else(|| Asked::glimpse(bytes, length, why));
        Some(match coding {
            Coding::Plain if !is_read && is_medium(headers) && !begins_as_json(bytes) => asked.medium(),
            Coding::Plain => asked,
            _ => compressed(coding, bytes, length, whole, asked),
        })
    }
}

/// Reads a compressed body. A short one is read as if it were not; of another one the beginning is looked at, and how
/// long it is decoded.
///
/// Servers may ignore that a body is said to be compressed. So `as_it_stands`, what it asks for without being decoded,
/// counts too; and it alone if nothing can be decoded.
fn compressed(coding: Coding, bytes: &[u8], length: u64, whole: bool, as_it_stands: Asked) -> Asked {
    let (mut beginning, mut decoded) = (Vec::new(), 0_u64);
    let mut decoder = Decoder::new(coding, default_memory().share(Owners::default()), MAX_DECODED);
    decoder.push(bytes, &mut |plain| {
        decoded += plain.len() as u64;
        beginning.extend_from_slice(&plain[..plain.len().min(BEGINNING - beginning.len())]);
    });
    if decoded == 0 {
        return as_it_stands;
    }
    if whole
        && decoded == beginning.len() as u64
        && let Some(asked) = Asked::read(&beginning).filter(|asked| asked.unread.is_none())
    {
        return asked.or(as_it_stands);
    }
    // What did not come yet is taken to be compressed as what did.
    let all = u128::from(decoded) * u128::from(length) / (bytes.len() as u128).max(1);
    let all = u64::try_from(all).unwrap_or(u64::MAX);
    Asked::glimpse(&beginning, all.max(length), Why::Compressed).or(as_it_stands)
}

/// Whether a body is a picture, a recording or a form with files, by its type.
fn is_medium(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split('/').next().unwrap_or_default().trim();
    ["audio", "image", "multipart", "video"].iter().any(|known| kind.eq_ignore_ascii_case(known))
}

/// What a request shows of itself.
///
/// ```
/// use http::HeaderMap;
/// use tidegate::wire::Shown;
/// use tidegate::{Call, Config, Gate};
///
/// let gate = Gate::builder().config(Config::parse("[services.openai]\npreset = \"openai\"\n")?).build()?;
/// let body = br#"{"model": "gpt-4o", "max_tokens": 100, "messages": []}"#;
/// let asked = tidegate::wire::Content::Whole(body).asked(&HeaderMap::new());
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
    /// What its body asks for ([`Content::asked`]); none if it has no body.
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
        if !call.states_key()
            && let Some(key) = KEYS.iter().find_map(|name| self.headers.get(name)?.to_str().ok())
        {
            call = call.key(key);
        }
        if let Some(bytes) = self.bytes.filter(|_| !call.cost().states(&Dimension::Bytes)) {
            call = call.bytes(bytes);
        }
        if call.stated_model().is_none() {
            let path = normal_path(self.path);
            let [model, other, _] = self.models(&path);
            if let Some(model) = model {
                call = call.model(model);
            }
            if let Some(other) = other {
                call = call.other_model(other);
            }
        }
        let Some(asked) = self.asked.filter(|_| !call.cost().states(&Dimension::Tokens)) else { return call };
        let rules = gate.shared.rules();
        let service = rules.service(&call);
        if asked.unread.is_some() && rules.unread(service) == Unread::Pass {
            return call;
        }
        let expected_output = gate.shared.expected_output(&call, asked);
        let estimate = Estimate { expected_output, ..asked.careful_estimate() };
        let charge = rules.counting(service).reserve(&estimate);
        // A guess is never refused for being too large to be a cost.
        let [tokens, input, output] =
            [charge.tokens, charge.input_tokens, charge.output_tokens].map(|units| units.min(MAX_UNITS));
        call.input_tokens(input).output_tokens(output).tokens(tokens).estimated_tokens()
    }

    /// Returns the models that the path and the body name, each once. The path's is the first one: servers that have a model
    /// there take that one, and the body may name another. A third one is too many.
    fn models<'n>(&'n self, path: &'n str) -> [Option<&'n str>; 3] {
        let in_path = model_in_path(path);
        let in_body = self.asked.into_iter().flat_map(Asked::models);
        let mut names = in_path.into_iter().chain(in_body.filter(|name| Some(*name) != in_path));
        std::array::from_fn(|_| names.next())
    }

    /// Returns why the request is not to be sent: its body cannot be read, and the service's config refuses such calls;
    /// or it names more models than can be held to their limits. What `stated` says itself is not looked for.
    #[must_use]
    pub fn refused(&self, stated: &Call, gate: &Gate) -> Option<Why> {
        let names_many = self.models(&normal_path(self.path))[2].is_some();
        let why = if names_many { Why::ManyModels } else { self.asked?.unread?.why };
        if stated.stated_model().is_some()
            && (why == Why::ManyModels || stated.cost().states(&Dimension::Tokens))
        {
            return None;
        }
        let rules = gate.shared.rules();
        let refuses = rules.unread(rules.service(stated)) == Unread::Refuse;
        (refuses || why == Why::ManyModels).then_some(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn call_of(body: &str, headers: &HeaderMap, stated: Call, config: &str) -> Call {
        let gate = Gate::builder().config(Config::parse(config).expect("valid")).build().expect("valid");
        let asked = Content::Whole(body.as_bytes()).asked(headers);
        let bytes = Some(body.len() as u64);
        let shown =
            Shown { method: "POST", path: "/v1/chat/completions", headers, bytes, asked: asked.as_ref() };
        shown.call(stated, &gate)
    }

    fn print(call: &Call) -> Option<Box<str>> {
        call.key_fingerprint(&tidegate_core::Salt::default())
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
        assert_eq!((call.cost(), print(&call)), (stated.cost(), print(&stated)));
    }

    #[test]
    fn the_api_key_is_told_apart_and_not_shown() {
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", "sk-secret".parse().expect("a value"));
        let call = call_of("", &headers, Call::to("api"), PLAIN);
        assert_eq!(print(&call), print(&Call::to("api").key("sk-secret")));
        assert!(!format!("{call:?}").contains("secret"));
    }

    #[test]
    fn tokens_are_reserved_as_the_vendor_counts_them() {
        let config = "[services.openai]\npreset = \"openai\"\n";
        let call = call_of(CHAT, &HeaderMap::new(), Call::to("openai"), config);
        assert_eq!(call.cost().units(&Dimension::Tokens), 9, "the larger of input and answer");
    }

    #[test]
    fn of_a_body_that_is_no_json_the_size_is_known_and_the_config_says_what_that_means() {
        for (unread, tokens, refused) in [
            ("", Some(2), None),
            ("unread = \"estimate\"\n", Some(2), None),
            ("unread = \"pass\"\n", None, None),
            ("unread = \"refuse\"\n", Some(2), Some(Why::NotJson)),
        ] {
            let config = format!("{PLAIN}{unread}");
            let call = call_of("to=sea", &HeaderMap::new(), Call::to("api"), &config);
            assert_eq!((call.stated_model(), call.cost().units(&Dimension::Bytes)), (None, 6));
            let stated =
                call.cost().states(&Dimension::Tokens).then(|| call.cost().units(&Dimension::Tokens));
            assert_eq!(stated, tokens, "{unread}");
            let asked = Content::Whole(b"to=sea").asked(&HeaderMap::new());
            let gate = Gate::builder().config(Config::parse(&config).expect("valid")).build().expect("valid");
            let (headers, path) = (&HeaderMap::new(), "/v1/chat");
            let shown = Shown { method: "POST", path, headers, bytes: Some(6), asked: asked.as_ref() };
            assert_eq!(shown.refused(&Call::to("api"), &gate), refused, "{unread}");
            assert_eq!(shown.refused(&Call::to("api").model("m").tokens(5), &gate), None, "all is stated");
        }
    }

    #[test]
    fn a_recording_or_a_form_counts_as_a_medium_and_a_compressed_body_by_its_length() {
        let headers = |name: &'static str, value: &'static str| {
            HeaderMap::from_iter([(
                http::HeaderName::from_static(name),
                http::HeaderValue::from_static(value),
            )])
        };
        let sound = "s".repeat(100_000);
        let tokens = |headers: &HeaderMap, body: &str| {
            call_of(body, headers, Call::to("api"), PLAIN).cost().units(&Dimension::Tokens)
        };
        assert_eq!(tokens(&headers("content-type", "audio/mpeg"), &sound), 1_000);
        assert_eq!(tokens(&headers("content-type", "multipart/form-data; boundary=b"), &sound), 1_000);
        assert_eq!(tokens(&headers("content-type", "application/octet-stream"), &sound), 25_000);
        let text = format!("[\"{sound}\"]");
        assert_eq!(
            tokens(&headers("content-type", "audio/mpeg"), &text),
            25_001,
            "it is text, whatever it says"
        );
        assert_eq!(tokens(&headers("content-encoding", "gzip"), &sound), 25_000, "it is not what it says");
    }

    #[test]
    fn a_compressed_request_is_read_or_counts_as_what_it_stands_for() {
        let headers =
            HeaderMap::from_iter([(http::header::CONTENT_ENCODING, "gzip".parse().expect("a value"))]);
        let gzip = crate::wire::decode::tests::gzip;
        let asked = Content::Whole(&gzip(CHAT.as_bytes())).asked(&headers).expect("a body");
        assert_eq!(Some(asked), Asked::read(CHAT.as_bytes()));
        let long = CHAT.replace("four", &"sea ".repeat(100_000));
        let body = gzip(long.as_bytes());
        let asked = Content::Whole(&body).asked(&headers).expect("a body");
        assert_eq!(asked.model.as_deref(), Some("gpt-4o"));
        let (why, tokens) =
            asked.unread.map(|unread| (unread.why, unread.tokens)).expect("too long to be kept");
        assert_eq!((why, tokens), (Why::Compressed, (long.len() as u64).div_ceil(4)));
        let bomb = gzip(&vec![b' '; 100 << 20]);
        let tokens =
            Content::Whole(&bomb).asked(&headers).and_then(|asked| asked.unread).map(|unread| unread.tokens);
        assert_eq!(tokens, Some(MAX_DECODED.div_ceil(4)));
    }

    #[test]
    fn a_body_that_is_not_compressed_as_it_says_is_read_as_it_stands() {
        for coding in ["gzip", "deflate", "br", "zstd", "utf-8", "aes128gcm", "gzip, br"] {
            let headers =
                HeaderMap::from_iter([(http::header::CONTENT_ENCODING, coding.parse().expect("a value"))]);
            let asked = Content::Whole(CHAT.as_bytes()).asked(&headers).expect("a body");
            assert_eq!(asked.models().collect::<Vec<_>>(), ["gpt-4o"], "{coding}");
            let estimate = asked.careful_estimate();
            assert!(estimate.input >= 1 && estimate.max_output == Some(9), "{coding}: {estimate:?}");
            let beginning =
                Content::Beginning { bytes: CHAT.as_bytes(), length: Some(1 << 24), why: Why::TooLarge };
            let asked = beginning.asked(&headers).expect("a body");
            assert_eq!(asked.models().collect::<Vec<_>>(), ["gpt-4o"], "{coding}");
        }
    }

    #[test]
    fn a_model_in_the_body_does_not_hide_the_one_in_the_path() {
        let gate = Gate::builder().config(Config::parse(PLAIN).expect("valid")).build().expect("valid");
        let headers = HeaderMap::new();
        let seen = |path: &str, body: &str| {
            let asked = Content::Whole(body.as_bytes()).asked(&headers);
            let shown = Shown { method: "POST", path, headers: &headers, bytes: None, asked: asked.as_ref() };
            let call = shown.call(Call::to("api"), &gate);
            let names = [call.stated_model(), call.stated_other_model()].map(|name| name.map(str::to_owned));
            (names, shown.refused(&Call::to("api"), &gate))
        };
        let both = |one: &str, other: &str| [Some(one.to_owned()), Some(other.to_owned())];
        let path = "/openai/deployments/ours/chat/completions";
        assert_eq!(seen(path, r#"{"model":"decoy"}"#), (both("ours", "decoy"), None));
        assert_eq!(seen(path, r#"{"model":"ours"}"#), ([Some("ours".to_owned()), None], None));
        assert_eq!(seen(path, r#"{"model":"decoy","model":"ours"}"#), (both("ours", "decoy"), None));
        assert_eq!(seen(path, ""), ([Some("ours".to_owned()), None], None));
        let path = "/v1beta/models/sea%3AgenerateContent";
        assert_eq!(seen(path, r#"{"model":"decoy"}"#), (both("sea", "decoy"), None));
        assert_eq!(seen(path, r#"{"model":"a","model":"b"}"#).1, Some(Why::ManyModels));
    }

    #[test]
    fn a_maximum_that_is_no_number_of_units_is_no_reason_to_refuse_a_call() {
        for max in ["18446744073709551615", "1e300", "-1", "\"many\""] {
            let body = CHAT.replace(": 9", &format!(": {max}, \"n\": 4e9"));
            let call = call_of(&body, &HeaderMap::new(), Call::to("api"), PLAIN);
            let gate = Gate::builder().config(Config::parse(PLAIN).expect("valid")).build().expect("valid");
            assert!(gate.try_acquire(call).is_ok(), "{max}");
        }
    }
}
