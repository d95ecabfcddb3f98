//! What all clones of a gate, its permits and its waiting calls share: one engine behind one lock.
//!
//! # The lock protocol
//!
//! Every decision is made by the engine under one lock. The lock is held for well under a microsecond, unless one change
//! grants hundreds of calls. Nothing is awaited and no waker is woken while it is held. There are four ways in:
//!
//! | verb | used by | what it does with the lock |
//! |---|---|---|
//! | [`try_fast`](Shared::try_fast) | `try_acquire` | takes it; a call that fits and passes no queue costs one admission and no output |
//! | [`enqueue_or_hand_off`](Shared::enqueue_or_hand_off) | `acquire` | tries it; if it is taken, pushes the call onto the hand-off queue |
//! | [`release`](Shared::release) | a dropped permit | tries it; if it is taken and the release frees nothing that a call waits for, pushes the grant |
//! | [`with`](Shared::with) | all else | takes it, runs a closure on the engine at the present time |
//!
//! Every way out is the same. Before the lock is released, `publish` hands out what the engine has to say: decisions go
//! to the wait slots of their calls, the timer gets the next wake-up time, and the lender's thread is woken if promises
//! are due. After the lock is released, the wakers of decided calls are woken, and the event listener is notified.
//! `publish` is skipped if no call waits and there is no output, which is the common case of `try_fast` and `release`.
//!
//! # What can interleave
//!
//! * *A waiting call is dropped while it is decided.* Decisions are stored under the lock. A call that is dropped takes the
//!   same lock and finds either that it still waits (and is withdrawn) or that its decision is in its slot (and a grant
//!   in it is cancelled). There is no third case.
//! * *A woken call polls while the lock is taken.* It reads its decision from its slot, without the gate's lock (see
//!   `wait_slots`).
//! * *A call arrives, or ends, while the lock is taken.* See `hand_off`. The holder drains the calls before it unlocks; the
//!   next holder settles the releases as its first step ([`lock`](Shared::lock)).
//! * *A slot of the engine's queue is reused at once.* So decisions are published before a new ticket is noted: an
//!   older decision could name the same place.
//! * *The clock* is read under the lock: see `engine_clock`.
//!
//! Order of locks: `rules`, then `inner`, then the hand-off queue, then one wait slot. `outputs` is never held together with
//! `inner`.

use std::sync::Arc;
use std::task::Waker;

use parking_lot::{Mutex, MutexGuard, RwLock};
use tidegate_core::Outputs;
use tidegate_core::engine::ChangeError;
use tidegate_core::{Admission, Call, Engine, Grant, Nanos, Reason, Refusal, Verdict};

use super::engine_clock::{EngineClock, wake_at};
use super::hand_off::HandOff;
use super::inner::{Enqueued, HandedOff, Inner, QueueTerms, Waiting};
use super::persistence::Persistence;
use super::timer::Timer;
use super::wait_slots::WaitSlots;
use crate::chance::Chance;
use crate::clock::ClockSource;
use crate::config::Config;
use crate::refused::Refused;
use crate::rules::Rules;

/// How often a lock holder drains the hand-off queue before it leaves the rest to the next one.
const DRAINS: u32 = 8;

