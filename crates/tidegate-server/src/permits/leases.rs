//! The ends of leases, the next one first.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::PermitId;

/// The ends of leases.
#[derive(Debug, Default)]
pub(super) struct Leases {
    ends: BTreeSet<(Instant, PermitId)>,
    /// The time that the sweeper sleeps until.
    armed: Option<Instant>,
}

impl Leases {
    /// Adds a lease. Returns whether the sweeper must be woken, since the lease ends before it would wake.
    pub fn add(&mut self, until: Instant, id: PermitId) -> bool {
        self.ends.insert((until, id));
        self.armed.is_none_or(|armed| until < armed)
    }

    pub fn remove(&mut self, until: Instant, id: PermitId) {
        self.ends.remove(&(until, id));
    }

    /// Returns the time to sleep until. A permit that ends before its lease does not wake the sweeper, which then finds
    /// nothing.
    pub fn arm(&mut self) -> Option<Instant> {
        self.armed = self.ends.first().map(|(until, _)| *until);
        self.armed
    }

    /// Returns a permit whose lease is over.
    pub fn next_due(&self, now: Instant) -> Option<PermitId> {
        self.ends.first().filter(|(until, _)| *until <= now).map(|(_, id)| *id)
    }
}
