//! One attempt, as the caller's own code sees it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::engine::{AT_ONCE, Departure};
use tidegate_core::{Cost, Nanos};

use crate::gate::Permit;
use crate::gate::Shared;
use crate::outcome::Outcome;

/// One attempt at a call: which one it is, and where to say how it ended.
///
/// An attempt that says nothing is judged by what it returns: a value is a success, and what an error means is
/// for [`classify`](super::Execute::classify) to say.
#[derive(Debug)]
pub struct Attempt {
    pub(super) number: u32,
    pub(super) queued: Duration,
    pub(super) waited: Duration,
    pub(super) held_by: Option<Arc<str>>,
    pub(super) granted_at: Nanos,
    pub(super) departure: Option<Departure>,
    pub(super) gate: Arc<Shared>,
    pub(super) said: Said,
}

impl Attempt {
    /// 1 for the first one.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether an earlier one failed.
    #[must_use]
    pub fn is_retry(&self) -> bool {
        self.number > 1
    }

    /// How long this attempt waited for its permit.
    #[must_use]
    pub fn queued(&self) -> Duration {
        self.queued
    }

    /// How long the call has waited in all, between attempts and for permits.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// When it was let go, by the [gate's clock](crate::Gate::now).
    #[must_use]
    pub fn granted_at(&self) -> Nanos {
        self.granted_at
    }

    /// The limit that held the call back for longest, if it waited for one and [was to name
    /// it](super::Execute::name_limits).
    #[must_use]
    pub fn held_by(&self) -> Option<&Arc<str>> {
        self.held_by.as_ref()
    }

    /// The request leaves now. To be said where there is something to do first, such as opening a connection: the upstream
    /// counts a call from when it arrives, and in a window so does the gate, once it knows.
    ///
    /// ```
    /// use tidegate::{Call, Gate, RateLimitConfig};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let gate = Gate::simple(RateLimitConfig::default())?;
    /// let said = gate
    ///     .execute(Call::default(), |attempt| async move {
    ///         // … connect, greet, log in …
    ///         attempt.leaves();
    ///         Ok::<_, String>("the answer")
    ///     })
    ///     .await?;
    /// # assert_eq!(said, "the answer");
    /// # Ok(())
    /// # }
    /// ```
    pub fn leaves(&self) {
        self.said.0.lock().prepares = false;
        if let Some(departure) = self.departure
            && self.gate.now().since(self.granted_at) >= AT_ONCE
        {
            self.gate.with(|engine, now| engine.left(departure, now));
        }
    }

    /// Says that nothing is sent before [`leaves`](Attempt::leaves) is called. If the call is dropped until then, its
    /// permit is cancelled: what was not sent costs nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Call, Config, Gate};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = Config::parse("[services.api]\nrequests = { limit = \"1/h\", burst = 1 }")?;
    /// let gate = Gate::builder().config(config).build()?;
    /// let call = gate.execute(Call::to("api"), |attempt| async move {
    ///     attempt.prepares();
    ///     // … a connection that takes for ever …
    ///     std::future::pending::<Result<(), String>>().await
    /// });
    /// assert!(tokio::time::timeout(Duration::from_secs(1), call).await.is_err());
    /// assert!(gate.try_acquire(Call::to("api")).is_ok(), "the one request an hour was not spent");
    /// # Ok(())
    /// # }
    /// ```
    pub fn prepares(&self) {
        self.said.0.lock().prepares = true;
    }

