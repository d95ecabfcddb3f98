//! What a reply means for the caller, as far as limits go.

use std::fmt;

use serde::{Serialize, Serializer};

/// What a reply means for the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Nothing about limits stands in the way (the call itself may still have failed).
    #[default]
    Ok,
    /// Too fast: the same call passes later.
    RateLimited,
    /// The upstream is short of capacity: retry, and learn nothing about our own limit.
    Overloaded,
    /// Too many calls at once: a finished call makes room.
    ConcurrencyLimited,
    /// Used up or never granted: retrying does not help until somebody pays, upgrades or asks for less.
    QuotaExhausted,
}

impl Verdict {
    /// All of them, in the order of how much they forbid.
    pub const ALL: [Verdict; 5] = [
        Verdict::Ok,
        Verdict::RateLimited,
        Verdict::Overloaded,
        Verdict::ConcurrencyLimited,
        Verdict::QuotaExhausted,
    ];

    /// The name used in JSON and in config files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::RateLimited => "rate_limited",
            Verdict::Overloaded => "overloaded",
            Verdict::ConcurrencyLimited => "concurrency_limited",
            Verdict::QuotaExhausted => "quota_exhausted",
        }
    }

    /// The verdict of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Verdict> {
        Verdict::ALL.into_iter().find(|v| v.name() == name)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
