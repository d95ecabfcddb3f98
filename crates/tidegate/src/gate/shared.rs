//! What all clones of a gate, its permits and its waiting calls share: one engine, one lock, one timer.
//!
//! Every decision is made by the engine under one lock that is held for well under a microsecond; nothing is
//! awaited and nobody is woken while it is held. A verdict is put into the waiting call's seat under the
//! lock, and the call is woken after it is released. So a call that is dropped finds, under the same lock,
//! either that it still waits (and is taken out) or that its verdict is in its seat (and a permit in it is
//! given back): there is no third case.
//!
//! Hundreds may be let go at once, and nobody waits for that: one that was woken takes its verdict from its seat
//! without the gate's lock (see `seats`), and who comes meanwhile leaves its call to the one at work (see `tray`).

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::Waker;
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, MutexGuard, RwLock};
use tidegate_core::Outputs;
use tidegate_core::engine::{Arrived, ChangeError, Ended, LimitStatus, ServiceCounts};
use tidegate_core::reply::UnixMillis;
use tidegate_core::retry::Failure;
use tidegate_core::{Call, Engine, Grant, Nanos, Refusal};

use super::waiting::Newcomer;
use crate::chance::Chance;
use crate::clock::ClockSource;
use crate::config::Config;
use crate::outcome::Outcome;
use crate::permit::Permit;
use crate::refused::Refused;
use crate::rules::Rules;
use crate::seats::{Seats, Usher};
use crate::simple::priced;
use crate::timer::Timer;
use crate::tray::Tray;

/// How long a call waits if neither it nor the config says.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What all clones of a gate, its permits and its waiting calls share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) inner: Mutex<Inner>,
    pub(super) seats: Seats,
    pub(super) tray: Tray<Newcomer, Grant>,
    /// What the engine's time is ahead of the clock, in nanoseconds (or behind it, as two's complement): what the clock
    /// lost when it was reset, and what passed before it was made. Changed under the lock only; see `time`.
    pub(super) ahead: AtomicU64,
    /// What the config says about calls that failed. Whoever needs both locks takes this one first.
    rules: RwLock<Arc<Rules>>,
    pub(super) clock: ClockSource,
    pub chance: Chance,
    /// Whether a call that states no tokens costs one.
    pub simple: bool,
    pub timer: Arc<Timer>,
    /// How much output calls have had. Held for moments, and with no other lock.
    pub outputs: Mutex<Outputs>,
    #[cfg(feature = "sqlite")]
    pub state: Option<super::Kept>,
    /// Woken when there is something to tell of.
    pub noticed: tokio::sync::Notify,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) engine: Engine,
    pub(super) usher: Usher,
    /// Empty, and ready for the tray.
    pub(super) came: Vec<Newcomer>,
    ended: Vec<Grant>,
    /// What the timer was last told.
    pub(super) armed: Option<Nanos>,
    /// When the wall clock is to be looked at; never, if no limit follows a calendar.
    pub(super) wall_due: Nanos,
}

impl Shared {
    pub fn new(
        config: Config,
        clock: ClockSource,
        chance: Chance,
        simple: bool,
        refusals_count: bool,
        since: Option<Nanos>,
    ) -> Result<Shared, ChangeError> {
        let wall = clock.wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = clock.now();
        let ahead = since.map_or(0, |since| since.0.wrapping_sub(now.0));
        let engine = Engine::new(&config, Nanos(now.0.wrapping_add(ahead)), wall)?;
        let inner = Mutex::new(Inner {
            engine,
            usher: Usher::default(),
            came: Vec::new(),
            ended: Vec::new(),
            armed: None,
            wall_due: Nanos::ZERO,
        });
        let rules = RwLock::new(Arc::new(Rules::new(config, refusals_count, &Rules::default())));
        let outputs = Mutex::default();
        Ok(Shared {
            inner,
            seats: Seats::default(),
            tray: Tray::default(),
            ahead: AtomicU64::new(ahead),
            rules,
            clock,
            chance,
            simple,
            timer: Arc::default(),
            outputs,
            noticed: tokio::sync::Notify::new(),
            #[cfg(feature = "sqlite")]
            state: None,
        })
    }

