//! Making a call on the caller's behalf: waiting for its turn, making it, and making it again.
//!
//! ```text
//!        ┌────────────── as long as it may go on ───────────────┐
//!        ▼                                                      │
//!  in the queue ──► the attempt ──► failed? ──► give the permit back ──► wait
//!        │               │            └─ for good ─► Failed, Exhausted
//!        └─► Refused     └─► the value
//! ```
//!
//! The parts: `course` (what the call has been through, and whether it goes on), `drive` (the one state machine
//! that asks, runs and waits, for tasks and for threads), `attempt` (what the caller's code sees), `settings` (what a caller may say about one call), `ends` (what comes back), `progress` (what is told meanwhile).
//!
//! # What a drop leaves behind
//!
//! At any time the call is in exactly one of three places, and each gives back what it holds when it is dropped:
//! *in the queue* its place is freed, and a permit that was on its way returns whole; *in an attempt* the caller's
//! future is dropped first and then its permit, which frees the slot and keeps the cost, as the attempt may have
//! reached the upstream; *between two attempts* it holds nothing, neither slot nor place. A panic in the
//! caller's code takes the same way. What was taken from the retry budget stays taken, for at most ten seconds.
//!
//! # Coming back
//!
//! A permit is given back before the wait, so nobody's slot is held by a call that does nothing. Meanwhile others go;
//! but the next attempt enters the queue as if it had never left: it is ranked by when the call first came, before
//! all who came later and still wait. A delay between attempts is slept out though the window is cleared meanwhile.

mod alarm;
mod attempt;
mod call;
mod course;
mod drive;
mod ends;
mod progress;
mod settings;
mod trace;

use std::future::{Future, Ready, ready};

use tidegate_core::Call;

use crate::gate::Gate;

pub use attempt::{Attempt, KeptPermit};
pub use call::{Execute, Reported};
pub use ends::{ExecuteError, GaveUp, Report, Tried};
pub use progress::{Progress, ProgressStream};

impl Gate {
    /// Makes a call: waits for its permit, runs `op`, and runs it again after a failure that is worth it, under
    /// the service's retry rules. `op` is called once for each attempt, so whatever it works on stays with the
    /// caller until it has succeeded.
    ///
    /// A value is a success, however late it comes. What an error means is decided by the first of these that
    /// says something:
    ///
    /// 1. the attempt itself, through [`Attempt::report`]: best of all the reply as it came;
    /// 2. the closure given to [`Execute::classify`], for errors of your own;
    /// 3. the error, if it is a [`Failed`](crate::Failed), a [`std::io::Error`] or, with the feature `reqwest`, that client's, alone
    ///    or boxed.
    ///
    /// An error about which nobody says anything is passed on unchanged, as [`ExecuteError::Failed`]. A call that
    /// was turned away because of a limit is made again whatever it does; one that may have been done already
    /// only if it is [repeatable](Execute::repeatable).
    ///
    /// ```
    /// use http::HeaderMap;
    /// use tidegate::{Call, Gate, Outcome, RateLimitConfig};
    ///
    /// # struct Reply { status: u16, headers: HeaderMap }
    /// # async fn send(attempt: u32) -> Result<Reply, std::io::Error> {
    /// #     Ok(Reply { status: if attempt < 3 { 429 } else { 200 }, headers: HeaderMap::new() })
    /// # }
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let gate = Gate::simple(RateLimitConfig::default())?;
    /// let status = gate
    ///     .execute(Call::default().tokens(20), |attempt| async move {
    ///         let reply = send(attempt.number()).await?;
    ///         attempt.report(Outcome::reply(reply.status, &reply.headers));
    ///         if reply.status == 200 { Ok(reply.status) } else { Err(std::io::Error::other("no luck")) }
    ///     })
    ///     .on_progress(|progress| eprintln!("{progress}"))
    ///     .await?;
    /// assert_eq!(status, 200);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the gate refuses the call, if it fails for good, or if it fails too often or for too long.
    pub fn execute<'a, T, E, F, Fut>(&self, call: impl Into<Call>, op: F) -> Execute<'a, T, E, F, Fut>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: 'static,
    {
        Execute::new(self.shared.clone(), call.into(), op)
    }

    /// The same for threads without a runtime: blocks until the call is done.
    ///
    /// With settings of its own it is `gate.execute(call, |attempt| std::future::ready(op(attempt)))`, then what
    /// is to be set, then [`block`](Execute::block).
    ///
    /// ```
    /// use tidegate::{Call, Gate, RateLimitConfig};
    ///
    /// let gate = Gate::simple(RateLimitConfig::default())?;
    /// let sum = gate.execute_blocking(Call::default(), |_| Ok::<_, String>(1 + 1))?;
    /// assert_eq!(sum, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Gate::execute`].
    pub fn execute_blocking<T, E: 'static>(
        &self,
        call: impl Into<Call>,
        mut op: impl FnMut(Attempt) -> Result<T, E>,
    ) -> Result<T, ExecuteError<E>> {
        let op = move |attempt| -> Ready<Result<T, E>> { ready(op(attempt)) };
        self.execute(call, op).block()
    }
}
