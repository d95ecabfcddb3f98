//! Where waiting calls leave their wakers and find their verdicts.
//!
//! Who sits where is planned under the gate's lock, but a call that was woken finds its verdict without it: each seat has
//! a lock of its own. Only two ever want it, the call that sits there and whoever decides about it, and both are quick. So
//! a call that goes waits for nobody who lets others go meanwhile.
//!
//! A seat outlives the ticket: a verdict may lie in it long after the engine has given the ticket's place in the queue to
//! another call. It is free for another call when its own has got up, and never before: seats are given out and come back
//! beside the gate's lock, on its [`Tray`](crate::tray::Tray).
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

/// Who sits where: kept under the gate's lock.
#[derive(Debug, Default)]
pub(crate) struct Usher {
    /// Which seat the call has that waits under a ticket, by the ticket's place.
    seats: Vec<u32>,
    /// Under which ticket the call waits that sits there, by seat.
    tickets: Vec<Option<Ticket>>,
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
    /// The call that sits there waits under `ticket`. Verdicts of calls that waited before must have been given out.
    pub fn note(&mut self, seat: u32, ticket: Ticket) {
        if self.seats.len() <= ticket.place() {
            self.seats.resize(ticket.place() + 1, 0);
        }
        self.seats[ticket.place()] = seat;
        if self.tickets.len() <= seat as usize {
            self.tickets.resize(seat as usize + 1, None);
        }
        self.tickets[seat as usize] = Some(ticket);
    }

    /// The seat of the call that waits under `ticket`.
    pub fn seat_of(&self, ticket: Ticket) -> u32 {
        self.seats[ticket.place()]
    }

    /// Under which ticket the call waited that sits there, if it ever did.
    pub fn ticket_of(&self, seat: u32) -> Option<Ticket> {
        self.tickets.get(seat as usize).copied().flatten()
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
