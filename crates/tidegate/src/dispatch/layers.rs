//! What all clones of a dispatch share: a gate with one service, and how far it has followed the window.
//!
//! The window is followed inside the gate's lock, so that of two changes the later one is seen last. The order
//! of locks is gate, `followed`, window; the window tells of changes when it holds no lock of its own.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::{Call, Engine, MAX_UNITS, Nanos};

use super::by_key::ByKey;
use super::settings::{SERVICE, Settings};
use super::snapshot::DispatchSnapshot;
use crate::backoff::{BackoffWindow, Followed, Key, Watch};
use crate::clock::ClockSource;
use crate::config::Config;
use crate::gate::Acquire;
use crate::gate::Gate;
use crate::gate::Permit;

/// The dispatches of the process by key.
pub(super) static BY_KEY: ByKey<Layers> = ByKey::new();

const UNREFUSED: &str = "a call that waits as long as it takes is never refused";
const KNOWN: &str = "the gate has this service";

pub(super) struct Layers {
    key: Option<Key>,
    settings: Settings,
    gate: Gate,
    followed: Mutex<Followed>,
    /// What all calls have in common: its route is found once.
    call: Call,
}

impl Layers {
    pub fn new(key: Option<Key>, settings: Settings) -> Arc<Layers> {
        let gate = Gate::builder()
            .config(config(&settings))
            // The clock of the window, so that both follow tokio's wherever that is paused.
            .clock(ClockSource::precise())
            .build()
            .expect("the builder has checked every number");
        let call = Call::to(SERVICE).timeout(Duration::MAX);
        let layers = Arc::new(Layers { key, settings, gate, followed: Mutex::default(), call });
        // In this order: what was before is looked for, what comes after is told.
        let watcher: Weak<Layers> = Arc::downgrade(&layers);
        layers.settings.limiter.watch(watcher);
        layers.changed();
        layers
    }

    pub fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn limiter(&self) -> &BackoffWindow {
        &self.settings.limiter
    }

    /// Takes a place in every layer, however long that takes.
    pub async fn enter(&self, bytes: usize) -> Permit {
        self.gate.acquire(self.call(bytes)).await.expect(UNREFUSED)
    }

    pub fn enter_blocking(&self, bytes: usize) -> Permit {
        self.gate.acquire_blocking(self.call(bytes)).expect(UNREFUSED)
    }

    pub fn enter_within(&self, bytes: usize, timeout: Duration) -> Acquire {
        self.gate.acquire(self.call(bytes).timeout(timeout))
    }

    pub fn set_backoff(&self, span: Duration) {
        // This dispatch is told of it like all the others.
        self.limiter().set(span);
        self.gate.shared.with(|engine, now| {
            // Whoever set a longer one may be about to tell.
            self.catch_up(engine, now);
            if span.is_zero() {
                engine.set_backoff(SERVICE, span, now).expect(KNOWN);
            }
        });
    }

    pub fn clear_backoff(&self) {
        self.limiter().clear();
        self.gate.shared.with(|engine, now| {
            self.catch_up(engine, now);
            // The window may have passed already, and left its tail.
            engine.clear_backoff(SERVICE, now);
        });
    }

    pub fn snapshot(&self) -> DispatchSnapshot {
        self.gate.shared.with(|engine, now| {
            self.catch_up(engine, now);
            DispatchSnapshot::of(engine, now)
        })
    }

    /// Brings the gate to where the window is. Only ever inside the gate's lock.
    fn catch_up(&self, engine: &mut Engine, now: Nanos) {
        let news = self.limiter().follow(&mut self.followed.lock());
        if news.cleared {
            engine.clear_backoff(SERVICE, now);
        }
        if let Some(left) = news.extended {
            engine.set_backoff(SERVICE, left, now).expect(KNOWN);
        }
    }

    fn call(&self, bytes: usize) -> Call {
        // More is no number of units, and overdraws every budget all the same.
        let bytes = u64::try_from(bytes).unwrap_or(MAX_UNITS).min(MAX_UNITS);
        self.call.clone().bytes(bytes)
    }
}

impl Watch for Layers {
    fn changed(&self) {
        self.gate.shared.with(|engine, now| self.catch_up(engine, now));
    }
}

impl Drop for Layers {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            BY_KEY.forget(key);
        }
    }
}

fn config(settings: &Settings) -> Config {
    let mut config = Config::default();
    let service = config.services.entry(SERVICE.into()).or_default();
    service.limits.concurrency = Some(settings.concurrency);
    service.limits.throttled_concurrency = Some(settings.throttled_concurrency);
    service.limits.byte_budget = Some(settings.byte_budget);
    service.backoff.window = settings.backoff_window;
    service.backoff.byte_penalty_multiplier = settings.byte_penalty_multiplier;
    // A window throttles, and holds nobody.
    service.backoff.waits = false;
    // Everybody gets a turn.
    service.queue.max_waiting = usize::MAX;
    config
}
