//! Which keys stand where, and what to say about the others.

use super::walk::{Field, Walk};
use crate::config::hint::{did_you_mean, distance, quoted};

pub(super) const TOP: &[&str] = &[
    "listen",
    "listen_unix",
    "auth",
    "permit_lease",
    "buffer_memory",
    "state",
    "global",
    "services",
    "loop_types",
    "loops",
    "alerts",
    "profiles",
    "simulation",
];
pub(super) const STATE: &[&str] = &["path", "redis", "on_failure"];
pub(super) const AUTH: &[&str] = &["tokens"];
pub(super) const TOKEN: &[&str] = &["sha256", "priorities", "services", "admin"];
pub(super) const ALERTS: &[&str] = &["approaching", "webhook"];
pub(super) const RETRY: &[&str] =
    &["max_retries", "backoff", "initial", "max", "jitter", "jitter_kind", "max_elapsed", "budget"];
pub(super) const BREAKER: &[&str] = &[
    "failures",
    "failure_rate",
    "slow_rate",
    "slow_after",
    "window",
    "min_calls",
    "open_for",
    "max_open",
    "probes",
    "count_rate_limits",
    "per",
    "queued",
];
pub(super) const BACKOFF: &[&str] = &["window", "byte_penalty_multiplier", "max_wait"];
pub(super) const QUEUE: &[&str] = &["timeout", "max_waiting", "aging", "aging_share"];
pub(super) const RAMP: &[&str] = &["idle", "from", "over"];
/// What a concurrency that adapts has; `max` is at home elsewhere.
pub(super) const ADAPTIVE: &[&str] = &["adaptive", "min", "max", "latency"];
pub(super) const RATE: &[&str] = &["limit", "algorithm", "burst", "reserve"];
/// The keys of every level.
pub(super) const LEVEL: &[&str] = &[
    "requests",
    "tokens",
    "input_tokens",
    "output_tokens",
    "bytes",
    "usd",
    "concurrency",
    "throttled_concurrency",
    "byte_budget",
    "reserve",
];
/// What a service has beside the keys of a level.
pub(super) const SERVICE: &[&str] = &[
    "preset",
    "tier",
    "profile",
    "upstream",
    "api_key_env",
    "endpoints",
    "models",
    "per_key",
    "mode",
    "headers",
    "settle",
    "unread",
    "retry",
    "breaker",
    "backoff",
    "failures_count",
    "queue",
    "ramp",
];
/// What a loop type has beside the keys of a level.
pub(super) const LOOP_TYPE: &[&str] = &["priority", "weight"];

pub(super) const PROFILE: &[&str] = &[
    "base",
    "signs",
    "reset",
    "reset_margin",
    "windows",
    "zero_limit",
    "hint_on_success_refuses",
    "headers",
    "errors",
];
pub(super) const PROFILE_HEADER: &[&str] = &["header", "gives", "kind", "window", "name"];
pub(super) const PROFILE_ERROR: &[&str] = &["status", "code", "phrase", "verdict"];

/// Where a key of each list belongs, in words. Those of profiles are left out: `errors` or `status` elsewhere
/// is more likely a custom unit than a key that lost its way.
const HOMES: &[(&[&str], &str)] = &[
    (TOP, "at the top of the file"),
    (LEVEL, "in [global], [loops], a service, an endpoint, a model or a loop type"),
    (SERVICE, "in [services.<name>]"),
    (LOOP_TYPE, "in [loop_types.<name>]"),
    (STATE, "in [state]"),
    (ALERTS, "in [alerts]"),
    (AUTH, "in [auth]"),
    (TOKEN, "in [auth.tokens.<name>]"),
    (RETRY, "in [services.<name>.retry]"),
    (BREAKER, "in [services.<name>.breaker]"),
    (BACKOFF, "in [services.<name>.backoff]"),
    (QUEUE, "in [services.<name>.queue]"),
    (RAMP, "in [services.<name>.ramp]"),
    (RATE, "in a limit's own table, such as tokens = { limit = \"200k/min\", burst = \"10k\" }"),
];

/// Where a key belongs, if it is known anywhere.
fn home(name: &str) -> Option<String> {
    let (_, place) = HOMES.iter().find(|(keys, _)| keys.contains(&name))?;
    Some(format!("`{name}` belongs {place}"))
}

/// Whether a key is known anywhere in the file, and so never the name of a custom unit.
pub(super) fn is_known_somewhere(name: &str) -> bool {
    HOMES.iter().any(|(keys, _)| keys.contains(&name))
}

/// Whether a key is so near a known one that it is a slip and not a name of its own.
pub(super) fn is_a_slip(name: &str, known: &[&str]) -> bool {
    known.iter().any(|known| distance(name, known) <= 2)
}

impl Walk<'_> {
    /// Reports a key that has no place here; `or_else` is what to say when no known key is near.
    pub(super) fn unknown_key(
        &mut self,
        field: &Field<'_>,
        section: &str,
        known: &[&str],
        or_else: Option<String>,
    ) {
        let hint = home(field.name).or_else(|| did_you_mean(field.name, known.iter().copied())).or(or_else);
        self.no_place_for(field, section, known, hint);
    }

    /// Reports a key that is none of the `known` ones of its section.
    pub fn no_such_key(&mut self, field: &Field<'_>, section: &str, known: &[&str]) {
        self.no_place_for(field, section, known, did_you_mean(field.name, known.iter().copied()));
    }

    fn no_place_for(&mut self, field: &Field<'_>, section: &str, known: &[&str], hint: Option<String>) {
        let place = if section.is_empty() { String::new() } else { format!(" in [{section}]") };
        let hint = hint.unwrap_or_else(|| format!("the keys here are {}", known.join(", ")));
        self.fault(field.key_at, format!("unknown key {}{place}", quoted(field.name)), hint);
    }
}
