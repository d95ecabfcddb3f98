//! Time as the rules see it: nanoseconds since the gate was opened.
//!
//! The core owns no clock. Whoever drives it passes `now` into every call and promises only that it never
//! goes backwards; the core promises to say when it wants to be called again. All arithmetic saturates, so
//! a duration beyond the clock's range means "never" and not a panic.

use std::fmt;
use std::time::Duration;

/// A point in time: nanoseconds since the driver's own origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The origin.
    pub const ZERO: Nanos = Nanos(0);
    /// A time that never comes.
    pub const NEVER: Nanos = Nanos(u64::MAX);

    /// The point `span` later, or [`Nanos::NEVER`].
    #[must_use]
    pub fn after(self, span: Duration) -> Nanos {
        Nanos(self.0.saturating_add(whole_nanos(span)))
    }

    /// How long after `earlier` this is; zero if it is not.
    #[must_use]
    pub fn since(self, earlier: Nanos) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Whether this is the time that never comes.
    #[must_use]
    pub fn is_never(self) -> bool {
        self == Nanos::NEVER
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_never() { f.write_str("never") } else { write!(f, "{:?}", Duration::from_nanos(self.0)) }
    }
}

/// A span in whole nanoseconds, saturating at about 584 years.
#[must_use]
pub fn whole_nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_beyond_the_range_is_never_and_not_a_panic() {
        assert!(Nanos(5).after(Duration::MAX).is_never());
        assert_eq!(Nanos(5).since(Nanos(9)), Duration::ZERO);
    }
}
