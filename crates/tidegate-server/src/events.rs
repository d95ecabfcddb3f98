//! Events for subscribers: one event is one message of an SSE stream.
//!
//! The part that causes an event publishes it here, which costs one load while there is no subscriber. The gate reports
//! windows, breakers and learned limits itself, in the order in which they happened, so that no short one is missed. The
//! end of a window follows from its start. A new kind of event is a new variant of [`Event`].

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tidegate::{BreakerState, BreakerStatus, Gate, Nanos, News, Refused};
use tokio::sync::broadcast;
use tokio::time::Instant;

use crate::learned;
use crate::refusal::millis;

/// How many events a subscriber may lag behind.
const CAPACITY: usize = 1_024;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// A call was refused.
    Refused { service: String, code: &'static str, limit: Option<String>, retry_after_ms: Option<u64> },
    /// A backoff window opened or was extended.
    WindowOpened { key: String, open_for_ms: u64 },
    /// A backoff window is over.
    WindowClosed { key: String },
    /// A breaker changed its state.
    Breaker { name: String, state: &'static str },
    /// Something was learned about a limit of the upstream.
    Learned(Value),
    /// A limit was changed by hand.
    LimitChanged { name: String, to: Value },
    /// A limit was reset by an operator.
    LimitReset { name: String, used: u64 },
    /// A call cost more than the bound on debt lets a limit count. The rest was dropped.
    DebtDropped { limit: String, units: u64 },
    /// A reply or a report asked for a longer wait than its service allows.
    WaitCut { service: String, asked_ms: u64, allowed_ms: u64 },
    /// Another config came into force.
    ConfigReloaded,
    /// Another config was rejected, and the old one stays.
    ConfigRefused { error: String },
    /// The sidecar stops. It is the last event.
    Stopping,
}

impl Event {
    /// Returns the event of a call that the gate refused.
    pub fn refused(service: &str, refused: &Refused) -> Event {
        Event::Refused {
            service: service.to_owned(),
            code: refused.reason().code(),
            limit: refused.limit().map(str::to_owned),
            retry_after_ms: refused.wait().map(millis),
        }
    }

    /// Returns the name of the event and its fields.
    pub fn name_and_json(&self) -> (&'static str, Value) {
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
            Event::Learned(learned) => ("learned", learned.clone()),
            Event::LimitChanged { name, to } => ("limit_changed", json!({ "name": name, "to": to })),
            Event::LimitReset { name, used } => ("limit_reset", json!({ "name": name, "used": used })),
            Event::DebtDropped { limit, units } => {
                ("debt_dropped", json!({ "limit": limit, "units": units }))
            }
            Event::WaitCut { service, asked_ms, allowed_ms } => {
                ("wait_cut", json!({ "service": service, "asked_ms": asked_ms, "allowed_ms": allowed_ms }))
            }
            Event::ConfigReloaded => ("config_reloaded", json!({})),
            Event::ConfigRefused { error } => ("config_refused", json!({ "error": error })),
            Event::Stopping => ("stopping", json!({})),
        }
    }
}

/// Publishes events to subscribers.
#[derive(Debug)]
pub(crate) struct Events {
    sender: broadcast::Sender<Arc<Event>>,
}

impl Events {
    pub fn new() -> Events {
        Events { sender: broadcast::channel(CAPACITY).0 }
    }

    /// Publishes an event, which is built only if there is a subscriber.
    pub fn publish(&self, event: impl FnOnce() -> Event) {
        if self.sender.receiver_count() > 0 {
            // It is no error if the last subscriber has just left.
            self.sender.send(Arc::new(event())).ok();
        }
    }

    /// Returns a receiver of all events from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        self.sender.subscribe()
    }

    /// Publishes the events of the gate, for as long as the future is polled.
    pub async fn follow(&self, gate: &Gate) {
        let mut expirations = Expirations::default();
        loop {
            tokio::select! {
                () = gate.noticed() => {}
                () = expirations.next() => {}
            }
            // Ends that are due come before what happened since.
            for event in expirations.due(gate) {
                self.publish(|| event);
            }
            for news in gate.news() {
                if let Some(event) = expirations.note(&news, gate.now()) {
                    self.publish(|| event);
                }
            }
            for lesson in gate.lessons() {
                if let Some(learned) = learned::lesson(&lesson) {
                    self.publish(|| Event::Learned(learned));
                }
            }
        }
    }
}

/// When windows end, and when breakers become half open.
#[derive(Debug, Default)]
struct Expirations {
    windows: BTreeMap<Arc<str>, Instant>,
    breakers: BTreeMap<Arc<str>, Instant>,
}

