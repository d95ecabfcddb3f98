//! Spend all of your API quota, and never a request more.

#![warn(missing_docs)]

pub mod bucket;
pub mod clock;
pub mod limiter;
pub mod window;

pub use async_trait::async_trait;
pub use bucket::TokenBucket;
pub use clock::{Clock, ClockSource, ManualClock, SystemClock};
pub use limiter::{InvalidLimit, RateLimitError, RateLimiter};
pub use tidegate_core::time::Nanos;
pub use window::SlidingWindow;
