//! What a limit of an upstream counts, in the words of upstreams.

use std::borrow::Cow;
use std::fmt;

/// What a limit of an upstream counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Calls.
    #[default]
    Requests,
    /// Tokens of any kind.
    Tokens,
    /// Tokens sent.
    InputTokens,
    /// Tokens received.
    OutputTokens,
    /// Points of a cost model (GraphQL, Jira).
    Points,
    /// Query complexity (Linear).
    Complexity,
    /// Calls at the same time.
    Concurrency,
    /// Bytes of content.
    ContentBytes,
    /// A share of an allowance whose size is not told; the limit is 1.
    Utilization,
    /// Any other unit, by name.
    Other(Cow<'static, str>),
}

impl Kind {
    /// The name used in JSON and in config files.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Kind::Requests => "requests",
            Kind::Tokens => "tokens",
            Kind::InputTokens => "input_tokens",
            Kind::OutputTokens => "output_tokens",
            Kind::Points => "points",
            Kind::Complexity => "complexity",
            Kind::Concurrency => "concurrency",
            Kind::ContentBytes => "content-bytes",
            Kind::Utilization => "utilization",
            Kind::Other(name) => name,
        }
    }

    /// The kind that a unit's name stands for; every name is one.
    #[must_use]
    pub fn from_name(name: &str) -> Kind {
        match name {
            "requests" | "request" => Kind::Requests,
            "tokens" | "token" => Kind::Tokens,
            "input_tokens" | "input-tokens" => Kind::InputTokens,
            "output_tokens" | "output-tokens" => Kind::OutputTokens,
            "points" => Kind::Points,
            "complexity" => Kind::Complexity,
            "concurrency" | "concurrent-requests" => Kind::Concurrency,
            "content-bytes" | "content_bytes" => Kind::ContentBytes,
            "utilization" => Kind::Utilization,
            other => Kind::Other(Cow::Owned(other.to_owned())),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