impl Expirations {
    /// Waits for the first end.
    async fn next(&self) {
        match self.windows.values().chain(self.breakers.values()).min() {
            Some(first) => tokio::time::sleep_until(*first).await,
            None => std::future::pending().await,
        }
    }

    /// Removes and returns the ends that are due.
    fn due(&mut self, gate: &Gate) -> Vec<Event> {
        let now = Instant::now();
        let mut events = Vec::new();
        self.windows.retain(|key, end| {
            if *end <= now {
                events.push(Event::WindowClosed { key: key.to_string() });
            }
            *end > now
        });
        let is_due =
            |breaker: &BreakerStatus| self.breakers.get(&breaker.name).is_some_and(|end| *end <= now);
        // A breaker that left with the config, or was closed meanwhile, is not half open.
        let probed = |breaker: &BreakerStatus| {
            is_due(breaker) && matches!(breaker.state, BreakerState::HalfOpen { .. })
        };
        if self.breakers.values().any(|end| *end <= now) {
            let half_open = gate.breakers().into_iter().filter(probed);
            let event = |breaker: BreakerStatus| Event::Breaker {
                name: breaker.name.to_string(),
                state: breaker_state(&breaker.state),
            };
            events.extend(half_open.map(event));
            self.breakers.retain(|_, end| *end > now);
        }
        events
    }

    /// Notes an event of the gate. Returns what to publish.
    fn note(&mut self, news: &News, now: Nanos) -> Option<Event> {
        Some(match news {
            News::WindowOpened { key, until } => {
                let open_for = until.since(now);
                self.windows.insert(key.clone(), Instant::now() + open_for);
                Event::WindowOpened { key: key.to_string(), open_for_ms: millis(open_for) }
            }
            News::WindowCleared { key } => {
                self.windows.remove(key);
                Event::WindowClosed { key: key.to_string() }
            }
            News::BreakerOpened { name, until } => {
                self.breakers.insert(name.clone(), Instant::now() + until.since(now));
                Event::Breaker { name: name.to_string(), state: "open" }
            }
            News::BreakerClosed { name } => {
                self.breakers.remove(name);
                Event::Breaker { name: name.to_string(), state: "closed" }
            }
            News::LimitReset { limit, used } => {
                tracing::info!(%limit, used, "limit reset: it begins unspent");
                Event::LimitReset { name: limit.to_string(), used: *used }
            }
            News::DebtDropped { limit, units } => {
                tracing::warn!(%limit, units, "debt above four times the limit is dropped");
                Event::DebtDropped { limit: limit.to_string(), units: *units }
            }
            News::WaitCut { service, asked, allowed } => {
                tracing::warn!(%service, ?asked, ?allowed, "a reply or report asked for too long a wait");
                Event::WaitCut {
                    service: service.to_string(),
                    asked_ms: millis(*asked),
                    allowed_ms: millis(*allowed),
                }
            }
            _ => return None,
        })
    }
}

/// Returns the name of a breaker's state.
pub(crate) fn breaker_state(state: &BreakerState) -> &'static str {
    match state {
        BreakerState::Closed => "closed",
        BreakerState::Open { .. } => "open",
        BreakerState::HalfOpen { .. } => "half_open",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate::{Call, Config, Outcome};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_opens_and_closes_in_no_time_is_told_and_so_is_what_time_does() {
        let config = "[services.api]\n[services.b]\nbreaker = { failures = 1, open_for = \"30s\" }\n";
        let config = Config::parse(config).expect("valid");
        let gate = Gate::builder().config(config).build().expect("valid");
        let events = Arc::new(Events::new());
        let mut heard = events.subscribe();
        let (follows, followed) = (events.clone(), gate.clone());
        tokio::spawn(async move { follows.follow(&followed).await });
        let mut told = async move |number: usize| {
            let mut told = Vec::new();
            for _ in 0..number {
                told.push(heard.recv().await.expect("an event").name_and_json());
            }
            told
        };

        gate.set_backoff("api", Duration::from_secs(5)).expect("known");
        gate.clear_backoff("api");
        gate.set_backoff("api", Duration::from_secs(2)).expect("known");
        let api = json!({ "key": "api" });
        let opened = |ms: u64| ("window_opened", json!({ "key": "api", "open_for_ms": ms }));
        assert_eq!(
            told(4).await,
            [opened(5_000), ("window_closed", api.clone()), opened(2_000), ("window_closed", api)]
        );

        gate.try_acquire(Call::to("b")).expect("it goes").finish(Outcome::failed());
        let breaker = |state: &str| ("breaker", json!({ "name": "b/breaker", "state": state }));
        assert_eq!(told(2).await, [breaker("open"), breaker("half_open")]);
        gate.try_acquire(Call::to("b")).expect("a probe").finish(Outcome::done());
        assert_eq!(told(1).await, [breaker("closed")]);
    }
}
