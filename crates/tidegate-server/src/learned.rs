//! What was learned about upstreams, as JSON. `/v1/limits`, `/v1/status`, `/v1/explain` and the events share these fields.

use serde_json::{Map, Value, json};
use tidegate::{Gate, LearnedLimit, Lesson};
use tidegate_core::Advice;
use tidegate_core::engine::Slowed;

/// Returns what was learned about a limit. Fields without a finding are left out.
pub(crate) fn of_limit(learned: &LearnedLimit) -> Value {
    let mut fields = Map::new();
    fields.insert("in_force".into(), learned.in_force.into());
    let mut add = |name: &str, value: Value, is_so: bool| {
        if is_so {
            fields.insert(name.into(), value);
        }
    };
    add("algorithm", learned.algorithm.map(|how| how.name()).into(), learned.algorithm.is_some());
    add("pace", learned.pace.into(), learned.pace < 1.0);
    add("reply_ms", learned.latency.map(|most| most.as_secs_f64() * 1e3).into(), learned.latency.is_some());
    add("told", learned.told.into(), learned.told.is_some());
    add("bucket", learned.bucket.into(), learned.bucket.is_some());
    add("ceiling", learned.share.into(), learned.share < 1.0);
    add("others_per_second", learned.others.into(), learned.others > 0.0);
    add("jitter_ms", (learned.jitter.as_secs_f64() * 1e3).into(), !learned.jitter.is_zero());
    add("burst", learned.burst.into(), learned.burst > 0);
    fields.into()
}

/// Returns all limits about which something was learned.
pub(crate) fn limits(gate: &Gate) -> Vec<Value> {
    let named = |learned: &LearnedLimit| {
        let mut fields = of_limit(learned);
        fields["limit"] = (*learned.limit).into();
        fields
    };
    gate.learned().iter().map(named).collect()
}

/// Returns the output that calls have by service and model, and the `max_tokens` that they could ask for. Endpoints are
/// left out, since some APIs carry keys in their paths.
pub(crate) fn outputs(gate: &Gate) -> Vec<Value> {
    let outputs = gate.outputs();
    let one = |seen: tidegate_core::Experience<'_>| {
        json!({
            "service": seen.service,
            "model": seen.model,
            "expected_output": seen.expected,
            "advice": advice(seen.advice),
        })
    };
    outputs.all().map(one).collect()
}

/// Returns the `max_tokens` that calls could ask for.
pub(crate) fn advice(advice: Option<Advice>) -> Value {
    advice.map_or(
        Value::Null,
        |Advice { asked, max_tokens }| json!({ "asked": asked, "max_tokens": max_tokens }),
    )
}

/// Returns a finding: its limit, its kind and the value known now.
pub(crate) fn lesson(lesson: &Lesson) -> Option<Value> {
    Some(match lesson {
        Lesson::Units { limit, told, in_force } => {
            json!({ "limit": **limit, "what": "units", "told": told, "in_force": in_force })
        }
        Lesson::Bucket { limit, size } => json!({ "limit": **limit, "what": "bucket", "bucket": size }),
        Lesson::Ceiling { limit, share } => json!({ "limit": **limit, "what": "ceiling", "ceiling": share }),
        Lesson::Others { limit, rate } => {
            json!({ "limit": **limit, "what": "others", "others_per_second": rate })
        }
        Lesson::Burst { limit, burst } => json!({ "limit": **limit, "what": "burst", "burst": burst }),
        Lesson::Pace { scope, pace, by } => {
            let by = match by {
                Slowed::Overload => "overload",
                _ => "idle",
            };
            json!({ "limit": **scope, "what": "pace", "pace": pace, "by": by })
        }
        Lesson::InFlight { limit, bound } => {
            json!({ "limit": **limit, "what": "in_flight", "in_flight": bound })
        }
        Lesson::Jitter { limit, apart } => {
            json!({ "limit": **limit, "what": "jitter", "jitter_ms": apart.as_secs_f64() * 1e3 })
        }
        // The other findings are about single units, for accounting only.
        _ => return None,
    })
}
