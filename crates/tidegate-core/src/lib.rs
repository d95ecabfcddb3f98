//! The rules of tidegate as pure state machines.
//!
//! Every function that depends on time takes `now`; nothing here reads a clock, touches a socket, spawns a
//! task or draws a random number. Drivers (the async library, the simulator) call in, and are told when to
//! call again.

pub mod algorithm;
pub mod allotment;
pub mod breaker;
pub mod call;
pub mod config;
mod contention;
pub mod dimension;
mod endpoint;
pub mod engine;
pub mod fingerprint;
mod invalid;
mod json;
pub mod kept;
pub mod learn;
mod limit;
mod model;
mod pattern;
pub mod presets;
pub mod priority;
pub mod rate;
mod recent;
pub mod refusal;
pub mod reply;
pub mod request;
pub mod retry;
pub mod stream_usage;
pub mod time;
mod tree;
pub mod vendor;

pub use call::{Call, Cost};
pub use config::Config;
pub use dimension::Dimension;
pub use engine::{Admission, Engine, Grant, Ticket, Verdict};
pub use priority::Priority;
pub use refusal::{Reason, Refusal};
pub use time::Nanos;
