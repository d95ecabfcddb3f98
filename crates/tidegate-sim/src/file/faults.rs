//! `[simulation.faults]`: what goes wrong on our side.

use std::time::Duration;

use tidegate_core::config::units::{UnitError, parse_duration};
use tidegate_core::config::{Field, Kind};
use tidegate_core::{Dimension, Engine, Nanos};

use super::reader::Reader;
use crate::scenario::{ClockStep, Crash, Faults, LenderSpec, LiveChange, NewLimit, WindowByHand};
use crate::spread::Spread;

const FAULTS: &[&str] = &["crashes", "clock_steps", "lenders", "timer_late", "changes", "windows"];
const CRASH: &[&str] = &["at", "down"];
const CLOCK_STEP: &[&str] = &["at", "by"];
const LENDER: &[&str] = &["limit", "size", "delay", "fails", "forgets", "usable"];
const CHANGE: &[&str] = &["at", "limit", "to"];
const WINDOW: &[&str] = &["at", "key", "lasts"];

const STEP: Kind = Kind { name: "a step", example: "write it like \"30s\" or \"-30s\"" };

/// How long what is lent may be used, if nothing is said.
const USABLE: Duration = Duration::from_secs(10);

/// Reads what goes wrong in a simulation.
pub(super) fn read(reader: &mut Reader<'_, '_>, section: &Field<'_>, duration: Duration) -> Faults {
    let mut faults = Faults::default();
    for field in reader.walk.table(section) {
        match field.name {
            "crashes" => {
                for item in reader.walk.items(&field, "crashes = [{ at = \"3m\", down = \"5s\" }]") {
                    faults.crashes.extend(crash(reader, &item, duration));
                }
            }
            "clock_steps" => {
                for item in reader.walk.items(&field, "clock_steps = [{ at = \"4m\", by = \"-30s\" }]") {
                    faults.clock_steps.extend(clock_step(reader, &item, duration));
                }
            }
            "lenders" => {
                for item in
                    reader.walk.items(&field, "lenders = [{ limit = \"api/requests/1m\", size = 50 }]")
                {
                    faults.lenders.extend(lender(reader, &item));
                }
            }
            "timer_late" => faults.timer_late = reader.times(&field),
            "changes" => {
                let example = "changes = [{ at = \"5m\", limit = \"api/requests/1m\", to = \"300/min\" }]";
                for item in reader.walk.items(&field, example) {
                    faults.changes.extend(live_change(reader, &item, duration));
                }
            }
            "windows" => {
                let example = "windows = [{ at = \"2m\", key = \"api\", lasts = \"30s\" }]";
                for item in reader.walk.items(&field, example) {
                    faults.windows.extend(window(reader, &item, duration));
                }
            }
            _ => reader.walk.no_such_key(&field, &section.path, FAULTS),
        }
    }
    faults
}

fn crash(reader: &mut Reader<'_, '_>, section: &Field<'_>, duration: Duration) -> Option<Crash> {
    let fields = reader.item(section, CRASH, "{ at = \"3m\", down = \"5s\" }")?;
    let named = |name: &str| fields.iter().find(|field| field.name == name);
    reader.walk.must_have(section, &fields, "at", "at = \"3m\"");
    let at = named("at").and_then(|field| reader.within(field, duration));
    let down = named("down").map_or(Some(Duration::ZERO), |field| reader.walk.duration(field));
    Some(Crash { at: at?, down: down? })
}

fn clock_step(reader: &mut Reader<'_, '_>, section: &Field<'_>, duration: Duration) -> Option<ClockStep> {
    let fields = reader.item(section, CLOCK_STEP, "{ at = \"4m\", by = \"-30s\" }")?;
    let named = |name: &str| fields.iter().find(|field| field.name == name);
    reader.walk.must_have(section, &fields, "at", "at = \"4m\"");
    reader.walk.must_have(section, &fields, "by", "by = \"-30s\"");
    let at = named("at").and_then(|field| reader.within(field, duration));
    let by = named("by").and_then(|field| reader.walk.parse(field, &STEP, signed_ms));
    Some(ClockStep { at: at?, by_ms: by? })
}

