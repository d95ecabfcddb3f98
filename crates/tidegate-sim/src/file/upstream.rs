//! `[simulation.upstreams.<service>]`: what really limits.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::config::units::parse_units_of;
use tidegate_core::config::{Field, Kind, Limits};
use tidegate_core::{Algorithm, Dimension, Rate};

use super::reader::Reader;
use crate::scenario::{
    HeaderStyle, Model, Neighbour, Outage, Reserves, UpstreamChange, UpstreamLimit, UpstreamSpec,
};
use crate::spread::Spread;

const UPSTREAM: &[&str] = &[
    "limits",
    "headers",
    "refused_cost",
    "reserves",
    "jitter",
    "latency",
    "knee",
    "errors",
    "resets",
    "lost",
    "outages",
    "neighbours",
    "changes",
];
const LIMIT: &[&str] = &["requests", "tokens", "concurrency", "model", "burst", "hidden"];
const OUTAGE: &[&str] = &["at", "lasts"];
const NEIGHBOUR: &[&str] = &["requests", "tokens", "from", "until"];
const CHANGE: &[&str] = &["at", "limit", "to"];

const BURST: Kind = Kind { name: "a burst", example: "write it like 100 or \"10k\"" };

/// Where limits are those of the config.
const AS_CONFIGURED: &str = "as-configured";

/// Reads the upstreams of a simulation, by service.
pub(super) fn read(
    reader: &mut Reader<'_, '_>,
    section: &Field<'_>,
    duration: Duration,
) -> BTreeMap<String, UpstreamSpec> {
    let mut upstreams = BTreeMap::new();
    let services: Vec<&str> = reader.config.services.keys().map(String::as_str).collect();
    for field in reader.walk.table(section) {
        if !services.contains(&field.name) {
            reader.walk.no_such_key(&field, &section.path, &services);
        }
        upstreams.insert(field.name.to_owned(), upstream(reader, &field, duration));
    }
    upstreams
}

fn upstream(reader: &mut Reader<'_, '_>, section: &Field<'_>, duration: Duration) -> UpstreamSpec {
    let mut spec = UpstreamSpec::default();
    let fields = reader.walk.table(section);
    // Changes name limits by their place, wherever in the section these stand.
    if let Some(field) = fields.iter().find(|field| field.name == "limits") {
        spec.limits = upstream_limits(reader, section.name, field);
    }
    for field in &fields {
        match field.name {
            "limits" => {}
            "headers" => {
                spec.headers = reader.walk.choice(field, &HeaderStyle::NAMED).unwrap_or(spec.headers)
            }
            "refused_cost" => spec.refused_cost = reader.walk.flag(field).unwrap_or_default(),
            "reserves" => {
                spec.reserves = reader.walk.choice(field, &Reserves::NAMED).unwrap_or_default();
            }
            "jitter" => spec.jitter = reader.times(field).unwrap_or(spec.jitter),
            "latency" => spec.latency = reader.times(field).unwrap_or(spec.latency),
            "knee" => spec.knee = reader.walk.count(field).filter(|knee| *knee > 0),
            "errors" => spec.errors = reader.share(field).unwrap_or_default(),
            "resets" => spec.resets = reader.share(field).unwrap_or_default(),
            "lost" => spec.lost = reader.share(field).unwrap_or_default(),
            "outages" => {
                for item in reader.walk.items(field, "outages = [{ at = \"2m\", lasts = \"60s\" }]") {
                    spec.outages.extend(outage(reader, &item, duration));
                }
            }
            "neighbours" => {
                for item in reader.walk.items(field, "neighbours = [{ requests = \"180/min\" }]") {
                    spec.neighbours.extend(neighbour(reader, &item, duration));
                }
            }
            "changes" => {
                let example = "changes = [{ at = \"5m\", limit = 0, to = \"300/min\" }]";
                for item in reader.walk.items(field, example) {
                    spec.changes.extend(upstream_change(reader, &item, &spec.limits, duration));
                }
            }
            _ => reader.walk.no_such_key(field, &section.path, UPSTREAM),
        }
    }
    spec
}

