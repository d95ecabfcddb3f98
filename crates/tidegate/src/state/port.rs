//! The engine's side of the state file, as the thread that writes the file sees it.
//!
//! This is the only way from here to the gate: the gate implements [`FundingPort`], and nothing in this folder knows
//! the gate.

use std::time::Duration;

use tidegate_core::Nanos;
use tidegate_core::engine::Page;

/// What the engine asks to be written, and how it hears of the answer.
pub(crate) trait FundingPort: Send + Sync + 'static {
    /// Takes what is due to be written; everything, if it is the `last` time.
    fn poll(&self, last: bool) -> Taken;

    /// Tells the engine whether a batch was written, and how long a batch `takes` from request to answer.
    fn answer(&self, taken: &Taken, written: bool, takes: Duration);

    /// Marks everything as due to be written: the file is a new one.
    fn restart(&self);
}

/// What is to be written.
#[derive(Debug)]
pub(crate) struct Taken {
    pub pages: Vec<Page>,
    pub engine: Option<tidegate_core::engine::Facts>,
    pub facts: Vec<(&'static str, String)>,
    pub now: Nanos,
    pub clean: bool,
    /// It is everything that is known, for a file that has nothing.
    pub anew: bool,
}