fn lender(reader: &mut Reader<'_, '_>, section: &Field<'_>) -> Option<LenderSpec> {
    let fields = reader.item(section, LENDER, "{ limit = \"api/requests/1m\", size = 50 }")?;
    let named = |name: &str| fields.iter().find(|field| field.name == name);
    reader.walk.must_have(section, &fields, "limit", "limit = \"api/requests/1m\"");
    reader.walk.must_have(section, &fields, "size", "size = 50");
    let limit = named("limit").and_then(|field| limit_name(reader, field));
    let size = named("size").and_then(|field| reader.some(field));
    let delay = named("delay").map_or(Some(Spread::ZERO), |field| reader.times(field));
    let fails = named("fails").map_or(Some(0.0), |field| reader.share(field));
    let forgets = named("forgets").map_or(Some(0.0), |field| reader.share(field));
    let usable = named("usable").map_or(Some(USABLE), |field| reader.some_time(field));
    let (limit, size, delay) = (limit?, size?, delay?);
    Some(LenderSpec { limit, size, delay, fails: fails?, forgets: forgets?, usable: usable? })
}

fn live_change(reader: &mut Reader<'_, '_>, section: &Field<'_>, duration: Duration) -> Option<LiveChange> {
    let example = "{ at = \"5m\", limit = \"api/requests/1m\", to = \"300/min\" }";
    let fields = reader.item(section, CHANGE, example)?;
    let named = |name: &str| fields.iter().find(|field| field.name == name);
    for (key, example) in
        [("at", "at = \"5m\""), ("limit", "limit = \"api/requests/1m\""), ("to", "to = \"300/min\"")]
    {
        reader.walk.must_have(section, &fields, key, example);
    }
    let at = named("at").and_then(|field| reader.within(field, duration));
    let limit = named("limit").and_then(|field| limit_name(reader, field))?;
    let to = named("to").and_then(|field| {
        let mut parts = limit.rsplit('/');
        match parts.next() {
            Some("concurrency") => reader.some(field).map(NewLimit::InFlight),
            Some("byte_budget") => reader.walk.size(field).map(NewLimit::InFlight),
            _ => {
                let dimension = Dimension::from_name(parts.next().unwrap_or_default());
                reader.walk.rate_of(field, &dimension).map(NewLimit::Rate)
            }
        }
    });
    Some(LiveChange { at: at?, limit, to: to? })
}

/// A window that is opened for so long, or ended if it is not said how long.
fn window(reader: &mut Reader<'_, '_>, section: &Field<'_>, duration: Duration) -> Option<WindowByHand> {
    let fields = reader.item(section, WINDOW, "{ at = \"2m\", key = \"api\", lasts = \"30s\" }")?;
    let named = |name: &str| fields.iter().find(|field| field.name == name);
    reader.walk.must_have(section, &fields, "at", "at = \"2m\"");
    reader.walk.must_have(section, &fields, "key", "key = \"api\"");
    let at = named("at").and_then(|field| reader.within(field, duration));
    let key = named("key").and_then(|field| window_key(reader, field));
    let lasts = match named("lasts") {
        Some(field) => Some(reader.walk.duration(field)?),
        None => None,
    };
    Some(WindowByHand { at: at?, key: key?, lasts })
}

/// What has a backoff window: a limit, or a level.
fn window_key(reader: &mut Reader<'_, '_>, field: &Field<'_>) -> Option<String> {
    let key = reader.walk.string(field)?;
    let Ok(mut engine) = Engine::new(reader.config, Nanos::ZERO, Duration::ZERO) else { return Some(key) };
    if engine.set_backoff(&key, Duration::ZERO, Nanos::ZERO).is_err() {
        let hint = "name a limit, a service, a model (\"api/model:gpt-4o\") or \"global\"".to_owned();
        reader.walk.fault(field.at, format!("nothing is called `{key}`"), hint);
        return None;
    }
    Some(key)
}

/// The name of a limit that is in force. Those of single loops and keys come and go, and are not known yet.
fn limit_name(reader: &mut Reader<'_, '_>, field: &Field<'_>) -> Option<String> {
    let name = reader.walk.string(field)?;
    let comes_and_goes = name.starts_with("loop:") || name.contains("/key:");
    // A config with mistakes has no engine; those are told anyway.
    let Ok(mut engine) = Engine::new(reader.config, Nanos::ZERO, Duration::ZERO) else { return Some(name) };
    let limits = engine.limits(Nanos::ZERO);
    let names: Vec<(&str, ())> = limits.iter().map(|limit| (&*limit.name, ())).collect();
    if !comes_and_goes {
        reader.walk.choice(field, &names)?;
    }
    Some(name)
}

/// Milliseconds, forwards or backwards.
fn signed_ms(text: &str) -> Result<i64, UnitError> {
    let (sign, span) = match text.trim().strip_prefix('-') {
        Some(span) => (-1, span),
        None => (1, text.trim().trim_start_matches('+')),
    };
    let ms = i64::try_from(parse_duration(span)?.as_millis()).unwrap_or(i64::MAX);
    if ms == 0 { Err(UnitError::new(format!("`{text}` is no step"))) } else { Ok(sign * ms) }
}