fn upstream_limits(reader: &mut Reader<'_, '_>, service: &str, field: &Field<'_>) -> Vec<UpstreamLimit> {
    if field.is_text() {
        if reader.walk.choice(field, &[(AS_CONFIGURED, ())]).is_none() {
            return Vec::new();
        }
        let mirrored =
            reader.config.services.get(service).map(|found| mirror(&found.limits)).unwrap_or_default();
        if mirrored.is_empty() {
            let message = format!("`{service}` has no limits of its own that an upstream could have too");
            reader.walk.fault(field.at, message, "write limits = [{ requests = \"600/min\" }]".to_owned());
        }
        return mirrored;
    }
    let items = reader.walk.items(field, "limits = [{ requests = \"600/min\", model = \"fixed-window\" }]");
    items.iter().filter_map(|item| upstream_limit(reader, item)).collect()
}

/// `{ tokens = "200k/min", model = "token-bucket", burst = "200k", hidden = true }`
fn upstream_limit(reader: &mut Reader<'_, '_>, section: &Field<'_>) -> Option<UpstreamLimit> {
    let fields = reader.walk.item_table(section, "{ requests = \"600/min\", model = \"fixed-window\" }")?;
    let (mut model, mut burst, mut hidden, mut counted) = (None, None, false, None);
    let known = |name: &str| ["model", "burst", "hidden"].contains(&name);
    let mut units = fields.iter().filter(|field| !known(field.name));
    let dimension = units.next().map(|field| (field, Dimension::from_name(field.name)));
    for second in units {
        reader.walk.fault(second.key_at, "a limit counts one thing", "write a limit for each".to_owned());
    }
    if let Some((field, dimension)) = &dimension {
        counted = if field.name == "concurrency" {
            model = Some(Model::Concurrency);
            reader.some(field).and_then(in_flight)
        } else if field.is_text() {
            reader.walk.rate_of(field, dimension)
        } else {
            reader.walk.no_such_key(field, &section.path, LIMIT);
            None
        };
    } else {
        let message = "this limit counts nothing";
        reader.walk.fault(section.at, message, "add requests = \"600/min\" or concurrency = 20".to_owned());
    }
    for field in &fields {
        match field.name {
            "model" if model == Some(Model::Concurrency) => {
                let hint = "remove `model`".to_owned();
                reader.walk.fault(field.key_at, "calls in flight are counted in one way only", hint);
            }
            "model" => model = reader.walk.choice(field, &Model::NAMED),
            "hidden" => hidden = reader.walk.flag(field).unwrap_or_default(),
            _ => {}
        }
    }
    let model = model.unwrap_or(Model::FixedWindow);
    if let Some(field) = fields.iter().find(|field| field.name == "burst") {
        if !matches!(model, Model::TokenBucket | Model::Gcra) {
            let hint = "use model = \"token-bucket\" or \"gcra\", or remove `burst`".to_owned();
            reader.walk.fault(field.key_at, "only a bucket and a gcra have a burst", hint);
        }
        let dimension = dimension.as_ref().map_or(Dimension::Requests, |(_, dimension)| dimension.clone());
        burst = reader.walk.parse(field, &BURST, |text| parse_units_of(text, &dimension));
        if burst == Some(0) {
            reader.walk.fault(field.at, "a burst of 0 lets nothing pass", "use at least 1".to_owned());
        }
    }
    let dimension = dimension.map(|(_, dimension)| dimension).filter(|_| model != Model::Concurrency);
    let dimension = dimension.unwrap_or(Dimension::Requests);
    Some(UpstreamLimit { model, dimension, rate: counted?, burst, hidden })
}