    pub fn reconfigure(&self, config: &Config) -> Result<(), ChangeError> {
        // Held meanwhile, so that of two configs that come at once both sides keep the same one.
        let mut rules = self.rules.write();
        self.act(|engine, now| engine.reconfigure(config, now))?;
        // It may have calendar limits now.
        self.inner.lock().wall_due = Nanos::ZERO;
        *rules = Arc::new(rules.under(config.clone()));
        Ok(())
    }

    pub fn set_rate(&self, name: &str, rate: &tidegate_core::config::RateLimit) -> Result<(), ChangeError> {
        self.act(|engine, now| engine.set_rate(name, rate, now))?;
        // It may follow a calendar now.
        self.inner.lock().wall_due = Nanos::ZERO;
        Ok(())
    }

    /// Apart, since the way of all other calls is shorter without it.
    #[inline(never)]
    pub fn try_acquire_priced(self: &Arc<Shared>, call: &Call) -> Result<Permit, Refused> {
        self.try_acquire(&self.priced(call.clone()))
    }

    pub fn try_acquire(self: &Arc<Shared>, call: &Call) -> Result<Permit, Refused> {
        let mut inner = self.lock();
        let now = self.present(&mut inner);
        match inner.engine.admit_at_sight(call, now) {
            Some(grant) => Ok(self.permit(inner, grant, call)),
            None => self.try_acquire_by_rank(inner, call, now),
        }
    }

    #[inline(never)]
    fn try_acquire_by_rank(
        self: &Arc<Shared>,
        mut inner: MutexGuard<'_, Inner>,
        call: &Call,
        now: Nanos,
    ) -> Result<Permit, Refused> {
        match inner.engine.try_admit(call, now) {
            Ok(grant) => Ok(self.permit(inner, grant, call)),
            Err(refusal) => {
                self.hand_out(inner);
                Err(self.refused(self.unless_unavailable(refusal)))
            }
        }
    }

    #[inline(always)]
    fn permit(self: &Arc<Shared>, inner: MutexGuard<'_, Inner>, grant: Grant, call: &Call) -> Permit {
        let model = inner.engine.unknown_model(&grant, call);
        self.hand_out(inner);
        Permit::new(grant, Duration::ZERO, model, self.clone())
    }

    /// The call as this gate counts it.
    pub fn priced(&self, call: Call) -> Call {
        if self.simple { priced(&call).unwrap_or(call) } else { call }
    }

    /// A call comes that may be made more than once: its rank in the queue, and how long it may wait in all.
    pub fn arrive(&self, call: &Call) -> (Arrived, Duration) {
        self.act(|engine, now| (engine.arrived(now), timeout_of(call, engine)))
    }

    /// A call ended, and nothing is known about it.
    #[inline]
    pub fn release(&self, grant: Grant) {
        match self.inner.try_lock() {
            Some(mut inner) => {
                if let Err(grant) = inner.engine.finish_unnoticed(grant) {
                    self.release_and_look(inner, grant);
                }
            }
            None => self.release_later(grant),
        }
    }

    /// Somebody else holds the lock.
    #[cold]
    fn release_later(&self, grant: Grant) {
        if grant.is_quiet() {
            self.tray.end(grant);
        } else {
            self.release_and_look(self.lock(), grant);
        }
    }

    #[inline(never)]
    fn release_and_look(&self, mut inner: MutexGuard<'_, Inner>, grant: Grant) {
        let now = self.time(&mut inner);
        inner.engine.finish(grant, None, now);
        self.hand_out(inner);
    }

    /// What an outcome comes to: for the engine, and for trying again.
    pub fn read(&self, grant: Option<&Grant>, outcome: Outcome) -> (Ended, Failure) {
        match outcome.into_known() {
            Ok(known) => known,
            Err(unread) => {
                let inner = self.lock();
                let service = grant.and_then(|grant| inner.engine.service_of(grant)).map(str::to_owned);
                drop(inner);
                let (rules, service) = (self.rules(), service.unwrap_or_default());
                unread.read(&rules.reader(&service), rules.counting(&service), self.unix())
            }
        }
    }

