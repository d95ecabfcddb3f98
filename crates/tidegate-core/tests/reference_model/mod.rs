//! Small random worlds, and the scheduler's rules written down as plainly as possible.

mod scenario;
mod scheduler;

pub use scenario::{Event, Scenario};
pub use scheduler::Reference;
