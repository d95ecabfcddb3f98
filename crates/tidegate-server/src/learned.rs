//! What was learned of the upstream, as JSON: the same words in `/v1/limits`, `/v1/status`, `/v1/explain` and the events.

use serde_json::{Map, Value, json};
use tidegate::{Gate, LearnedLimit, Lesson};
use tidegate_core::engine::Slowed;
use tidegate_core::learn::Advice;

/// What was learned about a limit; what there is nothing to say of is left out.
pub(crate) fn of_limit(learned: &LearnedLimit) -> Value {
    let mut said = Map::new();
    said.insert("in_force".into(), learned.in_force.into());
    let mut say = |name: &str, value: Value, is_so: bool| {
        if is_so {
            said.insert(name.into(), value);
        }
    };
    say("algorithm", learned.algorithm.map(|how| how.name()).into(), learned.algorithm.is_some());
    say("pace", learned.pace.into(), learned.pace < 1.0);
    say("reply_ms", learned.latency.map(|most| most.as_secs_f64() * 1e3).into(), learned.latency.is_some());
    say("told", learned.told.into(), learned.told.is_some());
    say("bucket", learned.bucket.into(), learned.bucket.is_some());
    say("ceiling", learned.share.into(), learned.share < 1.0);
    say("others_per_second", learned.others.into(), learned.others > 0.0);
    say("jitter_ms", (learned.jitter.as_secs_f64() * 1e3).into(), !learned.jitter.is_zero());
    say("burst", learned.burst.into(), learned.burst > 0);
    said.into()
}

/// Every limit about which something was learned.
pub(crate) fn limits(gate: &Gate) -> Vec<Value> {
    let named = |learned: &LearnedLimit| {
        let mut said = of_limit(learned);
        said["limit"] = (*learned.limit).into();
        said
    };
    gate.learned().iter().map(named).collect()
}

/// What calls have for output, and what they could ask for instead of what they do. Not by endpoint: paths are shown
/// nowhere, since some APIs carry keys in them.
pub(crate) fn outputs(gate: &Gate) -> Vec<Value> {
    let outputs = gate.outputs();
    let one = |seen: tidegate_core::learn::Experience<'_>| {
        json!({
            "service": seen.service,
            "model": seen.model,
            "expected_output": seen.expected,
            "advice": advice(seen.advice),
        })
    };
    outputs.all().map(one).collect()
}

/// What `max_tokens` could be.
pub(crate) fn advice(advice: Option<Advice>) -> Value {
    advice.map_or(
        Value::Null,
        |Advice { asked, max_tokens }| json!({ "asked": asked, "max_tokens": max_tokens }),
    )
}

/// A lesson: which limit it is about, what is known now, and its words.
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
        // Every single unit, for those who keep books: nothing to be told of.
        _ => return None,
    })
}
