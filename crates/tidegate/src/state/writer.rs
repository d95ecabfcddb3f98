//! The thread that writes promises ahead.
//!
//! It sleeps until a limit asks, takes all pages that are due, writes them in one transaction, and tells the engine. Two
//! transactions begin at least [`APART`], so the disk is asked to sync less than twenty times a second however many
//! calls there are; promises are sized so that half of one lasts that long.
//!
//! What can interleave, and what a crash leaves behind:
//!
//! * *Pages are taken under the gate's lock, written without it.* Calls go on meanwhile, from what is left of the promises
//!   that are on disk; the engine takes care that the new pages cover that (see its `book`).
//! * *A limit asks while pages are written.* The flag is set again and the thread goes round once more.
//! * *The gate is dropped while pages are written.* The thread holds it only weakly. Whoever drops it leaves the last pages
//!   here, and the thread writes them after those it is at. If the process ends before that, it was a crash: a
//!   promise is lost, nothing is spent twice.
//! * *The file is removed or replaced.* The thread looks whether it is in its place before each write, and every
//!   [`WATCH`] when there is nothing to write. If it is not, a new one is begun and everything is written to it. Until then,
//!   which is less than a second, a crash finds no state; what it finds of `state.commits` tells the next process so.
//! * *The disk fails or hangs.* The pages are told to have failed, and are taken anew a little later. What then
//!   happens to calls is configured: they go on without a net, or they are refused.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::file::{Batch, Store};
use super::port::{FundingPort, Taken};
use super::{OnFailure, StateError};

/// From the beginning of one transaction to that of the next, at least.
const APART: Duration = Duration::from_millis(60);
/// A disk that failed is tried again after this.
const AGAIN: Duration = Duration::from_millis(250);
/// A disk that takes longer than this hangs.
const HANGS: Duration = Duration::from_secs(1);
/// How often to look whether the file is in its place.
const WATCH: Duration = Duration::from_millis(400);
/// How long the first transaction may take before the gate begins without it.
const FIRST: Duration = Duration::from_secs(10);

