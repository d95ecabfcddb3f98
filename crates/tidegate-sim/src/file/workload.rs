//! `[[simulation.workload]]`: which callers there are, how often they call, and what a call costs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_core::config::{Field, Limits};
use tidegate_core::{Config, Dimension, Priority};

use super::arrivals;
use super::reader::{MOST, Reader};
use crate::scenario::{Arrivals, UpstreamSpec, Workload};
use crate::spread::Spread;

const WORKLOAD: &[&str] = &[
    "name",
    "service",
    "arrivals",
    "loops",
    "loop_type",
    "priority",
    "models",
    "endpoint",
    "key",
    "max_tokens",
    "unknown_output",
    "estimate",
    "estimated",
    "timeout",
    "cancel",
    "patience",
    "repeatable",
    "from",
    "until",
];

/// What workloads refer to.
struct Known<'u> {
    duration: Duration,
    /// What a call may cost.
    dimensions: Vec<Dimension>,
    upstreams: &'u BTreeMap<String, UpstreamSpec>,
}

/// Reads all workloads of a simulation.
pub(super) fn read(
    reader: &mut Reader<'_, '_>,
    section: &Field<'_>,
    duration: Duration,
    upstreams: &BTreeMap<String, UpstreamSpec>,
) -> Vec<Workload> {
    let mut workloads: Vec<Workload> = Vec::new();
    let known = Known { duration, dimensions: dimensions(reader.config), upstreams };
    for item in reader.walk.items(section, "[[simulation.workload]], with its keys below") {
        let Some(fields) = reader.walk.item_table(&item, "[[simulation.workload]], with its keys below")
        else {
            continue;
        };
        let number = workloads.len() + 1;
        if let Some(workload) = workload(reader, &item, &fields, &known, number) {
            if workloads.iter().any(|other| other.name == workload.name) {
                let at = fields.iter().find(|field| field.name == "name").map_or(item.at, |field| field.at);
                let message = format!("there are two workloads named `{}`", workload.name);
                reader.walk.fault(at, message, "reports tell them apart by name".to_owned());
            }
            workloads.push(workload);
        }
    }
    workloads
}

