//! Where waiting calls leave their wakers and find their verdicts.
//!
//! A seat outlives the ticket: a verdict may lie in it long after the engine has given the ticket's place in
//! the queue to another call.
//!
//! Seats are kept under the gate's lock, and a waker may run foreign code when it is dropped: hence none is
//! dropped here, they are all given back.

use std::task::Waker;

use tidegate_core::{Grant, Refusal, Ticket, Verdict};

/// The seats of all waiting calls of a gate.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    seats: Vec<Seat>,
    free: Vec<u32>,
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

impl Seats {
    /// Seats a call that waits under `ticket`. Verdicts of calls that waited before must have been given out.
    pub fn take(&mut self, ticket: Ticket, waker: Waker) -> u32 {
        let seat = self.free.pop().unwrap_or(self.seats.len() as u32);
        match self.seats.get_mut(seat as usize) {
            Some(free) => *free = Seat::Waiting(waker),
            None => self.seats.push(Seat::Waiting(waker)),
        }
        if self.of.len() <= ticket.place() {
            self.of.resize(ticket.place() + 1, 0);
        }
        self.of[ticket.place()] = seat;
        seat
    }

    /// Stores a verdict; the waker is for the caller to wake once it holds no lock.
    pub fn decide(&mut self, ticket: Ticket, verdict: Verdict) -> Option<Waker> {
        let decided = match verdict {
            Verdict::Granted(grant) => Ok(grant),
            Verdict::Refused(refusal) => Err(Box::new(refusal)),
        };
        match std::mem::replace(&mut self.seats[self.of[ticket.place()] as usize], Seat::Decided(decided)) {
            Seat::Waiting(waker) => Some(waker),
            Seat::Free | Seat::Decided(_) => None,
        }
    }

    /// The verdict, if there is one: then the seat is free. Else `waker` will be woken, and the one that was to be
    /// woken before is given back.
    pub fn look(&mut self, seat: u32, waker: &Waker) -> Result<Verdict, Option<Waker>> {
        match &mut self.seats[seat as usize] {
            Seat::Waiting(known) if known.will_wake(waker) => Err(None),
            Seat::Waiting(known) => Err(Some(std::mem::replace(known, waker.clone()))),
            Seat::Free | Seat::Decided(_) => self.leave(seat),
        }
    }

    /// Frees a seat: the verdict in it, or else the waker.
    pub fn leave(&mut self, seat: u32) -> Result<Verdict, Option<Waker>> {
        self.free.push(seat);
        match std::mem::take(&mut self.seats[seat as usize]) {
            Seat::Decided(Ok(grant)) => Ok(Verdict::Granted(grant)),
            Seat::Decided(Err(refusal)) => Ok(Verdict::Refused(*refusal)),
            Seat::Waiting(waker) => Err(Some(waker)),
            Seat::Free => Err(None),
        }
    }

    /// The wakers of all who wait.
    pub fn wakers(&self) -> Vec<Waker> {
        let waiting = self.seats.iter().filter_map(|seat| match seat {
            Seat::Waiting(waker) => Some(waker.clone()),
            Seat::Free | Seat::Decided(_) => None,
        });
        waiting.collect()
    }
}
