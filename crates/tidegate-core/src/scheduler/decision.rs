//! Tickets of waiting calls, and the decisions about them.

use crate::calls::Grant;
use crate::model::Id;
use crate::model::WaiterId;
use crate::model::refusal::Refusal;

/// A waiting call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket {
    pub(crate) index: WaiterId,
    pub(crate) generation: u32,
}

impl Ticket {
    /// Its place in a table of waiting calls: no other that waits at the same time has the same, and they are as
    /// small as can be.
    #[must_use]
    pub fn place(self) -> usize {
        self.index.index()
    }
}

/// What became of a call that waited.
#[derive(Debug)]
pub enum Verdict {
    /// It may go.
    Granted(Grant),
    /// It may not, and waits no longer.
    Refused(Refusal),
}
