//! Where waiting calls leave their wakers and find their verdicts.
//!
//! Who sits where is planned under the gate's lock, but a call that was woken finds its verdict without it: each seat has
//! a lock of its own. Only two ever want it, the call that sits there and whoever decides about it, and both are quick. So
//! a call that goes waits for nobody who lets others go meanwhile.
//!
//! A seat outlives the ticket: a verdict may lie in it long after the engine has given the ticket's place in the queue to
//! another call. It is free for another call when its own has got up, and never before. Whoever gets up without the gate's
//! lock says so on the gate's [`Tray`](crate::tray::Tray).
//!
//! Seats stay where they are, in blocks of which each is twice as large as the one before: none moves when more are
//! needed, and to find one takes no lock. Blocks are not given back: there are as many seats as calls ever waited at once.
//!
//! A waker may run foreign code when it is dropped: hence none is dropped here, they are all given back.

use std::sync::OnceLock;
use std::task::Waker;

use parking_lot::Mutex;
use tidegate_core::{Grant, Refusal, Ticket, Verdict};

/// Seats of the first block.
const FIRST: u64 = 64;
/// Enough for every number of 32 bits.
const BLOCKS: usize = 27;

/// The seats of all waiting calls of a gate.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    blocks: [OnceLock<Box<[Mutex<Seat>]>>; BLOCKS],
}

/// Which seats are taken, and by whom: kept under the gate's lock.
#[derive(Debug, Default)]
pub(crate) struct Usher {
    free: Vec<u32>,
    /// How many seats were ever given out.
    given: u32,
    /// Which seat the call has that waits under a ticket, by the ticket's place.
    of: Vec<u32>,
}

#[derive(Debug, Default)]
enum Seat {
    #[default]
    Free,
    Waiting(Waker),
    // There are as many seats as calls wait, and few are refused.
    Decided(Result<Grant, Box<Refusal>>),
}

impl Usher {
    /// A seat for a call that waits under `ticket`. Verdicts of calls that waited before must have been given out.
    pub fn seat(&mut self, ticket: Ticket) -> u32 {
        let seat = self.free.pop().unwrap_or_else(|| {
            self.given += 1;
            self.given - 1
        });
        if self.of.len() <= ticket.place() {
            self.of.resize(ticket.place() + 1, 0);
        }
        self.of[ticket.place()] = seat;
        seat
    }

    /// The seat of the call that waits under `ticket`.
    pub fn seat_of(&self, ticket: Ticket) -> u32 {
        self.of[ticket.place()]
    }

    /// Whoever had these has got up.
    pub fn free(&mut self, seats: impl IntoIterator<Item = u32>) {
        self.free.extend(seats);
    }

    /// Every seat that was ever given out.
    pub fn all(&self) -> std::ops::Range<u32> {
        0..self.given
    }
}

impl Seats {
    /// A call sits down.
    pub fn take(&self, seat: u32, waker: Waker) {
        *self.at(seat).lock() = Seat::Waiting(waker);
    }

    /// Stores a verdict; the waker is for the caller to wake once it holds no lock.
    pub fn decide(&self, seat: u32, verdict: Verdict) -> Option<Waker> {
        let decided = match verdict {
            Verdict::Granted(grant) => Ok(grant),
            Verdict::Refused(refusal) => Err(Box::new(refusal)),
        };
        match std::mem::replace(&mut *self.at(seat).lock(), Seat::Decided(decided)) {
            Seat::Waiting(waker) => Some(waker),
            Seat::Free | Seat::Decided(_) => None,
        }
    }

    /// The verdict, if there is one: then the call has got up. Else `waker` will be woken, and the one that was to be
    /// woken before is given back.
    pub fn look(&self, seat: u32, waker: &Waker) -> Result<Verdict, Option<Waker>> {
        let mut held = self.at(seat).lock();
        match &mut *held {
            Seat::Waiting(known) if known.will_wake(waker) => Err(None),
            Seat::Waiting(known) => Err(Some(std::mem::replace(known, waker.clone()))),
            Seat::Free | Seat::Decided(_) => verdict(std::mem::take(&mut *held)),
        }
    }

    /// The call gets up: the verdict, or else the waker.
    pub fn leave(&self, seat: u32) -> Result<Verdict, Option<Waker>> {
        verdict(std::mem::take(&mut *self.at(seat).lock()))
    }

    /// The waker of whoever waits there.
    pub fn waker(&self, seat: u32) -> Option<Waker> {
        match &*self.at(seat).lock() {
            Seat::Waiting(waker) => Some(waker.clone()),
            Seat::Free | Seat::Decided(_) => None,
        }
    }

    fn at(&self, seat: u32) -> &Mutex<Seat> {
        let place = u64::from(seat) + FIRST;
        let block = place.ilog2() - FIRST.ilog2();
        let size = FIRST << block;
        let seats = self.blocks[block as usize].get_or_init(|| (0..size).map(|_| Mutex::default()).collect());
        &seats[(place - size) as usize]
    }
}

fn verdict(seat: Seat) -> Result<Verdict, Option<Waker>> {
    match seat {
        Seat::Decided(Ok(grant)) => Ok(Verdict::Granted(grant)),
        Seat::Decided(Err(refusal)) => Ok(Verdict::Refused(*refusal)),
        Seat::Waiting(waker) => Err(Some(waker)),
        Seat::Free => Err(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_seat_of_its_own() {
        let seats = Seats::default();
        let mut seen: Vec<*const Mutex<Seat>> =
            (0..1_000).map(|seat| std::ptr::from_ref(seats.at(seat))).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 1_000);
        // The last block has a place for the largest number.
        assert_eq!((u64::from(u32::MAX) + FIRST).ilog2() - FIRST.ilog2(), BLOCKS as u32 - 1);
    }
}
