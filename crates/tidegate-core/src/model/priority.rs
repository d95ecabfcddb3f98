//! The four base priorities of a call.

use std::fmt;
use std::str::FromStr;

/// How urgent a call is. Waiting raises a call's rank; it never changes its base priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Background work that may wait.
    Low,
    /// The default.
    #[default]
    Normal,
    /// A person is waiting.
    High,
    /// Goes before everything else.
    Critical,
}

impl Priority {
    /// All four, lowest first; `p as usize` is its index here.
    pub const ALL: [Priority; 4] = [Priority::Low, Priority::Normal, Priority::High, Priority::Critical];

    /// The name used in config files, headers and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Priority::Low => "low",
            Priority::Normal => "normal",
            Priority::High => "high",
            Priority::Critical => "critical",
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text was not one of the four priorities.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown priority `{0}`: use one of low, normal, high, critical")]
pub struct UnknownPriority(pub String);

impl FromStr for Priority {
    type Err = UnknownPriority;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Priority::ALL
            .into_iter()
            .find(|p| p.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownPriority(text.into()))
    }
}