fn workload(
    reader: &mut Reader<'_, '_>,
    section: &Field<'_>,
    fields: &[Field<'_>],
    known: &Known<'_>,
    number: usize,
) -> Option<Workload> {
    let named = |name: &str| fields.iter().find(|field| field.name == name);
    let dimensions = known.dimensions.as_slice();
    let service = called_service(reader, section, named("service"));
    reader.walk.must_have(section, fields, "arrivals", "arrivals = { poisson = \"60/min\" }");
    let arrivals = named("arrivals").and_then(|field| arrivals::read(reader, field, dimensions));

    let mut workload = Workload::new("", "", Arrivals::Trace(Vec::new()));
    workload.name = format!("workload {number}");
    for field in fields {
        match field.name {
            "service" | "arrivals" | "from" | "until" => {}
            "name" => workload.name = reader.walk.string(field).unwrap_or_default(),
            "endpoint" => workload.endpoint = endpoint(reader, field),
            "models" => workload.models = models(reader, field),
            "key" => workload.key = reader.walk.string(field),
            "loops" => workload.loops = reader.crowd(field).unwrap_or_default(),
            "loop_type" => workload.loop_type = reader.walk.string(field),
            "priority" => {
                workload.priority =
                    reader.walk.choice(field, &Priority::ALL.map(|priority| (priority.name(), priority)));
            }
            "max_tokens" => workload.max_tokens = reader.some(field),
            "unknown_output" => workload.unknown_output = reader.walk.flag(field).unwrap_or_default(),
            "estimate" => workload.estimate = reader.per_cent(field).unwrap_or(workload.estimate),
            "estimated" => workload.estimated = reader.walk.flag(field).unwrap_or_default(),
            "timeout" => workload.timeout = reader.walk.duration(field),
            "cancel" => workload.cancel = reader.share(field).unwrap_or_default(),
            "patience" => workload.patience = reader.times(field).unwrap_or(Spread::ZERO),
            "repeatable" => workload.repeatable = reader.walk.flag(field).unwrap_or(true),
            unit => match dimensions.iter().find(|dimension| dimension.name() == unit) {
                Some(dimension) => {
                    let cost = reader.units(field, dimension);
                    workload.cost.extend(cost.map(|cost| (dimension.clone(), cost)));
                }
                None => {
                    let known: Vec<&str> =
                        WORKLOAD.iter().copied().chain(dimensions.iter().map(Dimension::name)).collect();
                    reader.walk.no_such_key(field, &section.path, &known);
                }
            },
        }
    }
    (workload.from, workload.until) = reader.span(named("from"), named("until"), known.duration);
    workload.service = service?;
    workload.arrivals = arrivals?;
    must_be_bearable(reader, named("arrivals").unwrap_or(section), &workload, known);
    if let Some(field) = named("unknown_output").filter(|_| workload.unknown_output) {
        must_have_output(reader, section, field, fields);
    }
    Some(workload)
}

/// Output that is not known needs to be something, and to have an end; and then tokens are the input and the output.
fn must_have_output(
    reader: &mut Reader<'_, '_>,
    section: &Field<'_>,
    unknown: &Field<'_>,
    fields: &[Field<'_>],
) {
    reader.walk.must_have(section, fields, "output_tokens", "output_tokens = { p50 = 400, p99 = 3000 }");
    reader.walk.must_have(section, fields, "max_tokens", "max_tokens = 4096");
    if fields.iter().any(|field| field.name == "tokens") {
        let hint = "write input_tokens and output_tokens instead of tokens".to_owned();
        reader.walk.fault(unknown.at, "`tokens` says how much the output will be", hint);
    }
}

/// The service that is called; where there is only one, it need not be named.
fn called_service(
    reader: &mut Reader<'_, '_>,
    section: &Field<'_>,
    field: Option<&Field<'_>>,
) -> Option<String> {
    let services: Vec<(&str, &str)> =
        reader.config.services.keys().map(|name| (name.as_str(), name.as_str())).collect();
    match (field, services.as_slice()) {
        (Some(field), services) => reader.walk.choice(field, services).map(str::to_owned),
        (None, [(only, _)]) => Some((*only).to_owned()),
        (None, _) => {
            let message = format!("{} does not say which service it calls", section.path);
            reader.walk.fault(
                section.at,
                message,
                "add service = \"openai\", or another of yours".to_owned(),
            );
            None
        }
    }
}

/// `"POST /v1/chat/completions"`
fn endpoint(reader: &mut Reader<'_, '_>, field: &Field<'_>) -> Option<String> {
    let endpoint = reader.walk.string(field)?;
    let fits = endpoint.split_once(' ').is_some_and(|(method, path)| {
        !method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase()) && path.starts_with('/')
    });
    if !fits {
        let hint = "write a method and a path, such as \"POST /v1/embeddings\"".to_owned();
        reader.walk.fault(field.at, "this is not an endpoint", hint);
        return None;
    }
    Some(endpoint)
}

/// `"gpt-4o"` or `{ "gpt-4o" = 3, "gpt-4o-mini" = 1 }`
fn models(reader: &mut Reader<'_, '_>, section: &Field<'_>) -> Vec<(String, f64)> {
    if !section.is_table() {
        return reader.walk.string(section).map(|model| (model, 1.0)).into_iter().collect();
    }
    let mut models = Vec::new();
    for field in reader.walk.table(section) {
        let Some(weight) = reader.walk.number(&field) else { continue };
        if weight.is_finite() && weight > 0.0 {
            models.push((field.name.to_owned(), weight));
        } else {
            let message = format!("a weight of {weight} is not above 0");
            reader.walk.fault(
                field.at,
                message,
                "write how often it is called compared with the others".to_owned(),
            );
        }
    }
    models
}

/// Workers are all there at once, and one that neither thinks nor waits would call for ever in one instant.
fn must_be_bearable(reader: &mut Reader<'_, '_>, field: &Field<'_>, workload: &Workload, known: &Known<'_>) {
    let Arrivals::Closed { workers, think, calls } = &workload.arrivals else { return };
    if workers.saturating_mul(workload.loops.max(1)) > 10 * MOST {
        let message = "all loops together have more workers than can be simulated";
        reader.walk.fault(field.at, message, format!("use up to {}", 10 * MOST));
    }
    if calls.is_some() {
        return;
    }
    let upstream = known.upstreams.get(&workload.service);
    if least(think) == 0 && upstream.is_none_or(|spec| least(&spec.latency) + least(&spec.jitter) == 0) {
        let message = "this workload neither thinks nor waits for a reply, so it would never end";
        reader.walk.fault(
            field.at,
            message,
            "add think = \"100ms\", or a latency to the upstream".to_owned(),
        );
    }
}

/// The smallest value that a spread draws.
fn least(spread: &Spread) -> u64 {
    match *spread {
        Spread::Exactly(value) | Spread::Between(value, _) | Spread::LogBetween(value, _) => value,
        Spread::Tailed { .. } => 1,
    }
}

/// Returns the units that a call may cost: those that tidegate knows, and those that a limit of the config declares.
fn dimensions(config: &Config) -> Vec<Dimension> {
    let mut all: BTreeSet<Dimension> =
        ["requests", "tokens", "input_tokens", "output_tokens", "bytes", "usd"]
            .map(Dimension::from_name)
            .into();
    let services = config.services.values();
    let levels = [&config.global, &config.loops].into_iter();
    let levels = levels.chain(config.loop_types.values().map(|loop_type| &loop_type.limits)).chain(
        services.flat_map(|service| {
            std::iter::once(&service.limits).chain(service.endpoints.values()).chain(service.models.values())
        }),
    );
    all.extend(levels.flat_map(|limits: &Limits| &limits.rates).map(|rate| rate.dimension.clone()));
    all.into_iter().collect()
}
