//! What a limit counts, and what a call costs in each of those units.

use std::fmt;
use std::sync::Arc;

/// A unit that limits are written in.
///
/// The known ones have a meaning of their own (a call is one request unless it says otherwise); any other
/// name is a custom unit, which a limit must declare before a call may state it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// Calls; every call costs one unless it states another number.
    Requests,
    /// Tokens of any kind.
    Tokens,
    /// Tokens sent.
    InputTokens,
    /// Tokens received.
    OutputTokens,
    /// Bytes sent.
    Bytes,
    /// Money, in millionths of a dollar.
    MicroUsd,
    /// Any other unit, by name.
    Custom(Arc<str>),
}

impl Dimension {
    /// The dimension of that name; every name is one.
    #[must_use]
    pub fn from_name(name: &str) -> Dimension {
        match name {
            "requests" => Dimension::Requests,
            "tokens" => Dimension::Tokens,
            "input_tokens" => Dimension::InputTokens,
            "output_tokens" => Dimension::OutputTokens,
            "bytes" => Dimension::Bytes,
            "usd" => Dimension::MicroUsd,
            custom => Dimension::Custom(custom.into()),
        }
    }

    /// The name used in config files and limit names.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Dimension::Requests => "requests",
            Dimension::Tokens => "tokens",
            Dimension::InputTokens => "input_tokens",
            Dimension::OutputTokens => "output_tokens",
            Dimension::Bytes => "bytes",
            Dimension::MicroUsd => "usd",
            Dimension::Custom(name) => name,
        }
    }

    /// How many of the engine's whole units one written unit is: money is counted in millionths.
    #[must_use]
    pub fn scale(&self) -> u64 {
        if *self == Dimension::MicroUsd { 1_000_000 } else { 1 }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