/// What the gate and the thread that writes its state share.
#[derive(Debug)]
pub(crate) struct StateWriter {
    due: AtomicBool,
    closing: AtomicBool,
    thread: OnceLock<Thread>,
    on_failure: OnFailure,
    health: Mutex<Health>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Health {
    /// When the transaction that is being written was begun.
    busy: Option<Instant>,
    /// Since when and why nothing can be written.
    failing: Option<(Instant, String)>,
    /// How many transactions have been written.
    written: u64,
    /// The gate was told how the first of them went.
    begun: bool,
    /// What a gate that was dropped left behind.
    last: Option<Taken>,
    /// How it ended.
    ended: Option<Result<(), String>>,
}

impl StateWriter {
    pub fn new(on_failure: OnFailure) -> StateWriter {
        StateWriter {
            due: AtomicBool::new(true),
            closing: AtomicBool::new(false),
            thread: OnceLock::new(),
            on_failure,
            health: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Starts the thread, and waits until every limit has its first promise.
    pub fn start<P: FundingPort>(self: &Arc<StateWriter>, gate: &Arc<P>, store: Box<dyn Store>) {
        let (writer, gate) = (self.clone(), Arc::downgrade(gate));
        let started = std::thread::Builder::new().name("tidegate-state".into()).spawn(move || {
            let _ = writer.thread.set(std::thread::current());
            let ended = writer.run(&gate, store);
            writer.health.lock().ended = Some(ended);
            writer.changed.notify_all();
        });
        let mut health = self.health.lock();
        if let Err(cause) = started {
            health.failing = Some((Instant::now(), format!("no thread to write state with: {cause}")));
            return;
        }
        let is_idle = |health: &mut Health| !health.begun && health.ended.is_none();
        self.changed.wait_while_for(&mut health, is_idle, FIRST);
    }

    /// There is something to write.
    pub fn wake(&self) {
        if !self.due.swap(true, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Whether nothing can be written at the moment, and calls go on all the same.
    pub fn goes_without(&self) -> bool {
        self.on_failure == OnFailure::Memory && self.trouble().is_some()
    }

    /// Whether calls are refused that have to wait: nothing can be written, or nothing will be any more.
    pub fn refuses(&self) -> bool {
        self.closing.load(Ordering::Acquire)
            || self.on_failure == OnFailure::Refuse && self.trouble().is_some()
    }

    /// Why nothing can be written, if that is so.
    pub fn trouble(&self) -> Option<String> {
        let health = self.health.lock();
        let hangs = health.busy.filter(|since| since.elapsed() > HANGS);
        let hangs = hangs
            .map(|since| format!("the disk has not answered for {:.1} s", since.elapsed().as_secs_f64()));
        hangs.or_else(|| health.failing.as_ref().map(|(_, why)| why.clone()))
    }

    /// How many transactions have been written.
    pub fn written(&self) -> u64 {
        self.health.lock().written
    }

    /// Everything is written, nothing goes any more, and the file is free.
    pub fn close(&self) -> Result<(), String> {
        self.closing.store(true, Ordering::Release);
        self.wake();
        self.thread.get().iter().for_each(|thread| thread.unpark());
        let mut health = self.health.lock();
        self.changed.wait_while(&mut health, |health| health.ended.is_none() && self.thread.get().is_some());
        health.ended.clone().unwrap_or(Ok(()))
    }

    /// The gate goes: these are the last pages. Nobody waits for them.
    pub fn leave(&self, last: Taken) {
        self.health.lock().last = Some(last);
        self.closing.store(true, Ordering::Release);
        self.thread.get().iter().for_each(|thread| thread.unpark());
    }

    fn run<P: FundingPort>(&self, gate: &Weak<P>, mut store: Box<dyn Store>) -> Result<(), String> {
        let mut next = Instant::now();
        loop {
            while !self.is_wanted() {
                std::thread::park_timeout(WATCH);
                if !self.is_wanted() && self.watch(&mut *store, gate).is_err() {
                    next = Instant::now() + AGAIN;
                    self.due.store(true, Ordering::Release);
                }
            }
            while let Some(wait) = next.checked_duration_since(Instant::now()).filter(|wait| !wait.is_zero())
            {
                if self.is_closing() {
                    break;
                }
                std::thread::park_timeout(wait);
            }
            let asked = Instant::now();
            self.due.store(false, Ordering::Release);
            let closing = self.is_closing();
            if self.watch(&mut *store, gate).is_err() && !closing {
                next = asked + AGAIN;
                self.due.store(true, Ordering::Release);
                self.has_begun();
                continue;
            }
            let left = self.health.lock().last.take();
            let taken = match gate.upgrade() {
                Some(gate) => gate.poll(closing),
                None => match left {
                    Some(last) => last,
                    None => return Ok(()),
                },
            };
            let result = self.write(&mut *store, &taken, asked);
            next = asked + if result.is_ok() { APART } else { AGAIN };
            if let Some(gate) = gate.upgrade() {
                gate.answer(&taken, result.is_ok(), APART + asked.elapsed());
            }
            self.has_begun();
            if taken.clean {
                return result.map_err(|cause| cause.to_string());
            }
            if result.is_err() {
                self.due.store(true, Ordering::Release);
            }
        }
    }

    /// Tells the gate that the first transaction was written, or failed.
    fn has_begun(&self) {
        if !std::mem::replace(&mut self.health.lock().begun, true) {
            self.changed.notify_all();
        }
    }

    /// Looks whether the file is in its place. If a new one had to be begun, the gate writes everything anew.
    fn watch<P: FundingPort>(&self, store: &mut dyn Store, gate: &Weak<P>) -> Result<(), StateError> {
        self.health.lock().busy = Some(Instant::now());
        let ensured = store.ensure();
        self.health.lock().busy = None;
        match ensured {
            Ok(false) => Ok(()),
            Ok(true) => {
                gate.upgrade().iter().for_each(|gate| gate.restart());
                self.due.store(true, Ordering::Release);
                Ok(())
            }
            Err(cause) => {
                self.failed(&cause);
                Err(cause)
            }
        }
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    fn is_wanted(&self) -> bool {
        self.due.load(Ordering::Acquire) || self.is_closing()
    }

    fn write(&self, store: &mut dyn Store, taken: &Taken, begun: Instant) -> Result<(), StateError> {
        let mut facts = taken.facts.clone();
        if let Some(engine) = &taken.engine {
            facts.push(("engine", serde_json::to_string(engine).unwrap_or_default()));
        }
        self.health.lock().busy = Some(begun);
        let batch = Batch { pages: &taken.pages, facts: &facts, now: taken.now, clean: taken.clean };
        let result = store.write(&batch);
        let mut health = self.health.lock();
        health.busy = None;
        match &result {
            Ok(()) => {
                health.written += 1;
                if let Some((since, _)) = health.failing.take() {
                    tracing::warn!(after = ?since.elapsed(), "state is written again");
                }
            }
            Err(cause) => {
                drop(health);
                self.failed(cause);
                return result;
            }
        }
        drop(health);
        self.changed.notify_all();
        result
    }

    /// Notes that nothing can be written.
    fn failed(&self, cause: &StateError) {
        let mut health = self.health.lock();
        if health.failing.is_none() {
            let then = match self.on_failure {
                OnFailure::Memory => "calls go on without: a crash now may spend some quota twice",
                OnFailure::Refuse => "calls that need more of their quota are refused",
            };
            tracing::error!(%cause, "state cannot be written; {then}");
        }
        let since = health.failing.take().map_or_else(Instant::now, |(since, _)| since);
        health.failing = Some((since, cause.to_string()));
        drop(health);
        self.changed.notify_all();
    }
}
