//! What happens, for whoever listens: one event a line of an SSE stream.
//!
//! Whoever causes something tells it here; it costs one look while nobody listens. Windows and breakers change by
//! themselves as time passes and as calls end, and the gate does not tell: while somebody listens they are looked at ten
//! times a second, and what differs is told. Something new to tell is one more kind of [`Event`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{BreakerState, Gate, Refused};
use tokio::sync::{Notify, broadcast};

use crate::refusal::millis;

/// How many events a listener may lag behind.
const KEPT: usize = 1_024;
/// How often windows and breakers are looked at while somebody listens.
const LOOK: Duration = Duration::from_millis(100);

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// A call was not let go.
    Refused { service: String, code: &'static str, limit: Option<String>, retry_after_ms: Option<u64> },
    /// A backoff window opened or was extended.
    WindowOpened { key: String, open_for_ms: u64 },
    /// It is over.
    WindowClosed { key: String },
    /// A breaker is in another state.
    Breaker { name: String, state: &'static str },
    /// A limit was changed by hand.
    LimitChanged { name: String, to: Value },
    /// Another config is in force.
    ConfigReloaded,
    /// Another config was refused, and the old one stays.
    ConfigRefused { error: String },
    /// The last one: the sidecar stops.
    Stopping,
}

impl Event {
    /// A call that the gate refused.
    pub fn refused(service: &str, refused: &Refused) -> Event {
        Event::Refused {
            service: service.to_owned(),
            code: refused.reason().code(),
            limit: refused.limit().map(str::to_owned),
            retry_after_ms: refused.wait().map(millis),
        }
    }

    /// The word for it, and what there is to say.
    pub fn told(&self) -> (&'static str, Value) {
        match self {
            Event::Refused { service, code, limit, retry_after_ms } => (
                "refused",
                json!({ "service": service, "code": code, "limit": limit, "retry_after_ms": retry_after_ms }),
            ),
            Event::WindowOpened { key, open_for_ms } => {
                ("window_opened", json!({ "key": key, "open_for_ms": open_for_ms }))
            }
            Event::WindowClosed { key } => ("window_closed", json!({ "key": key })),
            Event::Breaker { name, state } => ("breaker", json!({ "name": name, "state": state })),
            Event::LimitChanged { name, to } => ("limit_changed", json!({ "name": name, "to": to })),
            Event::ConfigReloaded => ("config_reloaded", json!({})),
            Event::ConfigRefused { error } => ("config_refused", json!({ "error": error })),
            Event::Stopping => ("stopping", json!({})),
        }
    }
}

/// Where events are told and heard.
#[derive(Debug)]
pub(crate) struct Events {
    sender: broadcast::Sender<Arc<Event>>,
    listened: Notify,
}

impl Events {
    pub fn new() -> Events {
        Events { sender: broadcast::channel(KEPT).0, listened: Notify::new() }
    }

    /// Tells an event that is made only if somebody listens.
    pub fn tell(&self, event: impl FnOnce() -> Event) {
        if self.sender.receiver_count() > 0 {
            // That the last listener has just left is no failure.
            self.sender.send(Arc::new(event())).ok();
        }
    }

    /// All events from now on.
    pub fn listen(&self) -> broadcast::Receiver<Arc<Event>> {
        let receiver = self.sender.subscribe();
        self.listened.notify_one();
        receiver
    }

    /// Looks at windows and breakers while somebody listens, for as long as it is polled.
    pub async fn watch(&self, gate: &Gate) {
        loop {
            self.listened.notified().await;
            let mut before = Seen::of(gate);
            while self.sender.receiver_count() > 0 {
                tokio::time::sleep(LOOK).await;
                let now = Seen::of(gate);
                for event in now.since(&before) {
                    self.tell(|| event);
                }
                before = now;
            }
        }
    }
}

/// Windows and breakers as they were.
#[derive(Debug, Default)]
struct Seen {
    /// With how long they are still open.
    windows: BTreeMap<String, Duration>,
    breakers: BTreeMap<String, &'static str>,
}

impl Seen {
    fn of(gate: &Gate) -> Seen {
        let open = gate.backoffs().into_iter().filter(|window| !window.open_for.is_zero());
        let breakers = gate.breakers().into_iter();
        Seen {
            windows: open.map(|window| (window.key.to_string(), window.open_for)).collect(),
            breakers: breakers.map(|breaker| (breaker.name.to_string(), state(&breaker.state))).collect(),
        }
    }

    fn since(&self, before: &Seen) -> Vec<Event> {
        let mut events = Vec::new();
        for (key, left) in &self.windows {
            // One that was open has less left now, unless it was extended.
            if before.windows.get(key).is_none_or(|before| left > before) {
                events.push(Event::WindowOpened { key: key.clone(), open_for_ms: millis(*left) });
            }
        }
        let closed = before.windows.keys().filter(|key| !self.windows.contains_key(*key));
        events.extend(closed.map(|key| Event::WindowClosed { key: key.clone() }));
        for (name, state) in &self.breakers {
            if *state != before.breakers.get(name).copied().unwrap_or("closed") {
                events.push(Event::Breaker { name: name.clone(), state });
            }
        }
        events
    }
}

/// The word for a breaker's state.
pub(crate) fn state(state: &BreakerState) -> &'static str {
    match state {
        BreakerState::Closed => "closed",
        BreakerState::Open { .. } => "open",
        BreakerState::HalfOpen { .. } => "half_open",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(windows: &[(&str, u64)], breakers: &[(&str, &'static str)]) -> Seen {
        Seen {
            windows: windows
                .iter()
                .map(|(key, ms)| ((*key).to_owned(), Duration::from_millis(*ms)))
                .collect(),
            breakers: breakers.iter().map(|(name, state)| ((*name).to_owned(), *state)).collect(),
        }
    }

    #[test]
    fn what_differs_is_told_and_time_that_passes_is_not() {
        let before = seen(&[("a", 500), ("b", 500), ("c", 50)], &[("x", "open"), ("y", "closed")]);
        let now =
            seen(&[("a", 400), ("b", 900), ("d", 70)], &[("x", "half_open"), ("y", "closed"), ("z", "open")]);
        let told: Vec<_> = now.since(&before).iter().map(Event::told).collect();
        assert_eq!(
            told,
            [
                ("window_opened", json!({ "key": "b", "open_for_ms": 900 })),
                ("window_opened", json!({ "key": "d", "open_for_ms": 70 })),
                ("window_closed", json!({ "key": "c" })),
                ("breaker", json!({ "name": "x", "state": "half_open" })),
                ("breaker", json!({ "name": "z", "state": "open" })),
            ]
        );
    }
}
