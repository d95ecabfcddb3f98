//! Permits that callers hold: acquired over HTTP, and kept here until their holders report how the work ended.
//!
//! ```text
//!  acquire ─► claim its id ─► wait in the gate ─► granted ─┬─► complete: settled     ┐
//!             (gone with       (gone with the    a lease   ├─► cancelled: all back   ├─► remembered for a while
//!              the client)      client)                    ├─► renewed: a new lease  │
//!                                                          └─► expired: cost kept    ┘
//! ```
//!
//! Each permit leaves the table exactly once, and the code that takes it out ends it. How it ended is remembered, so that a
//! request that is repeated because its answer got lost gets the same answer. A permit has a random number that cannot be
//! guessed, and is visible only to the token that acquired it.
//!
//! The table is bounded, and so is each caller's share of it: see `shares`.

mod delivery;
mod leases;
mod shares;
mod table;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use tidegate::Permit;
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) use delivery::Delivery;
use leases::Leases;
pub(crate) use shares::{Full, Origin, ShareOwner};
use table::{Live, Table};

/// The most permits that may be out at once, and the most ends that are remembered.
const MAX_PERMITS: usize = 65_536;

/// All permits that are out.
#[derive(Debug)]
pub(crate) struct Permits {
    table: Mutex<Table>,
    random: SystemRandom,
    /// Wakes the sweeper: a lease ends before all others that it knew of.
    sooner: Notify,
}

/// The number of a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PermitId(pub u128);

/// How a permit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Completed,
    Cancelled,
    Expired,
}

/// Why there is no such permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPermit {
    /// There is no permit of that number, or it belongs to another caller.
    Unknown,
    /// The permit has ended.
    Ended(End),
}

/// The holder of the token that acquired a permit.
pub(crate) type Owner = Option<Arc<str>>;

/// Reserves an id that a caller chose. No other call gets a permit under it meanwhile.
#[derive(Debug)]
#[must_use = "the id is free again once this is dropped"]
pub(crate) struct Claim {
    permits: Arc<Permits>,
    owner: Owner,
    share_owner: ShareOwner,
    id: Option<Arc<str>>,
}

/// Why an id cannot be claimed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    /// The same request was granted under it: this permit, with this much of its lease left.
    Granted(PermitId, Duration),
    /// A call waits under it, or its permit is for another request.
    Taken,
    /// The share of the caller is used up.
    Full(Full),
}

impl Permits {
    pub fn new() -> Permits {
        Permits { table: Mutex::default(), random: SystemRandom::new(), sooner: Notify::new() }
    }

    /// Returns how many permits are out.
    pub fn live(&self) -> usize {
        self.table.lock().live.len()
    }

    /// Claims an id, if the caller chose one. `identity` describes the request.
    ///
    /// # Errors
    /// Returns an error if the id is taken, or if the share of the caller is used up.
    pub fn claim(
        self: &Arc<Permits>,
        owner: Owner,
        share_owner: ShareOwner,
        id: Option<&str>,
        identity: &str,
    ) -> Result<Claim, Claimed> {
        let id: Option<Arc<str>> = id.map(Into::into);
        let mut table = self.table.lock();
        if let Some(id) = &id {
            table.find(&owner, id, identity)?;
        }
        table.admits(&share_owner).map_err(Claimed::Full)?;
        if let Some(id) = &id {
            table.claim(&owner, id, identity);
        }
        drop(table);
        Ok(Claim { permits: self.clone(), owner, share_owner, id })
    }

    /// Takes a permit out to end it. A second try gets how it ended.
    pub fn take(&self, id: PermitId, owner: &Owner, end: End) -> Result<Permit, NoPermit> {
        let mut table = self.table.lock();
        table.check(id, owner)?;
        table.remove(id, end).ok_or(NoPermit::Unknown)
    }

    /// Gives a permit a new lease from now on.
    pub fn renew(&self, id: PermitId, owner: &Owner, lease: Duration) -> Result<(), NoPermit> {
        let until = Instant::now() + lease;
        let mut table = self.table.lock();
        table.check(id, owner)?;
        if table.renew(id, until) {
            self.sooner.notify_one();
        }
        Ok(())
    }

    /// Ends permits whose lease is over, for as long as the future is polled.
    pub async fn expire(self: Arc<Permits>) {
        loop {
            let next = self.table.lock().leases.arm();
            let sooner = self.sooner.notified();
            match next {
                Some(next) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(next) => {}
                        () = sooner => continue,
                    }
                }
                None => {
                    sooner.await;
                    continue;
                }
            }
            let expired = self.table.lock().expire(Instant::now());
            if !expired.is_empty() {
                tracing::warn!(permits = expired.len(), "permits expired: their cost is kept");
            }
            // Dropped outside of the lock. Each permit releases its slot and keeps its cost.
            drop(expired);
        }
    }

    fn fresh_id(&self) -> Option<PermitId> {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes).ok()?;
        Some(PermitId(u128::from_be_bytes(bytes)))
    }
}

impl Claim {
    /// Puts a granted permit into the table. If the share is used up by now, or there is no random number, returns the
    /// permit with the reason.
    pub fn grant(mut self, permit: Permit, lease: Duration) -> Result<PermitId, (Permit, Option<Full>)> {
        let until = Instant::now() + lease;
        let permits = self.permits.clone();
        let Some(number) = permits.fresh_id() else { return Err((permit, None)) };
        let mut table = permits.table.lock();
        // Calls of the same caller that waited beside this one may have taken the rest of its share.
        if let Err(full) = table.admits(&self.share_owner) {
            drop(table);
            return Err((permit, Some(full)));
        }
        let levels = self.share_owner.levels().collect();
        // From here on the id ends with the permit.
        let live = Live { permit, until, owner: self.owner.take(), levels, id: self.id.take() };
        if table.insert(number, live) {
            permits.sooner.notify_one();
        }
        Ok(number)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.permits.table.lock().unclaim(&self.owner, &id);
        }
    }
}

impl PermitId {
    /// Parses the number as it is written in a URL.
    pub fn parse(text: &str) -> Option<PermitId> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u128::from_str_radix(text, 16).ok().filter(|_| digits).map(PermitId)
    }
}

impl std::fmt::Display for PermitId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests;
