//! Rules that make no sense.

use std::fmt;

/// Why a policy was refused when it was built.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::retry::RetryPolicy;
///
/// let wrong = RetryPolicy::builder().initial(Duration::ZERO).build().unwrap_err();
/// assert_eq!(wrong.to_string(), "initial: a first delay of 0 never grows: use at least 1ms");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidPolicy {
    /// The field that is wrong.
    pub field: &'static str,
    /// What is wrong with it, and what to do about it.
    pub problem: String,
}

impl InvalidPolicy {
    pub(crate) fn new(field: &'static str, problem: impl Into<String>) -> InvalidPolicy {
        InvalidPolicy { field, problem: problem.into() }
    }
}

impl fmt::Display for InvalidPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl std::error::Error for InvalidPolicy {}
