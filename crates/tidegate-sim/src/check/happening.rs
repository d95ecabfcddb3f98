//! What the judge is told: calls that ask, what each event led to, and what it answers if a promise is broken.

use tidegate_core::{Nanos, Refusal, Ticket};

use crate::report::Invariant;
use crate::routes::Routes;

/// What was not kept.
pub(crate) type Broken = (Invariant, String);

/// A call that is about to ask.
#[derive(Debug)]
pub(crate) struct Newcomer<'a> {
    /// The number of its arrival.
    pub no: u64,
    pub kind: u32,
    /// What it takes at each of its limits.
    pub costs: &'a [u64],
    pub estimated: bool,
    /// When it first came, if it is tried again.
    pub came: Nanos,
}

/// What one event led to.
#[derive(Debug, Default)]
pub(crate) struct Happening {
    /// The call that came.
    pub newcomer: Option<u32>,
    /// Calls that may go, in the order in which it was said.
    pub granted: Vec<u32>,
    /// Calls that may not, and why.
    pub refused: Vec<(u32, Refusal)>,
    /// The call that began to wait.
    pub waits: Option<(u32, Ticket)>,
    /// The call that ended or went away.
    pub ended: Option<u32>,
    /// Something was spent or changed that is not a grant: bookings may move.
    pub unsettled: bool,
    /// The engine was brought to the present time, and no timer is late.
    pub current: bool,
}

/// An event with its time, and the routes that are known then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment<'a> {
    pub event: &'a Happening,
    pub routes: &'a Routes,
    pub now: Nanos,
}
