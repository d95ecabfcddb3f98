//! `GET /v1/limits`: all limits, how much of each is used, and its source.

use std::collections::HashMap;

use serde_json::{Value, json};
use tidegate::{LearnedLimit, LimitStatus, Nanos};

use crate::configured_limits::{self, ConfiguredLimit};
use crate::learned;
use crate::limit_changes::LimitChanges;
use crate::refusal::millis;
use crate::v1::Api;

pub(super) fn json(api: &Api) -> Value {
    let active = api.shared.config.active();
    let written = configured_limits::limits(&active.config);
    let by_name: HashMap<&str, &ConfiguredLimit<'_>> =
        written.iter().map(|limit| (limit.name.as_str(), limit)).collect();
    let now = api.shared.gate.now();
    let limits = api.shared.gate.limits();
    let learned = api.shared.gate.learned();
    let learned: HashMap<&str, &LearnedLimit> = learned.iter().map(|known| (&*known.limit, known)).collect();
    let one = |limit: &LimitStatus| {
        let mut value = one(limit, &by_name, &active.changes, now);
        value["learned"] = learned.get(&*limit.name).map(|known| learned::of_limit(known)).into();
        value
    };
    json!({ "limits": limits.iter().map(one).collect::<Vec<_>>() })
}

/// Returns one limit as it is written.
pub(super) fn named(api: &Api, name: &str) -> Value {
    let active = api.shared.config.active();
    let written = configured_limits::limits(&active.config);
    let mut value =
        written.iter().find(|limit| limit.name == name).map_or_else(|| json!({}), ConfiguredLimit::json);
    value["name"] = name.into();
    tell_changed(&mut value, name, &active.changes);
    value
}

fn tell_changed(value: &mut Value, name: &str, changes: &LimitChanges) {
    if let Some(written) = changes.written(name) {
        value["changed"] = true.into();
        value["written"] = written;
        value["from"] = "live".into();
    }
}

fn one(
    limit: &LimitStatus,
    by_name: &HashMap<&str, &ConfiguredLimit<'_>>,
    changes: &LimitChanges,
    now: Nanos,
) -> Value {
    // The limits of single loops are written once for all loops.
    let of_loops = || {
        let (owner, rest) = limit.name.strip_prefix("loop:").and_then(|name| name.split_once('/'))?;
        (!owner.is_empty()).then(|| format!("loop:*/{rest}"))
    };
    let written = by_name.get(&*limit.name).or_else(|| by_name.get(&*of_loops()?));
    let mut value = written.map_or_else(|| json!({}), |written| written.json());
    tell_changed(&mut value, written.map_or(&limit.name, |written| &written.name), changes);
    value["name"] = (*limit.name).into();
    value["capacity"] = limit.capacity.into();
    value["used"] = limit.used.into();
    value["remaining"] = limit.capacity.saturating_sub(limit.used).into();
    value["dropped_debt"] = limit.dropped_debt.into();
    value["reset_ms"] = limit.reset.map(|reset| millis(reset.since(now))).into();
    value["waiting"] = limit.waiting.into();
    value
}