/// What all clones of a gate, its permits and its waiting calls share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) inner: Mutex<Inner>,
    pub(super) slots: WaitSlots,
    pub(super) hand_off: HandOff<HandedOff, Grant>,
    pub(super) clock: EngineClock,
    /// What the config says about calls that failed. A thread that needs both locks takes this one first.
    pub(super) rules: RwLock<Arc<Rules>>,
    pub chance: Chance,
    /// Whether a call that states no tokens costs one.
    pub simple: bool,
    pub timer: Arc<Timer>,
    /// How much output calls have had. Held for moments.
    pub outputs: Mutex<Outputs>,
    pub(super) persistence: Option<Persistence>,
    /// Notified when there are events.
    pub(super) noticed: tokio::sync::Notify,
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
        let (clock, now) = EngineClock::new(clock, since);
        let inner = Mutex::new(Inner::new(Engine::new(&config, now, clock.wall())?));
        Ok(Shared {
            inner,
            slots: WaitSlots::default(),
            hand_off: HandOff::default(),
            clock,
            rules: RwLock::new(Arc::new(Rules::new(config, refusals_count, &Rules::default()))),
            chance,
            simple,
            timer: Arc::default(),
            outputs: Mutex::default(),
            persistence: None,
            noticed: tokio::sync::Notify::new(),
        })
    }

    /// Admits a call now or refuses it. `permit` makes the permit of a grant and of the model that the call asks for;
    /// it runs after the lock is released.
    #[inline(always)]
    pub fn try_fast<P>(
        &self,
        call: &Call,
        permit: impl FnOnce(Grant, Option<Arc<str>>) -> P,
    ) -> Result<P, Refused> {
        let mut inner = self.lock();
        let now = self.present(&mut inner);
        match inner.engine.admit_at_sight(call, now) {
            Some(grant) => Ok(self.granted(inner, grant, call, permit)),
            None => self.try_ranked(inner, call, now, permit),
        }
    }

    /// Admits a call that may have to pass a queue. Out of line, so that the fast path stays short.
    #[inline(never)]
    fn try_ranked<P>(
        &self,
        mut inner: MutexGuard<'_, Inner>,
        call: &Call,
        now: Nanos,
        permit: impl FnOnce(Grant, Option<Arc<str>>) -> P,
    ) -> Result<P, Refused> {
        match inner.engine.try_admit(call, now) {
            Ok(grant) => Ok(self.granted(inner, grant, call, permit)),
            Err(refusal) => {
                self.unlock(inner);
                Err(self.refused(self.unless_unavailable(refusal)))
            }
        }
    }

    #[inline(always)]
    fn granted<P>(
        &self,
        inner: MutexGuard<'_, Inner>,
        grant: Grant,
        call: &Call,
        permit: impl FnOnce(Grant, Option<Arc<str>>) -> P,
    ) -> P {
        let model = inner.engine.unknown_model(&grant, call);
        self.unlock(inner);
        permit(grant, model)
    }

    /// Runs `work` on the engine at the present time, and publishes what came of it.
    pub fn with<T>(&self, work: impl FnOnce(&mut Engine, Nanos) -> T) -> T {
        let (result, noticed) = self.locked(self.inner.lock(), |inner, now, wakers| {
            let result = work(&mut inner.engine, now);
            let noticed = inner.engine.take_notice();
            self.publish_if_any(inner, wakers);
            (result, noticed)
        });
        if noticed {
            self.noticed.notify_one();
        }
        result
    }

    /// Queues a call. If the lock is taken, leaves the call to the lock holder.
    pub fn enqueue_or_hand_off(
        &self,
        call: &Call,
        terms: Option<QueueTerms>,
        waker: &Waker,
    ) -> Result<Enqueued, Refusal> {
        let inner = match self.inner.try_lock() {
            Some(inner) => inner,
            None => match self.hand_off(call, terms, waker) {
                Some(waiting) => return Ok(Enqueued::Waiting(waiting)),
                None => self.inner.lock(),
            },
        };
        self.locked(inner, |inner, now, wakers| {
            let admission = self.admit(inner, call, terms, now, wakers)?;
            Ok(match admission {
                Admission::Granted(grant) => Enqueued::Granted(grant),
                Admission::Waiting(ticket) => {
                    let slot = self.hand_off.take_slot();
                    self.slots.occupy(slot, waker.clone());
                    inner.slot_index.note(slot, ticket);
                    Enqueued::Waiting(Waiting { slot, since: now })
                }
            })
        })
    }

    /// Pushes a call onto the hand-off queue, if a lock holder is certain to drain it.
    #[cold]
    fn hand_off(&self, call: &Call, terms: Option<QueueTerms>, waker: &Waker) -> Option<Waiting> {
        let (call, waker) = (call.clone(), waker.clone());
        // Only says since when the call waits: the lock holder dates the call when it drains it.
        let since = self.clock.reading();
        let slot = self.hand_off.push_call(|slot| {
            self.slots.occupy(slot, waker);
            HandedOff { call, terms, slot }
        })?;
        Some(Waiting { slot, since })
    }

    /// Releases a grant of whose call nothing is known.
    #[inline]
    pub fn release(&self, grant: Grant) {
        match self.inner.try_lock() {
            Some(mut inner) => {
                if let Err(grant) = inner.engine.finish_unnoticed(grant) {
                    self.release_and_publish(inner, grant);
                }
            }
            None => self.release_contended(grant),
        }
    }

    /// Releases a grant while another thread holds the lock.
    #[cold]
    fn release_contended(&self, grant: Grant) {
        if grant.is_quiet() {
            self.hand_off.push_release(grant);
        } else {
            self.release_and_publish(self.lock(), grant);
        }
    }

    #[inline(never)]
    fn release_and_publish(&self, mut inner: MutexGuard<'_, Inner>, grant: Grant) {
        let now = self.clock.now(&inner.engine);
        inner.engine.finish(grant, None, now);
        self.unlock(inner);
    }

    /// Takes the lock, and settles the releases that were handed off.
    #[inline(always)]
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.inner.lock();
        if self.hand_off.has_releases() {
            self.settle_releases(&mut inner);
        }
        inner
    }

    #[inline(never)]
    fn settle_releases(&self, inner: &mut Inner) {
        let mut released = std::mem::take(&mut inner.released);
        self.hand_off.take_releases(&mut released);
        inner.settle(&mut released);
        inner.released = released;
    }

    /// Runs `work` under the lock, drains the hand-off queue, unlocks, and wakes the calls that were decided.
    pub(super) fn locked<T>(
        &self,
        mut inner: MutexGuard<'_, Inner>,
        work: impl FnOnce(&mut Inner, Nanos, &mut Vec<Waker>) -> T,
    ) -> T {
        if self.hand_off.has_releases() {
            self.settle_releases(&mut inner);
        }
        self.hand_off.open();
        let now = self.present(&mut inner);
        let mut wakers = Vec::new();
        let result = work(&mut inner, now, &mut wakers);
        self.drain_calls(&mut inner, &mut wakers);
        drop(inner);
        wake(wakers);
        result
    }

    /// Admits or queues the calls that arrived while the lock was taken, in order of arrival.
    fn drain_calls(&self, inner: &mut Inner, wakers: &mut Vec<Waker>) {
        let mut calls = std::mem::take(&mut inner.calls);
        for drain in 1..=DRAINS {
            self.hand_off.take_calls(&mut calls, drain == DRAINS);
            if calls.is_empty() {
                break;
            }
            let now = self.clock.now(&inner.engine);
            for HandedOff { call, terms, slot } in calls.drain(..) {
                let verdict = match self.admit(inner, &call, terms, now, wakers) {
                    Ok(Admission::Waiting(ticket)) => {
                        inner.slot_index.note(slot, ticket);
                        continue;
                    }
                    Ok(Admission::Granted(grant)) => Verdict::Granted(grant),
                    Err(refusal) => Verdict::Refused(refusal),
                };
                wakers.extend(self.slots.decide(slot, verdict));
            }
        }
        inner.calls = calls;
    }

    /// Has the engine admit, queue or refuse a call that is ready to wait.
    fn admit(
        &self,
        inner: &mut Inner,
        call: &Call,
        terms: Option<QueueTerms>,
        now: Nanos,
        wakers: &mut Vec<Waker>,
    ) -> Result<Admission, Refusal> {
        let admission = inner.enqueue(call, terms, now);
        // Before the ticket is noted: a call that went meanwhile may have had the same place in the queue.
        self.publish(inner, wakers);
        match admission {
            Ok(Admission::Waiting(ticket))
                if self.refuses_to_wait() && inner.engine.withdraw(ticket, now) =>
            {
                // Its place may have been in the way of other calls, and the next change may be far away.
                self.publish(inner, wakers);
                Err(Refusal::bare(Reason::Unavailable))
            }
            admission => admission,
        }
    }

    /// Publishes what the engine has to say: wakes the lender's thread, stores decisions, sets the timer. The caller wakes
    /// `wakers` once the lock is released.
    pub(super) fn publish(&self, inner: &mut Inner, wakers: &mut Vec<Waker>) {
        if let Some(persistence) = &self.persistence {
            persistence.request_writes(&mut inner.engine);
        }
        let Inner { engine, slot_index, armed, wall_due, .. } = inner;
        let decide = |(ticket, verdict)| self.slots.decide(slot_index.slot_of(ticket), verdict);
        wakers.extend(engine.verdicts().filter_map(decide));
        let wake = wake_at(engine, *wall_due);
        if *armed != wake {
            *armed = wake;
            self.timer.set(wake);
        }
    }

    pub(super) fn publish_if_any(&self, inner: &mut Inner, wakers: &mut Vec<Waker>) {
        if inner.has_output() {
            self.publish(inner, wakers);
        }
    }

    /// Publishes, if there is anything, and releases the lock.
    #[inline]
    fn unlock(&self, inner: MutexGuard<'_, Inner>) {
        if inner.has_output() {
            self.publish_and_unlock(inner);
        }
    }

    #[inline(never)]
    fn publish_and_unlock(&self, mut inner: MutexGuard<'_, Inner>) {
        let mut wakers = Vec::new();
        self.publish(&mut inner, &mut wakers);
        drop(inner);
        wake(wakers);
    }

    /// Returns whether no call may begin to wait: the lender will grant nothing.
    fn refuses_to_wait(&self) -> bool {
        self.persistence.as_ref().is_some_and(|persistence| persistence.refuses_to_wait())
    }

    /// Returns the refusal, with another reason if the call would wait for a lender that grants nothing.
    fn unless_unavailable(&self, refusal: Refusal) -> Refusal {
        let waits = matches!(refusal.reason, Reason::Timeout | Reason::Hopeless);
        if waits && self.refuses_to_wait() {
            Refusal { reason: Reason::Unavailable, ..refusal }
        } else {
            refusal
        }
    }

    /// Returns the refusal with its reset as a time of the wall clock.
    pub fn refused(&self, refusal: Refusal) -> Refused {
        let reset = refusal.reset.map(|reset| self.clock.wall_time() + reset.since(self.now()));
        Refused::new(refusal, reset)
    }

    /// Returns the engine's time.
    pub fn now(&self) -> Nanos {
        self.clock.now(&self.lock().engine)
    }

    #[inline(always)]
    fn present(&self, inner: &mut Inner) -> Nanos {
        self.clock.present(&mut inner.engine, &mut inner.wall_due)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.timer.close();
        if let Some(persistence) = &self.persistence {
            let facts = persistence.facts_due(&self.outputs, true);
            let mut inner = self.lock();
            let now = self.clock.now(&inner.engine);
            persistence.leave(&mut inner.engine, now, facts);
        }
    }
}

/// Wakes decided calls. The caller holds no lock: a waker may run foreign code.
pub(super) fn wake(wakers: Vec<Waker>) {
    for waker in wakers {
        waker.wake();
    }
}
