//! Spend all of your API quota, and never a request more.

#![warn(missing_docs)]

pub mod clock;

pub use clock::{Clock, ClockSource, ManualClock, SystemClock};
pub use tidegate_core::time::Nanos;
