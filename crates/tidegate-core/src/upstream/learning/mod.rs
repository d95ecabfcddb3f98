//! What the upstream teaches about its limits.
//!
//! Each part is a small state machine of its own, told what happened and asked what follows:
//!
//! * `mirror`: what replies say is left, beside what we know we took. The difference is what others took.
//! * `evidence`: whether an upstream that says when it is full again counts as a bucket does.
//! * `ceiling`: a limit that nobody states, learned from being turned away.
//! * `spread`: how much calls overtake each other on their way, at most, and how long replies take.
//! * `overload`: an upstream that fails too often, and the slower pace that is right then.
//! * `ramp`: the slower pace that is right after a time without calls.
//! * `adaptive`: how many calls in flight an upstream copes with.
//! * [`Outputs`]: how much output calls have.
//!
//! [`Adjustment`](crate::limits::adjustment::Adjustment) is what all of it comes to for one limit.

pub(crate) mod adaptive;
pub(crate) mod ceiling;
pub(crate) mod evidence;
pub(crate) mod mirror;
mod outputs;
pub(crate) mod overload;
pub(crate) mod ramp;
pub(crate) mod spread;

pub use outputs::{Advice, Experience, KeptOutputs, Outputs};