    /// The output that a call is expected to have, from experience; never more than it asks for.
    #[cfg(feature = "wire")]
    pub fn expected_output(&self, call: &Call, asked: &tidegate_core::request::Asked) -> Option<u64> {
        let mut outputs = self.outputs.lock();
        let most = asked.estimate.max_output;
        if let Some(most) = most {
            outputs.asks(call, most);
        }
        outputs.expected(call).map(|expected| most.map_or(expected, |most| expected.min(most)))
    }

    /// The head of a reply tells of limits though the call goes on.
    pub fn hear(&self, grant: &Grant, outcome: Outcome) {
        let (ended, _) = self.read(Some(grant), outcome);
        if !ended.told.is_empty() {
            self.act(|engine, now| engine.hear(grant, &ended, now));
        }
    }

    /// A call ended so.
    pub fn end(&self, grant: Grant, ended: &Ended) {
        self.act(|engine, now| engine.end_call(grant, ended, now));
    }

    pub fn cancel(&self, grant: Grant) {
        self.act(|engine, now| engine.cancel(grant, now));
    }

    /// Does what is due.
    pub fn advance(&self) {
        self.act(|engine, now| engine.advance(now));
    }

    pub fn counts(&self, service: &str) -> Option<ServiceCounts> {
        self.lock().engine.counts(service)
    }

    pub fn limit(&self, name: &str) -> Option<LimitStatus> {
        self.act(|engine, now| engine.limit(name, now))
    }

    /// Of the rates that bound a call, how much is left where the smallest share of it is.
    pub fn tightest(&self, call: &Call) -> Option<u64> {
        self.act(|engine, now| {
            let passages = engine.passages(call, now).ok()?;
            let mut stands = Vec::with_capacity(passages.len());
            engine.stands(call, now, &mut stands);
            let rates = passages.iter().zip(&stands).filter(|(passage, _)| !passage.terms.is_in_flight());
            let left = rates.map(|(passage, stand)| {
                let most = passage.terms.most();
                (most.saturating_sub(stand.used), most)
            });
            let share = |left: u64, most: u64| left as f64 / most as f64;
            let tightest = left.min_by(|one, other| share(one.0, one.1).total_cmp(&share(other.0, other.1)));
            tightest.map(|(left, _)| left)
        })
    }

    pub fn waiting(&self) -> usize {
        self.lock().engine.waiting()
    }

    /// What the config says about calls that failed.
    pub fn rules(&self) -> Arc<Rules> {
        self.rules.read().clone()
    }

    /// The wall clock, for what replies say about time.
    fn unix(&self) -> UnixMillis {
        UnixMillis(i64::try_from(self.wall().as_millis()).unwrap_or(i64::MAX))
    }

    pub fn refused(&self, refusal: Refusal) -> Refused {
        let reset = refusal.reset.map(|reset| self.clock.wall() + reset.since(self.now()));
        Refused::new(refusal, reset)
    }

    /// Does something with the engine at the present time, and hands out what came of it.
    pub fn act<T>(&self, what: impl FnOnce(&mut Engine, Nanos) -> T) -> T {
        let (result, noticed) = self.work(self.inner.lock(), |inner, now, wakers| {
            let result = what(&mut inner.engine, now);
            let noticed = inner.engine.take_notice();
            self.deliver_if_any(inner, wakers);
            (result, noticed)
        });
        if noticed {
            self.noticed.notify_one();
        }
        result
    }