    /// Says that no other attempt can follow if this one fails, because what it sent cannot be sent again. Where another
    /// one would have followed, the call gives up for that reason: [`GaveUp::InputGone`](super::GaveUp::InputGone).
    ///
    /// ```
    /// use tidegate::{Call, ExecuteError, Gate, GaveUp, Outcome, RateLimitConfig};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let gate = Gate::simple(RateLimitConfig::default())?;
    /// let ended = gate.execute(Call::default(), |attempt| async move {
    ///     attempt.ends_call();
    ///     Err::<(), _>(Outcome::refused().because("too fast"))
    /// });
    /// assert!(matches!(ended.await, Err(ExecuteError::Exhausted { attempts: 1, why: GaveUp::InputGone, .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn ends_call(&self) {
        self.said.0.lock().ends_call = true;
    }

    /// Returns how long ago the permit of this attempt was granted.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.gate.now().since(self.granted_at)
    }

    /// Gives the permit back, for an attempt that was not sent and whose permit has become too old to send under.
    ///
    /// A permit is for now: if many calls are held up after they were granted, by a slow connection for example, and then
    /// leave together, more of them arrive in one window than any limit allows. The attempt must then return an error,
    /// which is dropped: the cost comes back, and the call queues again at its first place. This attempt does not count.
    ///
    /// ```
    /// use tidegate::{Call, Gate, RateLimitConfig};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let gate = Gate::simple(RateLimitConfig::default())?;
    /// let mut connected = false;
    /// let reply = gate
    ///     .execute(Call::default(), |attempt| {
    ///         // The first attempt takes too long to connect; the second one finds the connection open.
    ///         let was_connected = std::mem::replace(&mut connected, true);
    ///         async move {
    ///             if !was_connected {
    ///                 attempt.give_back();
    ///                 return Err("too late");
    ///             }
    ///             assert_eq!(attempt.number(), 1);
    ///             Ok("reply")
    ///         }
    ///     })
    ///     .await?;
    /// # assert_eq!(reply, "reply");
    /// # Ok(())
    /// # }
    /// ```
    pub fn give_back(&self) {
        self.said.0.lock().given_back = true;
    }

    /// Says how the attempt ended, or what is known so far; the last word counts.
    ///
    /// What is said goes to the gate, which settles the cost and learns from the reply. If the attempt then
    /// returns an error it also decides whether another one follows; a value that it returns is a success in
    /// any case.
    pub fn report(&self, outcome: Outcome) {
        self.said.0.lock().outcome = Some(outcome);
    }

    /// Keeps the permit beyond the attempt, if that succeeds: for a value that is not all there yet, such as a
    /// stream, which holds its slot and learns its cost as long as it flows. Whoever takes the permit finishes it.
    ///
    /// ```
    /// use tidegate::{Call, Gate, Outcome, RateLimitConfig};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let gate = Gate::simple(RateLimitConfig::default())?;
    /// let call = Call::default().tokens(20);
    /// let (stream, kept) = gate
    ///     .execute(call, |attempt| async move { Ok::<_, String>((["sea", "sea"], attempt.keep_permit())) })
    ///     .await?;
    /// let tokens = stream.iter().count() as u64;
    /// if let Some(permit) = kept.take() {
    ///     permit.finish(Outcome::done().tokens(tokens));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn keep_permit(&self) -> KeptPermit {
        self.said.0.lock().keep = true;
        KeptPermit(self.said.clone())
    }
}

/// The permit of an attempt that has succeeded; made by [`Attempt::keep_permit`]. Dropped, it frees the slot and
/// keeps the cost, as every permit does.
#[derive(Debug)]
#[must_use = "the slot is held while it lives"]
pub struct KeptPermit(Said);

impl KeptPermit {
    /// The permit, once the call is done. There is none if the attempt failed.
    #[must_use]
    pub fn take(self) -> Option<Permit> {
        self.0.0.lock().permit.take()
    }

    /// The call goes on and has cost this much so far: [`Permit::spent`].
    pub fn spent(&self, so_far: &Cost) {
        if let Some(permit) = &self.0.0.lock().permit {
            permit.spent(so_far);
        }
    }
}

/// What an attempt said about itself. Each has its own: a task that it left behind cannot speak for the next.
#[derive(Clone, Default)]
pub(super) struct Said(Arc<Mutex<Word>>);

#[derive(Default)]
struct Word {
    outcome: Option<Outcome>,
    /// Somebody wants the permit.
    keep: bool,
    /// The attempt was not sent, and its permit is not wanted any more.
    given_back: bool,
    /// Nothing was sent yet, and the attempt says when that changes.
    prepares: bool,
    /// No other attempt can follow.
    ends_call: bool,
    permit: Option<Permit>,
}

impl Said {
    /// The attempt succeeded: its permit is finished, or goes to whoever keeps it.
    pub fn succeeded(&self, permit: Permit) {
        let mut word = self.0.lock();
        if word.keep {
            permit.answered();
            if let Some(head) = word.outcome.take() {
                permit.hear(head);
            }
            word.permit = Some(permit);
            return;
        }
        let outcome = word.outcome.take().unwrap_or_else(Outcome::done);
        drop(word);
        permit.finish(outcome);
    }

    pub fn take(&self) -> Option<Outcome> {
        self.0.lock().outcome.take()
    }

    pub fn is_given_back(&self) -> bool {
        self.0.lock().given_back
    }

    pub fn ends_call(&self) -> bool {
        self.0.lock().ends_call
    }
}

/// The permit of an attempt that runs, and what the attempt said. If both are dropped because the call is, and nothing was
/// sent yet, the permit is cancelled.
pub(super) struct Running {
    permit: Option<Permit>,
    pub said: Said,
}

impl Running {
    pub fn new(permit: Permit, said: Said) -> Running {
        Running { permit: Some(permit), said }
    }

    /// Takes the permit of an attempt that has ended. It is there until then.
    pub fn take_permit(&mut self) -> Option<Permit> {
        self.permit.take()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take()
            && self.said.0.lock().prepares
        {
            permit.cancel();
        }
    }
}

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Said")
    }
}
