//! How the sidecar and its services are.

use serde_json::{Map, Value, json};
use tidegate::{BackoffStatus, BreakerState, BreakerStatus};
use tidegate_core::config::ServiceConfig;

use crate::app::App;
use crate::events::state;
use crate::learned;
use crate::refusal::millis;

pub(super) fn of(app: &App) -> Value {
    let in_force = app.in_force();
    let services: Map<String, Value> = in_force
        .config
        .services
        .iter()
        .map(|(name, config)| (name.clone(), service(app, name, config)))
        .collect();
    let backoffs: Vec<Value> = app.gate.backoffs().iter().map(backoff).collect();
    let breakers: Vec<Value> = app.gate.breakers().iter().map(breaker).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_ms": millis(app.started.elapsed()),
        "connections": app.connections(),
        "calls": app.calls(),
        "permits": app.permits.live(),
        "config": app.reloads.lock().json(),
        "waiting": app.gate.waiting(),
        "buffered_bytes": app.memory.used(),
        "state": state_of(app),
        "services": services,
        "loop_types": in_force.config.loop_types.keys().collect::<Vec<_>>(),
        "backoffs": backoffs,
        "breakers": breakers,
        "learned": learned::limits(&app.gate),
        "outputs": learned::outputs(&app.gate),
    })
}

/// Where state is kept, and what is wrong with that.
fn state_of(app: &App) -> Value {
    let path = app.gate.state_path().map(|path| path.display().to_string());
    json!({ "path": path, "trouble": app.gate.state_trouble() })
}

fn service(app: &App, name: &str, config: &ServiceConfig) -> Value {
    let counts = app.gate.counts(name).unwrap_or_default();
    json!({
        "upstream": app.in_force().services.get(name).map(|service| service.upstream()),
        "preset": config.preset,
        "granted": counts.granted,
        "refused": counts.refused,
        "timed_out": counts.timed_out,
        "shed": counts.shed,
        "would_wait": counts.would_wait,
    })
}

fn backoff(window: &BackoffStatus) -> Value {
    json!({
        "key": *window.key,
        "open_for_ms": millis(window.open_for),
        "throttled_for_ms": millis(window.throttled_for),
        "waiting": window.waiting,
    })
}

fn breaker(breaker: &BreakerStatus) -> Value {
    let probe_in = match breaker.state {
        BreakerState::Open { probe_in } => Some(probe_in),
        _ => None,
    };
    json!({
        "name": *breaker.name,
        "state": state(&breaker.state),
        "probe_in_ms": probe_in.map(millis),
        "waiting": breaker.waiting,
    })
}
