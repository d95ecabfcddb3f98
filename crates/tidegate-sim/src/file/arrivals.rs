//! `arrivals = { … }`: when calls come.

use std::time::Duration;

use tidegate_core::Dimension;
use tidegate_core::config::Field;

use super::reader::Reader;
use super::trace;
use crate::scenario::{Arrivals, TracedCall};
use crate::spread::Spread;

const KINDS: &[&str] = &["closed", "poisson", "burst", "trace"];
const EXAMPLE: &str = "write { poisson = \"60/min\" }, { closed = 5, think = \"1s\" }, \
                       { burst = 500, every = \"60s\" } or { trace = \"calls.csv\" }";

/// Between a reply and the next call of a worker, if nothing is said.
const THINK: Duration = Duration::from_millis(100);

/// Reads when the calls of a workload come.
pub(super) fn read(
    reader: &mut Reader<'_, '_>,
    section: &Field<'_>,
    dimensions: &[Dimension],
) -> Option<Arrivals> {
    if !section.is_table() {
        reader.walk.fault(section.at, "`arrivals` must be a table", EXAMPLE.to_owned());
        return None;
    }
    let fields = reader.walk.table(section);
    let mut kinds = fields.iter().filter(|field| KINDS.contains(&field.name));
    let Some(kind) = kinds.next() else {
        match fields.first() {
            Some(field) => reader.walk.no_such_key(field, &section.path, KINDS),
            None => reader.walk.fault(section.at, "this does not say when calls come", EXAMPLE.to_owned()),
        }
        return None;
    };
    for other in kinds {
        let message = format!("calls come by `{}` or by `{}`, not by both", kind.name, other.name);
        reader.walk.fault(other.key_at, message, "write a workload for each".to_owned());
    }
    let known: &[&str] = match kind.name {
        "closed" => &["closed", "think", "calls"],
        "burst" => &["burst", "every"],
        "poisson" => &["poisson"],
        _ => &["trace"],
    };
    for field in fields.iter().filter(|field| !known.contains(&field.name) && !KINDS.contains(&field.name)) {
        reader.walk.no_such_key(field, &section.path, known);
    }
    let named = |name: &str| fields.iter().find(|field| field.name == name);
    Some(match kind.name {
        "closed" => {
            let workers = reader.some_crowd(kind);
            let think = named("think").map_or(Some(Spread::span(THINK)), |field| reader.times(field));
            let calls = named("calls").and_then(|field| reader.some(field));
            Arrivals::Closed { workers: workers?, think: think?, calls }
        }
        "burst" => {
            let size = reader.some_crowd(kind);
            reader.walk.must_have(section, &fields, "every", "every = \"60s\"");
            let every = named("every").and_then(|field| reader.some_time(field));
            Arrivals::Bursts { every: every?, size: size? }
        }
        "poisson" => Arrivals::Poisson(reader.walk.rate_of(kind, &Dimension::Requests)?),
        _ => Arrivals::Trace(trace(reader, kind, dimensions)?),
    })
}

fn trace(
    reader: &mut Reader<'_, '_>,
    field: &Field<'_>,
    dimensions: &[Dimension],
) -> Option<Vec<TracedCall>> {
    let name = reader.walk.string(field)?;
    match trace::load(&reader.dir.join(&name), dimensions) {
        Ok(calls) => Some(calls),
        Err(trace::TraceError::Unreadable(cause)) => {
            let hint = "a trace is looked for in the folder of this file".to_owned();
            reader.walk.fault(field.at, format!("cannot read the trace `{name}`: {cause}"), hint);
            None
        }
        Err(trace::TraceError::Wrong(lines)) => {
            for (line, message) in lines {
                reader.walk.fault(field.at, format!("{name}, line {line}: {message}"), None);
            }
            None
        }
    }
}
