//! The sidecar: one base URL, and every SDK behaves.
//!
//! A [`Server`] stands between programs and the APIs that they call. It forwards `/{service}/…` to that service's
//! upstream when its limits allow, in rank order, makes calls again that were refused or failed, and settles what
//! they cost by what the replies say. It is a `tidegate` gate with sockets on both sides.
//!
//! ```text
//!  listen ──► guard ──► route ─┬─► proxy ──► gate ──► upstream
//!  sockets    who may  where to│   the call, its body, its reply
//!             ask              └─► v1: permits for work of other kinds, live changes, what it knows of itself
//! ```
//!
//! The parts: `listen` (connections, and their end), `guard` (no page of a browser and no other host gets in), `auth`
//! (whose token allows what), `route` (what a path means), `proxy` (the way of one call), `v1` (the sidecar's own
//! answers), `permits` (those that others hold), `live` (limits changed by hand), `reload` (the config file while it
//! runs), `events` (what happens, for whoever listens), `learned` (what was learned of the upstream, as JSON), [`explain`] (what a
//! call would meet), `refusal` and `shape` (what a client is told that may not go), [`in_force`] (the limits of a config,
//! each with where it is from), `span` (what `tracing` is told of a call).

#![warn(missing_docs)]

mod app;
mod auth;
mod body;
mod config_file;
mod config_store;
pub mod configured_limits;
mod descriptors;
mod error_format;
mod events;
pub mod explain;

mod guard;
mod learned;
mod lifecycle;
mod limit_changes;
mod listen;
mod loop_counts;
mod outbound_proxies;
mod permits;
mod proxy;
mod refusal;
mod route;
mod server;
mod services;
mod shared;
mod span;
mod start_error;
mod timeouts;
mod v1;
mod workers;

pub use refusal::{headers, status};
pub use server::{Server, ServerBuilder};
pub use start_error::StartError;
pub use timeouts::Timeouts;
