//! `GET /v1/status`: the sidecar and its services.

use serde_json::{Map, Value, json};
use tidegate::{BackoffStatus, BreakerState, BreakerStatus};
use tidegate_core::config::ServiceConfig;

use crate::config_file;
use crate::events::breaker_state;
use crate::learned;
use crate::refusal::millis;
use crate::v1::Api;

pub(super) fn json(api: &Api) -> Value {
    let active = api.shared.config.active();
    let services: Map<String, Value> = active
        .config
        .services
        .iter()
        .map(|(name, config)| (name.clone(), service(api, name, config)))
        .collect();
    let backoffs: Vec<Value> = api.shared.gate.backoffs().iter().map(backoff).collect();
    let breakers: Vec<Value> = api.shared.gate.breakers().iter().map(breaker).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_ms": millis(api.shared.lifecycle.uptime()),
        "connections": api.shared.lifecycle.connections(),
        "calls": api.shared.lifecycle.calls(),
        "permits": api.permits.live(),
        "config": config_file::status_json(api.config_file.as_deref()),
        "waiting": api.shared.gate.waiting(),
        "buffered_bytes": api.shared.memory.used(),
        "state": state_of(api),
        "services": services,
        "loop_types": active.config.loop_types.keys().collect::<Vec<_>>(),
        "backoffs": backoffs,
        "breakers": breakers,
        "learned": learned::limits(&api.shared.gate),
        "outputs": learned::outputs(&api.shared.gate),
    })
}

/// Returns where state is kept, and the last error there.
fn state_of(api: &Api) -> Value {
    let path = api.shared.gate.state_path().map(|path| path.display().to_string());
    json!({ "path": path, "trouble": api.shared.gate.state_trouble() })
}

fn service(api: &Api, name: &str, config: &ServiceConfig) -> Value {
    let counts = api.shared.gate.counts(name).unwrap_or_default();
    json!({
        "upstream": api.shared.config.active().services.get(name).map(|service| service.upstream()),
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
        "state": breaker_state(&breaker.state),
        "probe_in_ms": probe_in.map(millis),
        "waiting": breaker.waiting,
    })
}
