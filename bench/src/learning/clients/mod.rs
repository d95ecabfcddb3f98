//! Clients to compare with: what common ones do to keep within a limit, each as a small policy.
//!
//! A policy says when the next call may go, hears of every reply, and says how long a call pauses that was refused.
//! [`drive`] lets many callers share one, against the same models of upstreams that the simulator has. Times are in
//! seconds.

mod aimd;
mod backoff;
mod bucket;
mod cubic;
pub mod drive;

use tidegate_sim::Dice;

pub use self::aimd::Aimd;
pub use self::backoff::Backoff;
pub use self::bucket::Bucket;
pub use self::cubic::Cubic;

/// What a client does to keep within a limit.
pub trait Client {
    /// Whether a call may go now; else when to ask again. Whatever may go has gone.
    fn ask(&mut self, now: f64) -> Result<(), f64>;

    /// The reply to a call is back that was sent at `sent`.
    fn told(&mut self, sent: f64, refused: bool, now: f64);

    /// How long a call pauses that was refused so often, and this time was told to come back after `hint`.
    fn pause(&self, refusals: u32, hint: Option<f64>, dice: &mut Dice) -> f64;
}

/// Full jitter over a delay that doubles from a second to twenty: what AWS advises, and its clients do.
fn full_jitter(refusals: u32, dice: &mut Dice) -> f64 {
    dice.unit() * 2_f64.powi(refusals.saturating_sub(1).min(30) as i32).min(20.0)
}
