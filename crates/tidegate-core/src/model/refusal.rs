//! A call that may not go: why, because of which limit, and when to come back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::model::time::Nanos;

/// Why a call was refused. It consumed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It did not fit within the time it was ready to wait.
    Timeout,
    /// It was refused at arrival: it would have had to wait longer than it was ready to.
    Hopeless,
    /// Too many calls wait, and all of them rank above this one.
    QueueFull,
    /// Its cost is above what the limit ever allows.
    TooLarge {
        /// What it costs.
        cost: u64,
        /// What fits at most.
        capacity: u64,
    },
    /// The upstream is not well: the breaker is open, and the wait is the time to the next probe.
    CircuitOpen,
    /// No such service in the config.
    UnknownService(Arc<str>),
    /// The call states a unit that no limit declares.
    UnknownDimension(Arc<str>),
    /// The cost is no number of units: negative, not finite, or above 2⁶³.
    InvalidCost,
    /// The lender of the limit's units has not answered, and none are left.
    Unavailable,
}

impl Reason {
    /// The word that the sidecar and its clients use for it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Reason::Timeout => "timeout",
            Reason::Hopeless => "hopeless",
            Reason::QueueFull => "queue_full",
            Reason::TooLarge { .. } => "too_large",
            Reason::CircuitOpen => "circuit_open",
            Reason::UnknownService(_) => "unknown_service",
            Reason::UnknownDimension(_) => "unknown_dimension",
            Reason::InvalidCost => "invalid_cost",
            Reason::Unavailable => "state_unavailable",
        }
    }
}

/// A refusal names the limit, the wait until the call would fit, and the reset time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// The limit that decided it, by name.
    pub limit: Option<Arc<str>>,
    /// How long until the call would have fitted, where that can be known.
    pub wait: Option<Duration>,
    /// When that limit is wholly available again, where that can be known.
    pub reset: Option<Nanos>,
}

impl Refusal {
    /// One that no limit has to do with.
    #[must_use]
    pub fn bare(reason: Reason) -> Refusal {
        Refusal { reason, limit: None, wait: None, reset: None }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit.as_deref().unwrap_or("the queue");
        match &self.reason {
            Reason::Timeout => write!(f, "no room at `{limit}` within the time it could wait")?,
            Reason::Hopeless => write!(f, "`{limit}` will have no room within the time it could wait")?,
            Reason::QueueFull => write!(f, "too many calls wait for `{limit}`, all of higher rank")?,
            Reason::TooLarge { cost, capacity } => {
                write!(f, "a cost of {cost} can never fit `{limit}`, which allows {capacity} at most")?;
            }
            Reason::CircuitOpen => {
                write!(f, "`{limit}` is open: the upstream keeps failing")?;
                return match self.wait {
                    Some(wait) => write!(f, "; the next probe goes in {wait:.1?}"),
                    None => f.write_str("; a probe is out"),
                };
            }
            Reason::UnknownService(name) => write!(f, "no service named `{name}` in the config")?,
            Reason::UnknownDimension(name) => {
                write!(f, "the call costs `{name}`, a unit that no limit in the config counts")?;
            }
            Reason::InvalidCost => f.write_str("the cost is negative, not a number, or above 2^63")?,
            Reason::Unavailable => write!(f, "the state behind `{limit}` does not answer")?,
        }
        match self.wait {
            Some(wait) => write!(f, "; it would fit in {wait:.1?}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}
