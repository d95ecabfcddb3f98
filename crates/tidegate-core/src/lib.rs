//! The rules of tidegate as pure state machines.
//!
//! Every function that depends on time takes `now`; nothing here reads a clock, touches a socket, spawns a
//! task or draws a random number. Drivers (the async library, the simulator) call in, and are told when to
//! call again.

mod admission;
mod calls;
pub mod config;
pub mod engine;
mod funding;
mod inspect;
mod json;
mod lending;
pub mod limits;
mod model;
pub mod reply;
pub mod request;
pub mod retry;
mod routing;
mod scheduler;
mod upstream;
pub mod vendors;

pub use config::Config;
pub use engine::{Admission, Engine, Grant, Ticket, Verdict};
pub use model::call::{Call, Cost};
pub use model::dimension::Dimension;
pub use model::fingerprint::Salt;
pub use model::priority::{Priority, UnknownPriority};
pub use model::rate::{Algorithm, MAX_UNITS, MAX_WINDOW, MIN_WINDOW, Rate, RateError, WindowName};
pub use model::refusal::{Reason, Refusal};
pub use model::time::{Nanos, whole_nanos};
pub use upstream::learning::{Advice, Experience, KeptOutputs, Outputs};
