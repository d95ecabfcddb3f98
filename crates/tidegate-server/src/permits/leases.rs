//! When leases end, the next one first.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::PermitId;

/// When leases end.
#[derive(Debug, Default)]
pub(super) struct Leases {
    ends: BTreeSet<(Instant, PermitId)>,
    /// What the sweeper sleeps until.
    armed: Option<Instant>,
}

impl Leases {
    /// Adds one; says whether the sweeper sleeps for too long now.
    pub fn add(&mut self, until: Instant, id: PermitId) -> bool {
        self.ends.insert((until, id));
        self.armed.is_none_or(|armed| until < armed)
    }

    pub fn remove(&mut self, until: Instant, id: PermitId) {
        self.ends.remove(&(until, id));
    }

    /// What to sleep until. A permit that ends before its lease does not disturb the sleeper: it finds nothing then.
    pub fn arm(&mut self) -> Option<Instant> {
        self.armed = self.ends.first().map(|(until, _)| *until);
        self.armed
    }

    /// One whose time has come.
    pub fn next_due(&self, now: Instant) -> Option<PermitId> {
        self.ends.first().filter(|(until, _)| *until <= now).map(|(_, id)| *id)
    }
}
