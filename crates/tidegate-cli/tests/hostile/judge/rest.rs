//! What the sidecar may have used, and what it may still hold when nothing goes on any more.

use serde_json::Value;

/// What a process may use beyond `buffer_memory` and what it has when it is idle, in MiB.
const BESIDE: u64 = 64;
/// The longest wait that a report may cause where the windows of the service are shorter, in milliseconds.
const LONGEST_WAIT: u64 = 3_600_000;
/// The most debt that a report may leave, in multiples of N.
const DEBT: u64 = 4;

/// Judges the most memory that a process had, in KiB, by what it had when it was idle and by `buffer_memory` in MiB.
pub fn memory(most: u64, idle: u64, buffer_memory: u64) -> Option<String> {
    let allowed = idle + (buffer_memory + BESIDE) * 1024;
    (most > allowed).then(|| format!("{most} KiB of memory where {allowed} are allowed ({idle} when idle)"))
}

/// What the sidecar says of itself, and the kernel of it.
pub struct Rest<'r> {
    pub status: &'r Value,
    pub limits: &'r Value,
    /// How many files are open, and how many may be.
    pub files: (usize, usize),
    /// Slots of calls that were in flight at a kill are held for a time.
    pub killed: bool,
    /// Whether absurd reports were made.
    pub abused: bool,
}

/// Returns what is still held.
pub fn held(Rest { status, limits, files: (files, most), killed, abused }: &Rest<'_>) -> Option<String> {
    for what in ["calls", "permits", "waiting", "buffered_bytes"] {
        if status[what].as_u64() != Some(0) {
            return Some(format!("{what} is {}", status[what]));
        }
    }
    let Some(all) = limits["limits"].as_array() else { return Some(format!("no limits: {limits}")) };
    for limit in all {
        let in_flight = limit["name"].as_str().is_some_and(|name| name.ends_with("concurrency")) && !killed;
        if limit["waiting"].as_u64() != Some(0) || (in_flight && limit["used"].as_u64() != Some(0)) {
            return Some(limit.to_string());
        }
    }
    if files > most {
        return Some(format!("{files} files are open where at most {most} may be"));
    }
    if *abused { absurd(status, all) } else { None }
}

/// What absurd reports have left behind beyond what they may.
fn absurd(status: &Value, limits: &[Value]) -> Option<String> {
    let windows = status["backoffs"].as_array().into_iter().flatten();
    let mut open = windows.filter(|window| window["open_for_ms"].as_u64().is_none_or(|ms| ms > LONGEST_WAIT));
    if let Some(window) = open.next() {
        return Some(format!("a window beyond all measure: {window}"));
    }
    let units = |limit: &Value, what: &str| limit[what].as_u64().unwrap_or(u64::MAX);
    // By the written N, where there is one: what is in force may be less.
    let owes = |limit: &&Value| units(limit, "used") > units(limit, "units").saturating_mul(1 + DEBT);
    limits.iter().find(owes).map(|limit| format!("a debt beyond all measure: {limit}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn memory_beyond_the_bound_is_found() {
        let allowed = 20_000 + (16 + 64) * 1024;
        assert_eq!(memory(allowed, 20_000, 16), None);
        assert!(memory(allowed + 1, 20_000, 16).is_some());
    }

    fn status() -> Value {
        json!({ "calls": 0, "permits": 0, "waiting": 0, "buffered_bytes": 0, "backoffs": [] })
    }

    fn limit() -> Value {
        json!({ "name": "api/concurrency", "used": 0, "waiting": 0, "units": 5 })
    }

    fn judged(status: &Value, limit: &Value, files: usize, killed: bool, abused: bool) -> Option<String> {
        let limits = json!({ "limits": [limit] });
        held(&Rest { status, limits: &limits, files: (files, 20), killed, abused })
    }

    #[test]
    fn what_is_still_held_is_found() {
        assert_eq!(judged(&status(), &limit(), 20, false, true), None);
        for what in ["calls", "permits", "waiting", "buffered_bytes"] {
            let mut holds = status();
            holds[what] = 1.into();
            assert!(judged(&holds, &limit(), 20, false, false).is_some(), "{what}");
            holds[what] = Value::Null;
            assert!(judged(&holds, &limit(), 20, false, false).is_some(), "no {what}");
        }
        for what in ["used", "waiting"] {
            let mut holds = limit();
            holds[what] = 1.into();
            assert!(judged(&status(), &holds, 20, false, false).is_some(), "{what}");
            assert_eq!(judged(&status(), &holds, 20, true, false).is_some(), what == "waiting", "{what}");
        }
        assert!(judged(&status(), &limit(), 21, false, false).is_some(), "files");
        assert!(judged(&status(), &json!({}), 20, false, false).is_some(), "a limit that says nothing");
    }

    #[test]
    fn what_absurd_reports_have_left_is_found() {
        let mut closed = status();
        closed["backoffs"] = json!([{ "key": "api", "open_for_ms": LONGEST_WAIT + 1 }]);
        assert!(judged(&closed, &limit(), 20, false, true).is_some());
        let owes = json!({ "name": "api/tokens/10s", "used": 5001, "waiting": 0, "units": 1000 });
        assert!(judged(&status(), &owes, 20, false, true).is_some());
    }
}
