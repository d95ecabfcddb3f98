//! Trying again: after what, how often, after how long.
//!
//! ```text
//!  reply or error ──► Failure ──► RetryPolicy::decide ──► Retry { after } or GiveUp(why)
//!                     what it      how often, how long,
//!                     means        within which budget
//! ```
//!
//! The state of a call, its [`Tries`], is its own: one call's failures never use up another's retries. Only
//! the [`Budget`] is shared. Waiting, counting time and drawing random numbers are for the caller.

mod backoff;
mod budget;
mod decision;
mod failure;
mod jitter;
mod policy;

pub use crate::model::growth::Growth;
pub use crate::model::invalid::InvalidPolicy;
pub use backoff::Backoff;
pub use budget::Budget;
pub use decision::{Decision, DelayBy, GiveUp, HINT_FLOOR, Tries};
pub use failure::{Failure, FailureKind, Transport, is_repeatable};
pub use jitter::Jitter;
pub use policy::{RetryPolicy, RetryPolicyBuilder};
