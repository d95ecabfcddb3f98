//! Every limit as it stands, with where it is from.

use std::collections::HashMap;

use serde_json::{Value, json};
use tidegate::{LimitStatus, Nanos};

use crate::app::App;
use crate::in_force::{self, InForce};
use crate::refusal::millis;

pub(super) fn of(app: &App) -> Value {
    let in_force = app.in_force();
    let written = in_force::limits(&in_force.config);
    let by_name: HashMap<&str, &InForce<'_>> =
        written.iter().map(|limit| (limit.name.as_str(), limit)).collect();
    let now = app.gate.now();
    let limits = app.gate.limits();
    json!({ "limits": limits.iter().map(|limit| one(limit, &by_name, now)).collect::<Vec<_>>() })
}

fn one(limit: &LimitStatus, by_name: &HashMap<&str, &InForce<'_>>, now: Nanos) -> Value {
    // What a loop has of its own is written once for all of them.
    let of_loops = || {
        let (owner, rest) = limit.name.strip_prefix("loop:").and_then(|name| name.split_once('/'))?;
        (!owner.is_empty()).then(|| format!("loop:*/{rest}"))
    };
    let written = by_name.get(&*limit.name).or_else(|| by_name.get(&*of_loops()?));
    let mut value = written.map_or_else(|| json!({}), |written| written.json());
    value["name"] = (*limit.name).into();
    value["capacity"] = limit.capacity.into();
    value["used"] = limit.used.into();
    value["remaining"] = limit.capacity.saturating_sub(limit.used).into();
    value["reset_ms"] = limit.reset.map(|reset| millis(reset.since(now))).into();
    value["waiting"] = limit.waiting.into();
    value
}
