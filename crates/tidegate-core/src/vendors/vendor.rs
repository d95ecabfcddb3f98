//! One row of the vendor table.

use super::counting::Counting;
use super::kind::Kind;
use super::preset::Preset;
use super::reset::ResetForm;
use super::rule::{ErrorRule, HeaderRule, Scope, Sign, ZeroLimit};

/// One vendor.
#[derive(Debug)]
pub struct Vendor {
    /// The name that `--vendor` and presets use.
    pub name: &'static str,
    /// Other names it goes by.
    pub aliases: &'static [&'static str],
    /// Headers that show a reply is its.
    pub signs: &'static [Sign],
    /// Its own sites, in lower case: an error message that names one is its, if no header shows another.
    pub sites: &'static [&'static str],
    /// What its own headers mean.
    pub headers: &'static [HeaderRule],
    /// How bare numbers in its reset headers are meant.
    pub reset: ResetForm,
    /// Added to its resets before they are trusted.
    pub reset_margin_ms: u64,
    /// The windows of its limits, where they are always the same.
    pub windows: &'static [(Kind, u64)],
    /// How its replies differ from the conventions.
    pub quirks: Quirks,
    /// What its errors mean; the first that matches decides.
    pub errors: &'static [ErrorRule],
    /// What its limits are counted by.
    pub scope: &'static [Scope],
    /// How it counts tokens.
    pub counting: Counting,
    /// What its clients send and expect.
    pub dialect: Dialect,
    /// Where it is and which limits it is known to have.
    pub preset: Option<&'static Preset>,
    /// Where the facts come from, and of when they are.
    pub source: &'static str,
}

/// How the replies of a vendor differ from the conventions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quirks {
    /// What a limit of zero means.
    pub zero_limit: ZeroLimit,
    /// Whether a retry hint on a successful status means that the call was refused.
    pub hint_on_success_refuses: bool,
    /// Whether it refuses calls inside of streams that began with a status of 200.
    pub refuses_in_streams: bool,
    /// Names of limits that count points: a part of the name.
    pub points: &'static [&'static str],
}

impl Quirks {
    /// Replies that follow the conventions.
    pub const NONE: Quirks = Quirks {
        zero_limit: ZeroLimit::PushBack,
        hint_on_success_refuses: false,
        refuses_in_streams: false,
        points: &[],
    };
}

/// What the clients of a vendor send and expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The header that carries the API key, if it is not `Authorization: Bearer`.
    pub key_header: Option<&'static str>,
    /// How its errors are written.
    pub error_shape: ErrorShape,
    /// Whether a stream reports its usage if the request has `stream_options.include_usage`.
    pub takes_stream_options: bool,
}

impl Dialect {
    /// The key as a bearer token, and errors with a message at the top.
    pub const COMMON: Dialect =
        Dialect { key_header: None, error_shape: ErrorShape::Message, takes_stream_options: false };
}

/// How the body of an error is written, as SDKs parse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorShape {
    /// `{"error": {"code", "message"}}`.
    Plain,
    /// As OpenAI: `{"error": {"code", "message", "type", "param"}}`.
    OpenAi,
    /// As Anthropic: `{"type": "error", "error": {"type", "message"}}`.
    Anthropic,
    /// As Google: `{"error": {"code", "message", "status"}}`, the code being the HTTP status.
    Google,
    /// As AWS: a message at the top, and the type in the header `x-amzn-errortype`.
    Aws,
    /// A message at the top, as GitHub, Cohere and many others have it.
    Message,
    /// As Slack: `{"ok": false, "error": "code"}`.
    Slack,
}

impl Vendor {
    /// Returns whether it may refuse a call inside a stream that began with a status of 200.
    #[must_use]
    pub fn refuses_in_streams(&self) -> bool {
        self.quirks.hint_on_success_refuses || self.quirks.refuses_in_streams
    }
}
