//! Spend all of your API quota, and never a request more.
//!
//! A [`Gate`] decides who may call, when, and how much. It is made from a [`Config`] (the same file that the
//! sidecar reads), and every call asks it for a [`Permit`]: it passes every limit on its route or waits in
//! rank order, and nobody waits for the impossible.
//!
//! [`Gate::execute`] makes the call on your behalf and makes it again where that is worth it; [`Gate::simple`] is a
//! gate in one line, without a config.
//!
//! A [`BackoffWindow`] is what to share when an upstream said 429: all who know its key wait until it has
//! passed. A [`Dispatch`] bounds the calls and bytes in flight, and tightens those bounds while such a window is
//! open and for a time after it.
//!
//! [`TokenBucket`] and [`SlidingWindow`] are single limits that need no gate, behind the object-safe
//! [`RateLimiter`] trait.
//!
//! Features, none of them on by default: `tower`, a layer that puts a gate in front of any service, and `reqwest`,
//! a middleware that does the same for a client and sends again what was refused. Both `reqwest` and the sidecar are
//! made of `wire`: what HTTP requests and replies say to a gate.

#![warn(missing_docs)]

pub mod backoff;
pub mod bucket;
pub mod chance;
pub mod clock;
pub mod config;
pub mod dispatch;
pub mod execute;
pub mod gate;
pub mod limiter;
mod lock;
pub mod outcome;
pub mod refused;
#[cfg(feature = "reqwest")]
pub mod reqwest;
mod retry_after;
mod rules;
mod salt;
pub mod simple;
#[cfg(feature = "sqlite")]
pub mod state;
#[cfg(feature = "tower")]
pub mod tower;
pub mod window;
#[cfg(feature = "wire")]
pub mod wire;

pub use async_trait::async_trait;
pub use backoff::{BackoffWindow, Key, Registry};
pub use bucket::TokenBucket;
pub use chance::Chance;
pub use clock::{Clock, ClockSource, ManualClock, SystemClock};
pub use config::{Config, ConfigError};
pub use dispatch::{Dispatch, DispatchBuilder, DispatchError, DispatchSnapshot};
pub use execute::{Attempt, Execute, ExecuteError, GaveUp, Progress, ProgressStream, Report};
pub use gate::{Acquire, Explanation, Gate, GateBuilder, Permit};
pub use limiter::{InvalidLimit, RateLimitError, RateLimiter};
pub use outcome::{Failed, Outcome};
pub use refused::Refused;
pub use retry_after::retry_after;
pub use simple::RateLimitConfig;
#[cfg(feature = "sqlite")]
pub use state::{OnFailure, StateError, StateFile};
pub use tidegate_core::engine::{
    BackoffStatus, BreakerState, BreakerStatus, ChangeError, Explained, LearnedLimit, Lesson, LimitStatus,
    News, Outlook, Place, ServiceCounts, Terms,
};
pub use tidegate_core::retry::{self, RetryPolicy};
pub use tidegate_core::{Call, Cost, Dimension, Nanos, Priority, Reason};
pub use window::SlidingWindow;
