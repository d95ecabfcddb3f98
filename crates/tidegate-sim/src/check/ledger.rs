//! Nothing is lost, and nothing is done again that was answered.
//!
//! Calls are entered when they are made and struck off when they are over: answered, refused, timed out, shed,
//! cancelled, given up, lost in a crash, or unfinished when the time is up. That must happen to each of them once.
//! Attempts, at the gate and at the upstream, are only those of calls that are not over and were not answered. The
//! ledger knows nothing of the engine, and outlives it.

use std::collections::HashMap;

use super::happening::Broken;
use crate::report::Invariant;

/// Calls that are not over, each with whether its caller has an answer.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    open: HashMap<u64, bool>,
}

impl Ledger {
    /// A call is made.
    pub fn made(&mut self, no: u64) {
        self.open.insert(no, false);
    }

    /// A call asks to go.
    pub fn attempt(&self, no: u64) -> Result<(), Broken> {
        self.must_be_open(no, "is tried again")
    }

    /// A call reaches the upstream.
    pub fn reaches(&self, no: u64) -> Result<(), Broken> {
        self.must_be_open(no, "reaches the upstream")
    }

    /// Its caller has an answer.
    pub fn answered(&mut self, no: u64) -> Result<(), Broken> {
        self.must_be_open(no, "is answered")?;
        self.open.insert(no, true);
        Ok(())
    }

    /// A call is over.
    pub fn over(&mut self, no: u64) -> Result<(), Broken> {
        match self.open.remove(&no) {
            Some(_) => Ok(()),
            None => Err((Invariant::Conservation, format!("call {no} ends, and was over already"))),
        }
    }

    /// The time is up.
    pub fn close(&self) -> Result<(), Broken> {
        match self.open.keys().min() {
            None => Ok(()),
            Some(no) => {
                let message = format!("{} calls were lost, {no} the first of them", self.open.len());
                Err((Invariant::Conservation, message))
            }
        }
    }

    fn must_be_open(&self, no: u64, what: &str) -> Result<(), Broken> {
        match self.open.get(&no) {
            Some(false) => Ok(()),
            Some(true) => {
                Err((Invariant::Conservation, format!("call {no} {what}, and was answered before")))
            }
            None => Err((Invariant::Conservation, format!("call {no} {what}, and is over"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_was_answered_or_is_over_is_not_tried_again() {
        let mut ledger = Ledger::default();
        ledger.made(1);
        assert!(ledger.attempt(1).is_ok() && ledger.reaches(1).is_ok() && ledger.attempt(1).is_ok());
        assert!(ledger.answered(1).is_ok());
        assert!(ledger.attempt(1).is_err() && ledger.reaches(1).is_err() && ledger.answered(1).is_err());
        assert!(ledger.over(1).is_ok());
        assert!(ledger.over(1).is_err() && ledger.attempt(1).is_err());
        assert!(ledger.close().is_ok());
    }

    #[test]
    fn a_call_that_never_ends_is_seen() {
        let mut ledger = Ledger::default();
        ledger.made(1);
        ledger.made(2);
        assert!(ledger.over(1).is_ok());
        assert!(ledger.close().is_err());
    }
}
