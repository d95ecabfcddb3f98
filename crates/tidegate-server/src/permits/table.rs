//! The permits that are out, and how the latest ones ended.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tidegate::Permit;
use tokio::time::Instant;

use super::shares::{Full, Level, ShareOwner, Shares};
use super::{Claimed, End, Leases, MAX_PERMITS, NoPermit, Owner, PermitId};

#[derive(Debug, Default)]
pub(super) struct Table {
    pub live: HashMap<PermitId, Live>,
    pub leases: Leases,
    pub shares: Shares,
    ids: HashMap<(Owner, Arc<str>), Named>,
    ended: HashMap<PermitId, (End, Owner)>,
    /// In the order of their ends.
    ended_order: VecDeque<PermitId>,
}

/// A permit that is out.
#[derive(Debug)]
pub(super) struct Live {
    pub permit: Permit,
    pub until: Instant,
    pub owner: Owner,
    /// The levels at which it is counted.
    pub levels: Vec<Level>,
    pub id: Option<Arc<str>>,
}

/// The request behind an id.
#[derive(Debug)]
struct Named {
    identity: Box<str>,
    /// None while the call waits.
    permit: Option<PermitId>,
}

impl Table {
    /// Checks whether an id is free.
    pub fn find(&self, owner: &Owner, id: &Arc<str>, identity: &str) -> Result<(), Claimed> {
        if let Some(named) = self.ids.get(&(owner.clone(), id.clone())) {
            let granted = named.permit.filter(|_| *named.identity == *identity);
            let live = granted.and_then(|permit| Some((permit, self.live.get(&permit)?)));
            return Err(live.map_or(Claimed::Taken, |(permit, live)| {
                Claimed::Granted(permit, live.until.saturating_duration_since(Instant::now()))
            }));
        }
        Ok(())
    }

    /// Claims an id that is free.
    pub fn claim(&mut self, owner: &Owner, id: &Arc<str>, identity: &str) {
        self.ids.insert((owner.clone(), id.clone()), Named { identity: identity.into(), permit: None });
    }

    /// Checks whether an owner may have one more permit.
    pub fn admits(&self, share_owner: &ShareOwner) -> Result<(), Full> {
        self.shares.admits(share_owner, MAX_PERMITS - self.live.len())
    }

    pub fn unclaim(&mut self, owner: &Owner, id: &Arc<str>) {
        self.ids.remove(&(owner.clone(), id.clone()));
    }

    /// Adds a permit. Returns whether the sweeper must be woken.
    pub fn insert(&mut self, number: PermitId, live: Live) -> bool {
        if let Some(id) = &live.id
            && let Some(named) = self.ids.get_mut(&(live.owner.clone(), id.clone()))
        {
            named.permit = Some(number);
        }
        let sooner = self.leases.add(live.until, number);
        self.shares.add(&live.levels);
        self.live.insert(number, live);
        sooner
    }

    /// Checks whether a permit is out and belongs to that owner.
    pub fn check(&self, id: PermitId, owner: &Owner) -> Result<(), NoPermit> {
        if let Some(live) = self.live.get(&id) {
            return if live.owner == *owner { Ok(()) } else { Err(NoPermit::Unknown) };
        }
        match self.ended.get(&id) {
            Some((end, of)) if of == owner => Err(NoPermit::Ended(*end)),
            _ => Err(NoPermit::Unknown),
        }
    }

    /// Takes a permit out, and remembers how it ended.
    pub fn remove(&mut self, id: PermitId, end: End) -> Option<Permit> {
        let Live { permit, until, owner, levels, id: name } = self.live.remove(&id)?;
        self.leases.remove(until, id);
        self.shares.remove(&levels);
        if let Some(name) = name {
            self.unclaim(&owner, &name);
        }
        if self.ended_order.len() >= MAX_PERMITS
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
        self.ended_order.push_back(id);
        self.ended.insert(id, (end, owner));
        Some(permit)
    }

    /// Moves the end of a lease. Returns whether the sweeper must be woken.
    pub fn renew(&mut self, id: PermitId, until: Instant) -> bool {
        let Some(live) = self.live.get_mut(&id) else { return false };
        let before = std::mem::replace(&mut live.until, until);
        self.leases.remove(before, id);
        self.leases.add(until, id)
    }

    /// Takes out all permits whose lease is over.
    pub fn expire(&mut self, now: Instant) -> Vec<Permit> {
        let mut expired = Vec::new();
        while let Some(id) = self.leases.next_due(now) {
            expired.extend(self.remove(id, End::Expired));
        }
        expired
    }
}
