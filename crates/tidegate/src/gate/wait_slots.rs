//! Wait slots: where waiting calls leave their wakers and find their decisions.
//!
//! Which call has which slot is decided under the gate's lock, but a call that was woken reads its decision without that
//! lock: each slot has a lock of its own. Only two threads ever want it, the one that polls the call and the one that
//! decides about it, and both hold it for moments. So a call that goes never waits for a thread that lets others go.
//!
//! A slot outlives the ticket: a decision may stay in it long after the engine has given the ticket's place in the queue to
//! another call. A slot is free for another call once its own call has left, and never before. Slots are given out and
//! come back beside the gate's lock, by the [`HandOff`](super::hand_off::HandOff).
//!
//! Slots never move. They stand in blocks, each twice as large as the one before, and finding one takes no lock. Blocks
//! are never freed: there are as many slots as calls ever waited at once.
//!
//! A waker may run foreign code when it is dropped. So no waker is dropped here: the methods return it.

use std::sync::OnceLock;
use std::task::Waker;

use parking_lot::Mutex;
use tidegate_core::{Grant, Refusal, Ticket, Verdict};

/// Slots of the first block.
const FIRST: u64 = 64;
/// Enough blocks for every number of 32 bits.
const BLOCKS: usize = 27;

/// The wait slots of a gate.
#[derive(Debug, Default)]
pub(super) struct WaitSlots {
    blocks: [OnceLock<Box<[Mutex<Slot>]>>; BLOCKS],
}

/// Which call has which slot, by ticket and by slot. Kept under the gate's lock.
#[derive(Debug, Default)]
pub(super) struct SlotIndex {
    /// The slot of the call that waits under a ticket, by the ticket's place.
    slots: Vec<u32>,
    /// The ticket of the call that has a slot, by slot.
    tickets: Vec<Option<Ticket>>,
}

#[derive(Debug, Default)]
enum Slot {
    #[default]
    Free,
    Waiting(Waker),
    // Boxed: there are as many slots as calls wait, and few are refused.
    Decided(Result<Grant, Box<Refusal>>),
}

impl SlotIndex {
    /// Notes that the call of the slot waits under `ticket`. The decisions of calls that waited before must be published
    /// by then: one of them may have had the ticket's place.
    pub fn note(&mut self, slot: u32, ticket: Ticket) {
        if self.slots.len() <= ticket.place() {
            self.slots.resize(ticket.place() + 1, 0);
        }
        self.slots[ticket.place()] = slot;
        if self.tickets.len() <= slot as usize {
            self.tickets.resize(slot as usize + 1, None);
        }
        self.tickets[slot as usize] = Some(ticket);
    }

    /// Returns the slot of the call that waits under `ticket`.
    pub fn slot_of(&self, ticket: Ticket) -> u32 {
        self.slots[ticket.place()]
    }

    /// Returns the ticket of the call that has the slot, if it was ever queued.
    pub fn ticket_of(&self, slot: u32) -> Option<Ticket> {
        self.tickets.get(slot as usize).copied().flatten()
    }
}

impl WaitSlots {
    /// Stores the waker of a call that begins to wait.
    pub fn occupy(&self, slot: u32, waker: Waker) {
        *self.at(slot).lock() = Slot::Waiting(waker);
    }

    /// Stores a decision. Returns the waker, for the caller to wake once it holds no lock.
    pub fn decide(&self, slot: u32, verdict: Verdict) -> Option<Waker> {
        let decided = match verdict {
            Verdict::Granted(grant) => Ok(grant),
            Verdict::Refused(refusal) => Err(Box::new(refusal)),
        };
        match std::mem::replace(&mut *self.at(slot).lock(), Slot::Decided(decided)) {
            Slot::Waiting(waker) => Some(waker),
            Slot::Free | Slot::Decided(_) => None,
        }
    }

    /// Takes the decision and leaves the slot empty, if there is one. Otherwise stores `waker`, and returns the waker that
    /// it replaces.
    pub fn poll(&self, slot: u32, waker: &Waker) -> Result<Verdict, Option<Waker>> {
        let mut held = self.at(slot).lock();
        match &mut *held {
            Slot::Waiting(known) if known.will_wake(waker) => Err(None),
            Slot::Waiting(known) => Err(Some(std::mem::replace(known, waker.clone()))),
            Slot::Free | Slot::Decided(_) => verdict(std::mem::take(&mut *held)),
        }
    }

    /// Empties the slot. Returns the decision in it, or else the waker.
    pub fn leave(&self, slot: u32) -> Result<Verdict, Option<Waker>> {
        verdict(std::mem::take(&mut *self.at(slot).lock()))
    }

    /// Returns the waker of the call that waits in the slot.
    pub fn waker(&self, slot: u32) -> Option<Waker> {
        match &*self.at(slot).lock() {
            Slot::Waiting(waker) => Some(waker.clone()),
            Slot::Free | Slot::Decided(_) => None,
        }
    }

    fn at(&self, slot: u32) -> &Mutex<Slot> {
        let place = u64::from(slot) + FIRST;
        let block = place.ilog2() - FIRST.ilog2();
        let size = FIRST << block;
        let slots = self.blocks[block as usize].get_or_init(|| (0..size).map(|_| Mutex::default()).collect());
        &slots[(place - size) as usize]
    }
}

fn verdict(slot: Slot) -> Result<Verdict, Option<Waker>> {
    match slot {
        Slot::Decided(Ok(grant)) => Ok(Verdict::Granted(grant)),
        Slot::Decided(Err(refusal)) => Ok(Verdict::Refused(*refusal)),
        Slot::Waiting(waker) => Err(Some(waker)),
        Slot::Free => Err(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_slot_of_its_own() {
        let slots = WaitSlots::default();
        let mut seen: Vec<*const Mutex<Slot>> =
            (0..1_000).map(|slot| std::ptr::from_ref(slots.at(slot))).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 1_000);
        // The last block has a place for the largest number.
        assert_eq!((u64::from(u32::MAX) + FIRST).ilog2() - FIRST.ilog2(), BLOCKS as u32 - 1);
    }
}
