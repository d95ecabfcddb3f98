//! The server's own endpoints, below `/_sim/`: its count, its records, another limit. No limit counts them.

use serde_json::{Value, json};
use tidegate_core::config::units::parse_rate_of;
use tidegate_core::{Nanos, Rate, WindowName};

use super::state::{Shared, State};
use crate::scenario::{Model, UpstreamLimit};
use crate::upstream::Tally;

pub(super) fn answer(method: &str, asked: &str, body: &[u8], shared: &Shared) -> (u16, Value) {
    match (method, asked) {
        ("GET", "counts") => (200, counts(shared)),
        ("GET", "records") => (200, shared.state().records.iter().map(super::Record::to_json).collect()),
        ("POST", "change") => match change(body, shared) {
            Ok(()) => (200, counts(shared)),
            Err(why) => (400, json!({ "error": { "code": "invalid_change", "message": why } })),
        },
        _ => {
            let message = "there are GET /_sim/counts, GET /_sim/records and POST /_sim/change";
            (404, json!({ "error": { "code": "not_found", "message": message } }))
        }
    }
}

pub(super) fn counts(shared: &Shared) -> Value {
    let mut state = shared.state();
    let now = shared.now();
    state.upstream.advance(now);
    let counts = state.counts();
    let statuses = counts.statuses.iter().map(|(status, count)| (status.to_string(), json!(count)));
    json!({
        "uptime_ms": now.0 / 1_000_000,
        "us": tally(&counts.upstream.us),
        "neighbours": tally(&counts.upstream.neighbours),
        "statuses": statuses.collect::<serde_json::Map<_, _>>(),
        "lost": counts.lost,
        "malformed": counts.malformed,
        "running": counts.running,
        "limits": limits(&state, now),
    })
}

fn tally(tally: &Tally) -> Value {
    json!({
        "received": tally.received,
        "accepted": tally.accepted,
        "refused": tally.refused,
        "failed": tally.failed,
        "units": tally.units,
    })
}

fn limits(state: &State, now: Nanos) -> Value {
    let limit = |(place, limit): (usize, &UpstreamLimit)| {
        let name = match limit.model {
            Model::Concurrency => "concurrency".to_owned(),
            _ => format!("{}/{}", limit.dimension, WindowName(limit.rate.window())),
        };
        let remaining = state.upstream.remaining(place, now);
        json!({ "name": name, "limit": limit.rate.units(), "remaining": remaining, "hidden": limit.hidden })
    };
    state.upstream.limits().enumerate().map(limit).collect()
}

/// `{"limit": 0, "to": "300/min"}`; for slots `to` is a number.
fn change(body: &[u8], shared: &Shared) -> Result<(), String> {
    let body: Value =
        serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    let place = body["limit"].as_u64().ok_or("`limit` must be the limit's place in the list: 0, 1, …")?;
    let place = usize::try_from(place).map_err(|error| error.to_string())?;
    let mut state = shared.state();
    let count = state.upstream.limits().len();
    let limit = state.upstream.limits().nth(place).ok_or_else(|| format!("there are {count} limits"))?;
    let rate = match (limit.model, &body["to"]) {
        (Model::Concurrency, Value::Number(slots)) => {
            let slots = slots.as_u64().ok_or("`to` must be a number of slots")?;
            Rate::new(slots, limit.rate.window()).map_err(|error| error.to_string())?
        }
        (Model::Concurrency, _) => return Err("`to` must be a number of slots".to_owned()),
        (_, Value::String(rate)) => {
            let rate = parse_rate_of(rate, &limit.dimension).and_then(|rate| rate.rate(&limit.dimension));
            rate.map_err(|error| error.to_string())?
        }
        _ => return Err("`to` must be a rate, such as \"300/min\"".to_owned()),
    };
    let now = shared.now();
    state.upstream.change(place, rate, now);
    Ok(())
}
