//! The config as a JSON schema, by which editors complete keys and mark mistakes.
//!
//! The names of keys are the parser's own tables, so none is missing here that is read there; only what stands behind a
//! name is said here. Every kind of value has examples, and the tests give each of them to the parser.

use serde_json::{Map, Value, json};

use super::keys::{
    ADAPTIVE, ALERTS, AUTH, BACKOFF, BREAKER, LEVEL, LOOP_TYPE, PROFILE, PROFILE_ERROR, PROFILE_HEADER,
    QUEUE, RAMP, RATE, RETRY, SERVICE, STATE, TOKEN, TOP,
};
use super::profile::{gives, zero_limits};
use crate::config::presets;
use crate::config::{Adaptation, Unread};
use crate::model::growth::Growth;
use crate::model::priority::Priority;
use crate::vendors;
use crate::vendors::reset::ResetForm;
use crate::vendors::verdict::Verdict;

/// A JSON schema (draft 7, which the TOML extensions of editors read) of a `tidegate.toml`.
#[must_use]
pub fn schema() -> Value {
    let mut schema = object(TOP, top);
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = "tidegate.toml".into();
    schema
}

fn top(key: &str) -> Value {
    match key {
        "listen" => about(text("127.0.0.1:8429"), "Where the sidecar listens."),
        "listen_unix" => about(text("/run/tidegate.sock"), "A Unix socket that the sidecar also listens on."),
        "auth" => {
            about(object(AUTH, |_| named(object_with(TOKEN, token, &["sha256"]))), "Who may use the sidecar.")
        }
        "permit_lease" => about(duration(), "How long a permit lasts that nobody renews."),
        "buffer_memory" => about(size(), "How many bytes the bodies of requests and replies may take."),
        "state" => about(object(STATE, state), "Where state is kept."),
        "global" => about(level(&[], |_| Value::Null), "Limits over all calls."),
        "loops" => about(level(&[], |_| Value::Null), "What each single loop may spend."),
        "services" => about(named(level(SERVICE, service)), "The services, by name."),
        "loop_types" => about(named(level(LOOP_TYPE, loop_type)), "Loop types, by name."),
        "alerts" => {
            about(object(ALERTS, alert), "When to raise an alert, and where to send it. Has no effect yet.")
        }
        "profiles" => about(named(object(PROFILE, profile)), "How an upstream writes its replies."),
        "simulation" => json!({ "type": "object", "description": "Read by `tidegate simulate`." }),
        _ => Value::Null,
    }
}

fn token(key: &str) -> Value {
    match key {
        "sha256" => {
            json!({ "type": "string", "pattern": "^([0-9a-fA-F]{64}|.*\\$\\{.+\\}.*)$", "examples": ["0".repeat(64)] })
        }
        "priorities" => list(&choice(Priority::ALL.map(Priority::name))),
        "services" => list(&json!({ "type": "string", "examples": ["openai"] })),
        "admin" => flag(),
        _ => Value::Null,
    }
}

fn alert(key: &str) -> Value {
    match key {
        "approaching" => share(),
        "webhook" => text("http://127.0.0.1:9000/hook"),
        _ => Value::Null,
    }
}

fn service(key: &str) -> Value {
    match key {
        "preset" => choice(presets::all().map(|preset| preset.name).chain([presets::NONE])),
        "tier" => json!({ "type": "string" }),
        "profile" => text("openai"),
        "upstream" => text("http://127.0.0.1:9000"),
        "api_key_env" => text("OPENAI_API_KEY"),
        "endpoints" | "models" => {
            let mut levels = named(level(&[], |_| Value::Null));
            levels["examples"] = json!([{}]);
            levels
        }
        "per_key" | "failures_count" => flag(),
        "mode" => choice(["enforce", "observe"]),
        "headers" => choice(["follow", "authoritative", "ignore"]),
        "settle" => choice(["refund", "keep"]),
        "unread" => choice(Unread::NAMES.map(|(name, _)| name)),
        "retry" => object(RETRY, retry),
        "breaker" => object(BREAKER, breaker),
        "backoff" => {
            object(BACKOFF, |key| if key == "byte_penalty_multiplier" { count() } else { duration() })
        }
        "queue" => object(QUEUE, queue),
        "ramp" => object(RAMP, |key| if key == "from" { share() } else { duration() }),
        _ => Value::Null,
    }
}

fn loop_type(key: &str) -> Value {
    match key {
        "priority" => choice(Priority::ALL.map(Priority::name)),
        "weight" => json!({ "type": ["number", "string"], "exclusiveMinimum": 0, "examples": [4] }),
        _ => Value::Null,
    }
}

fn retry(key: &str) -> Value {
    match key {
        "max_retries" => count(),
        "backoff" => choice(Growth::NAMES.map(|(name, _)| name)),
        "initial" | "max" | "max_elapsed" => duration(),
        "jitter" | "budget" => share(),
        "jitter_kind" => choice(["symmetric", "factor", "additive", "full"]),
        _ => Value::Null,
    }
}

fn breaker(key: &str) -> Value {
    match key {
        "failures" | "min_calls" | "probes" => count(),
        "failure_rate" | "slow_rate" => share(),
        "slow_after" | "window" | "open_for" | "max_open" => duration(),
        "count_rate_limits" => flag(),
        "per" => choice(["service", "endpoint"]),
        "queued" => choice(["wait", "fail"]),
        _ => Value::Null,
    }
}

fn queue(key: &str) -> Value {
    match key {
        "timeout" | "aging" => duration(),
        "max_waiting" => count(),
        "aging_share" => share(),
        _ => Value::Null,
    }
}