    /// Does some work with the lock, and wakes whom it says. Who comes meanwhile is seen to before the lock is left.
    pub(super) fn work<T>(
        &self,
        mut inner: MutexGuard<'_, Inner>,
        work: impl FnOnce(&mut Inner, Nanos, &mut Vec<Waker>) -> T,
    ) -> T {
        if self.tray.has_ended() {
            self.see_to_ended(&mut inner);
        }
        self.tray.open();
        let now = self.present(&mut inner);
        let mut wakers = Vec::new();
        let result = work(&mut inner, now, &mut wakers);
        self.see_to_newcomers(&mut inner, &mut wakers);
        drop(inner);
        wake(wakers);
        result
    }

    /// The same for what lets nobody go.
    #[cfg(feature = "sqlite")]
    pub fn act_quietly<T>(&self, what: impl FnOnce(&mut Engine, Nanos) -> T) -> T {
        let mut inner = self.lock();
        let now = self.time(&mut inner);
        what(&mut inner.engine, now)
    }

    /// Hands out what came of something that was done.
    #[inline]
    fn hand_out(&self, inner: MutexGuard<'_, Inner>) {
        if concerns_others(&inner) {
            self.hand_out_verdicts(inner);
        }
    }

    #[inline(never)]
    fn hand_out_verdicts(&self, mut inner: MutexGuard<'_, Inner>) {
        let mut wakers = Vec::new();
        self.deliver(&mut inner, &mut wakers);
        drop(inner);
        wake(wakers);
    }

    pub(super) fn deliver_if_any(&self, inner: &mut Inner, wakers: &mut Vec<Waker>) {
        if concerns_others(inner) {
            self.deliver(inner, wakers);
        }
    }

    /// Takes the lock, and what lies ready for whoever does.
    #[inline(always)]
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.inner.lock();
        if self.tray.has_ended() {
            self.see_to_ended(&mut inner);
        }
        inner
    }

    #[inline(never)]
    fn see_to_ended(&self, inner: &mut Inner) {
        let mut ended = std::mem::take(&mut inner.ended);
        self.tray.take_ended(&mut ended);
        for grant in ended.drain(..) {
            if let Err(grant) = inner.engine.finish_unnoticed(grant) {
                let now = inner.engine.now();
                inner.engine.finish(grant, None, now);
            }
        }
        inner.ended = ended;
    }

    /// Puts verdicts where their calls find them, and sets the timer. Whom to wake is for the caller, once the
    /// lock is free.
    pub(super) fn deliver(&self, inner: &mut Inner, wakers: &mut Vec<Waker>) {
        self.see_to_pages(inner);
        let Inner { engine, usher, armed, wall_due, .. } = inner;
        let decide = |(ticket, verdict)| self.seats.decide(usher.seat_of(ticket), verdict);
        wakers.extend(engine.verdicts().filter_map(decide));
        let wake = self.wake_at(engine, *wall_due);
        if *armed != wake {
            *armed = wake;
            self.timer.set(wake);
        }
    }
}

#[cfg(not(feature = "sqlite"))]
impl Shared {
    #[inline(always)]
    #[allow(clippy::unused_self, reason = "there is no state without the feature")]
    fn see_to_pages(&self, _inner: &mut Inner) {}

    #[inline(always)]
    #[allow(clippy::unused_self, reason = "there is no state without the feature")]
    pub(super) fn refuses_to_wait(&self) -> bool {
        false
    }

    #[inline(always)]
    #[allow(clippy::unused_self, reason = "there is no state without the feature")]
    fn unless_unavailable(&self, refusal: Refusal) -> Refusal {
        refusal
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.timer.close();
        #[cfg(feature = "sqlite")]
        self.leave_state();
    }
}

/// Whether something that was done may be of concern to anybody else.
#[inline]
fn concerns_others(inner: &Inner) -> bool {
    inner.engine.waiting() > 0 || inner.engine.has_verdicts() || inner.engine.has_pages()
}

/// How long a call may wait: as it says itself, else as the config says.
pub(super) fn timeout_of(call: &Call, engine: &Engine) -> Duration {
    call.stated_timeout().or_else(|| engine.timeout_of(call.service())).unwrap_or(TIMEOUT)
}

pub(super) fn wake(wakers: Vec<Waker>) {
    for waker in wakers {
        waker.wake();
    }
}