fn outage(reader: &mut Reader<'_, '_>, section: &Field<'_>, duration: Duration) -> Option<Outage> {
    let fields = reader.walk.item_table(section, "{ at = \"2m\", lasts = \"60s\" }")?;
    let (mut at, mut lasts) = (None, None);
    for field in &fields {
        match field.name {
            "at" => at = reader.within(field, duration),
            "lasts" => lasts = reader.some_time(field),
            _ => reader.walk.no_such_key(field, &section.path, OUTAGE),
        }
    }
    reader.walk.must_have(section, &fields, "at", "at = \"2m\"");
    reader.walk.must_have(section, &fields, "lasts", "lasts = \"60s\"");
    Some(Outage { at: at?, lasts: lasts? })
}

fn neighbour(reader: &mut Reader<'_, '_>, section: &Field<'_>, duration: Duration) -> Option<Neighbour> {
    let fields = reader.walk.item_table(section, "{ requests = \"180/min\" }")?;
    let named = |name: &str| fields.iter().find(|field| field.name == name);
    for field in fields.iter().filter(|field| !NEIGHBOUR.contains(&field.name)) {
        reader.walk.no_such_key(field, &section.path, NEIGHBOUR);
    }
    reader.walk.must_have(section, &fields, "requests", "requests = \"180/min\"");
    let rate = named("requests").and_then(|field| reader.walk.rate_of(field, &Dimension::Requests));
    let tokens = named("tokens").and_then(|field| reader.units(field, &Dimension::Tokens));
    let (from, until) = reader.span(named("from"), named("until"), duration);
    Some(Neighbour { rate: rate?, from, until, tokens: tokens.unwrap_or(Spread::ZERO) })
}

fn upstream_change(
    reader: &mut Reader<'_, '_>,
    section: &Field<'_>,
    limits: &[UpstreamLimit],
    duration: Duration,
) -> Option<UpstreamChange> {
    let fields = reader.walk.item_table(section, "{ at = \"5m\", limit = 0, to = \"300/min\" }")?;
    let named = |name: &str| fields.iter().find(|field| field.name == name);
    for field in fields.iter().filter(|field| !CHANGE.contains(&field.name)) {
        reader.walk.no_such_key(field, &section.path, CHANGE);
    }
    reader.walk.must_have(section, &fields, "at", "at = \"5m\"");
    reader.walk.must_have(section, &fields, "to", "to = \"300/min\"");
    let at = named("at").and_then(|field| reader.within(field, duration));
    let index = named("limit").map_or(Some(0), |field| reader.walk.count(field))?;
    let limit = usize::try_from(index).ok().filter(|index| *index < limits.len());
    let Some(limit) = limit else {
        let place = named("limit").map_or(section.at, |field| field.at);
        let hint = match limits.len() {
            0 => "this upstream has none".to_owned(),
            count => format!("they are numbered from 0 to {}", count - 1),
        };
        reader.walk.fault(place, format!("there is no limit {index}"), hint);
        return None;
    };
    let rate = named("to").and_then(|field| match &limits[limit] {
        UpstreamLimit { model: Model::Concurrency, .. } => reader.some(field).and_then(in_flight),
        rated => reader.walk.rate_of(field, &rated.dimension),
    });
    Some(UpstreamChange { at: at?, limit, rate: rate? })
}

/// So many at the same time. The window means nothing.
fn in_flight(bound: u64) -> Option<Rate> {
    Rate::new(bound, Duration::from_secs(1)).ok()
}

/// What an upstream would count by whose limits the config states exactly.
fn mirror(limits: &Limits) -> Vec<UpstreamLimit> {
    let rates = limits.rates.iter().map(|limit| UpstreamLimit {
        model: match limit.counts_by() {
            Algorithm::SlidingWindow => Model::SlidingLog,
            Algorithm::TokenBucket => Model::TokenBucket,
            Algorithm::FixedWindow => Model::FixedWindow,
        },
        dimension: limit.dimension.clone(),
        rate: limit.rate,
        burst: limit.burst.filter(|_| limit.counts_by() == Algorithm::TokenBucket),
        hidden: false,
    });
    let slots = limits.concurrency.and_then(in_flight).map(|rate| UpstreamLimit {
        model: Model::Concurrency,
        dimension: Dimension::Requests,
        rate,
        burst: None,
        hidden: false,
    });
    rates.chain(slots).collect()
}