fn profile(key: &str) -> Value {
    match key {
        "base" => choice(vendors::all().map(|vendor| vendor.name)),
        "signs" => list(&json!({ "type": "string", "examples": ["x-example-*"] })),
        "reset" => choice(ResetForm::NAMES.map(|(name, _)| name)),
        "reset_margin" => duration(),
        "windows" => named(duration()),
        "zero_limit" => choice(zero_limits()),
        "hint_on_success_refuses" => flag(),
        "headers" => list(&object_with(PROFILE_HEADER, profile_header, &["header", "gives"])),
        "errors" => list(&object_with(PROFILE_ERROR, profile_error, &["verdict"])),
        _ => Value::Null,
    }
}

fn profile_header(key: &str) -> Value {
    match key {
        "header" => text("x-credits-left"),
        "gives" => choice(gives()),
        "kind" | "name" => text("credits"),
        "window" => duration(),
        _ => Value::Null,
    }
}

fn profile_error(key: &str) -> Value {
    match key {
        "status" => {
            json!({ "type": ["integer", "string"], "minimum": 100, "maximum": 599, "examples": [403] })
        }
        "code" | "phrase" => text("gone"),
        "verdict" => choice(Verdict::ALL.map(Verdict::name)),
        _ => Value::Null,
    }
}

/// A level of limits, with what it has besides. Any other key is a unit of one's own, and a rate.
fn level(others: &[&str], other: fn(&str) -> Value) -> Value {
    let mut level = object(LEVEL, |key| match key {
        "concurrency" => slots(),
        "throttled_concurrency" => count(),
        "byte_budget" => size(),
        "reserve" => reserve(),
        _ => rates(),
    });
    if let Value::Object(properties) = object(others, other)["properties"].take()
        && let Value::Object(held) = &mut level["properties"]
    {
        held.extend(properties);
    }
    level["additionalProperties"] = rates();
    level
}

/// So many calls in flight, or as many as the upstream copes with.
fn slots() -> Value {
    let adapts = object_with(
        ADAPTIVE,
        |key| match key {
            "adaptive" => choice(Adaptation::NAMES.map(|(name, _)| name)),
            "latency" => duration(),
            _ => count(),
        },
        &["adaptive", "max"],
    );
    json!({ "anyOf": [count(), adapts], "examples": [3, { "adaptive": "gradient", "max": 100 }] })
}

/// One rate, or several that all hold.
fn rates() -> Value {
    let one = || {
        let detailed = object_with(
            RATE,
            |key| match key {
                "limit" => rate(),
                "algorithm" => choice(["sliding-window", "token-bucket", "fixed-window"]),
                "burst" => json!({ "type": ["number", "string"], "examples": [10] }),
                "reserve" => reserve(),
                _ => Value::Null,
            },
            &["limit"],
        );
        [rate(), detailed]
    };
    let several = json!({ "type": "array", "minItems": 1, "items": { "anyOf": one() } });
    let [plain, detailed] = one();
    json!({ "anyOf": [plain, detailed, several], "examples": ["500/min", ["500/min", "10k/day"], { "limit": "500/min" }] })
}

fn rate() -> Value {
    json!({ "type": "string", "pattern": "/|\\$\\{", "examples": ["500/min"] })
}

fn reserve() -> Value {
    object(&Priority::ALL.map(Priority::name), |_| json!({ "type": ["number", "string"], "examples": [0.1] }))
}

/// A table whose keys are these and no others. A key that nothing is known of is a mistake of ours, which a test finds.
fn object(keys: &[&str], of: impl Fn(&str) -> Value) -> Value {
    let properties: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), of(key))).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn object_with(keys: &[&str], of: impl Fn(&str) -> Value, required: &[&str]) -> Value {
    let mut object = object(keys, of);
    object["required"] = required.into();
    object
}

/// A table of things by names of one's own.
fn named(of: Value) -> Value {
    json!({ "type": "object", "additionalProperties": of })
}

fn list(of: &Value) -> Value {
    json!({ "type": "array", "items": of })
}

fn state(key: &str) -> Value {
    match key {
        "on_failure" => about(choice(["memory", "refuse"]), "What to do while state cannot be written."),
        "redis" => about(json!({ "not": {} }), "One quota for a fleet. Not supported yet."),
        _ => about(text("~/.local/state/tidegate"), "The folder of the state file."),
    }
}

fn choice<'n>(names: impl IntoIterator<Item = &'n str>) -> Value {
    let names: Vec<&str> = names.into_iter().collect();
    // A variable may stand in the place of any text.
    json!({ "anyOf": [{ "enum": names }, { "type": "string", "pattern": "\\$\\{.+\\}" }], "examples": names })
}

fn text(example: &str) -> Value {
    json!({ "type": "string", "examples": [example] })
}

fn flag() -> Value {
    json!({ "type": "boolean", "examples": [true] })
}

fn count() -> Value {
    json!({ "type": ["integer", "string"], "minimum": 0, "examples": [3, "3"] })
}

fn size() -> Value {
    json!({ "type": ["integer", "string"], "minimum": 0, "examples": ["5MB", 5000] })
}

fn duration() -> Value {
    json!({ "anyOf": [{ "type": "string" }, { "const": 0 }], "examples": ["30s", "250ms"] })
}

fn share() -> Value {
    json!({ "type": ["number", "string"], "minimum": 0, "maximum": 1, "examples": [0.1] })
}

fn about(mut of: Value, words: &str) -> Value {
    of["description"] = words.into();
    of
}

#[cfg(test)]
mod tests;
