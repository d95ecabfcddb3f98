//! The sidecar: one base URL, and every SDK behaves.
//!
//! A [`Server`] stands between programs and the APIs that they call. It forwards `/{service}/…` to the upstream of that
//! service when its limits allow, in rank order. It retries calls that were refused or failed, and settles their cost by
//! the replies. It is a `tidegate` gate with sockets on both sides.
//!
//! ```text
//!  listen ──► guard ──► route ─┬─► proxy ──► gate ──► upstream
//!  sockets    checks   reads   │   the call, its body, its reply
//!             origins  paths   └─► v1: permits for other work, changes of limits, status
//! ```
//!
//! From the bottom up, each part uses only parts before it:
//!
//! - Values and small parts: `timeouts`, `workers` (threads), `descriptors` (open files), `outbound_proxies`,
//!   `lifecycle` (phases of stopping), `route` (reads paths), `guard` (keeps out browsers and other hosts), `refusal`,
//!   `learned`, [`explain`], [`configured_limits`], `limit_changes`, `loop_counts`, `permits` (those that callers hold).
//! - Parts of an answer: `events`, `auth` (tokens), `body`, `error_format` (errors as each vendor writes them).
//! - State: `services` (upstreams and keys), `config_store` (the config in force), `shared`, `config_file` (reloads),
//!   `span` (tracing).
//! - Parts that answer: `proxy` (forwards a call), `v1` (the sidecar's own API), `app` (checks a request and passes it to
//!   one of them), `listen` (connections), `server` (start and stop).

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
