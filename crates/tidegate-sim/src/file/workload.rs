//! `[[simulation.workload]]`: who calls, how often, and what a call costs.

use tidegate_core::config::Field;
use tidegate_core::{Dimension, Priority};

use super::{MOST, Part, Reader};
use crate::scenario::{Arrivals, Workload};
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

impl Reader<'_, '_> {
    pub fn workloads(&mut self, section: &Field<'_>, part: &Part) -> Vec<Workload> {
        let mut workloads: Vec<Workload> = Vec::new();
        let dimensions = self.dimensions();
        for item in self.walk.items(section, "[[simulation.workload]], with its keys below") {
            let Some(fields) = self.walk.item_table(&item, "[[simulation.workload]], with its keys below")
            else {
                continue;
            };
            let number = workloads.len() + 1;
            if let Some(workload) = self.workload(&item, &fields, &dimensions, part, number) {
                if workloads.iter().any(|other| other.name == workload.name) {
                    let at =
                        fields.iter().find(|field| field.name == "name").map_or(item.at, |field| field.at);
                    let message = format!("there are two workloads named `{}`", workload.name);
                    self.walk.fault(at, message, "reports tell them apart by name".to_owned());
                }
                workloads.push(workload);
            }
        }
        workloads
    }

    fn workload(
        &mut self,
        section: &Field<'_>,
        fields: &[Field<'_>],
        dimensions: &[Dimension],
        part: &Part,
        number: usize,
    ) -> Option<Workload> {
        let named = |name: &str| fields.iter().find(|field| field.name == name);
        let service = self.called_service(section, named("service"));
        self.walk.must_have(section, fields, "arrivals", "arrivals = { poisson = \"60/min\" }");
        let arrivals = named("arrivals").and_then(|field| self.arrivals(field, dimensions));

        let mut workload = Workload::new("", "", Arrivals::Trace(Vec::new()));
        workload.name = format!("workload {number}");
        for field in fields {
            match field.name {
                "service" | "arrivals" | "from" | "until" => {}
                "name" => workload.name = self.walk.string(field).unwrap_or_default(),
                "endpoint" => workload.endpoint = self.endpoint(field),
                "models" => workload.models = self.models(field),
                "key" => workload.key = self.walk.string(field),
                "loops" => workload.loops = self.crowd(field).unwrap_or_default(),
                "loop_type" => workload.loop_type = self.walk.string(field),
                "priority" => {
                    workload.priority =
                        self.walk.choice(field, &Priority::ALL.map(|priority| (priority.name(), priority)));
                }
                "max_tokens" => workload.max_tokens = self.some(field),
                "unknown_output" => workload.unknown_output = self.walk.flag(field).unwrap_or_default(),
                "estimate" => workload.estimate = self.per_cent(field).unwrap_or(workload.estimate),
                "estimated" => workload.estimated = self.walk.flag(field).unwrap_or_default(),
                "timeout" => workload.timeout = self.walk.duration(field),
                "cancel" => workload.cancel = self.share(field).unwrap_or_default(),
                "patience" => workload.patience = self.times(field).unwrap_or(Spread::ZERO),
                "repeatable" => workload.repeatable = self.walk.flag(field).unwrap_or(true),
                unit => match dimensions.iter().find(|dimension| dimension.name() == unit) {
                    Some(dimension) => {
                        let cost = self.units(field, dimension);
                        workload.cost.extend(cost.map(|cost| (dimension.clone(), cost)));
                    }
                    None => {
                        let known: Vec<&str> =
                            WORKLOAD.iter().copied().chain(dimensions.iter().map(Dimension::name)).collect();
                        self.walk.no_such_key(field, &section.path, &known);
                    }
                },
            }
        }
        (workload.from, workload.until) = self.span(named("from"), named("until"), part.duration);
        workload.service = service?;
        workload.arrivals = arrivals?;
        self.must_be_bearable(named("arrivals").unwrap_or(section), &workload, part);
        if let Some(field) = named("unknown_output").filter(|_| workload.unknown_output) {
            self.must_have_output(section, field, fields);
        }
        Some(workload)
    }

    /// Output that is not known needs to be something, and to have an end; and then tokens are the input and the output.
    fn must_have_output(&mut self, section: &Field<'_>, unknown: &Field<'_>, fields: &[Field<'_>]) {
        self.walk.must_have(section, fields, "output_tokens", "output_tokens = { p50 = 400, p99 = 3000 }");
        self.walk.must_have(section, fields, "max_tokens", "max_tokens = 4096");
        if fields.iter().any(|field| field.name == "tokens") {
            let hint = "write input_tokens and output_tokens instead of tokens".to_owned();
            self.walk.fault(unknown.at, "`tokens` says how much the output will be", hint);
        }
    }

    /// The service that is called; where there is only one, it need not be named.
    fn called_service(&mut self, section: &Field<'_>, field: Option<&Field<'_>>) -> Option<String> {
        let services: Vec<(&str, &str)> =
            self.config.services.keys().map(|name| (name.as_str(), name.as_str())).collect();
        match (field, services.as_slice()) {
            (Some(field), services) => self.walk.choice(field, services).map(str::to_owned),
            (None, [(only, _)]) => Some((*only).to_owned()),
            (None, _) => {
                let message = format!("{} does not say which service it calls", section.path);
                self.walk.fault(
                    section.at,
                    message,
                    "add service = \"openai\", or another of yours".to_owned(),
                );
                None
            }
        }
    }

    /// `"POST /v1/chat/completions"`
    fn endpoint(&mut self, field: &Field<'_>) -> Option<String> {
        let endpoint = self.walk.string(field)?;
        let fits = endpoint.split_once(' ').is_some_and(|(method, path)| {
            !method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase()) && path.starts_with('/')
        });
        if !fits {
            let hint = "write a method and a path, such as \"POST /v1/embeddings\"".to_owned();
            self.walk.fault(field.at, "this is not an endpoint", hint);
            return None;
        }
        Some(endpoint)
    }

    /// `"gpt-4o"` or `{ "gpt-4o" = 3, "gpt-4o-mini" = 1 }`
    fn models(&mut self, section: &Field<'_>) -> Vec<(String, f64)> {
        if !section.is_table() {
            return self.walk.string(section).map(|model| (model, 1.0)).into_iter().collect();
        }
        let mut models = Vec::new();
        for field in self.walk.table(section) {
            let Some(weight) = self.walk.number(&field) else { continue };
            if weight.is_finite() && weight > 0.0 {
                models.push((field.name.to_owned(), weight));
            } else {
                let message = format!("a weight of {weight} is not above 0");
                self.walk.fault(
                    field.at,
                    message,
                    "write how often it is called compared with the others".to_owned(),
                );
            }
        }
        models
    }

    /// Workers are all there at once, and one that neither thinks nor waits would call for ever in one instant.
    fn must_be_bearable(&mut self, field: &Field<'_>, workload: &Workload, part: &Part) {
        let Arrivals::Closed { workers, think, calls } = &workload.arrivals else { return };
        if workers.saturating_mul(workload.loops.max(1)) > 10 * MOST {
            let message = "all loops together have more workers than can be simulated";
            self.walk.fault(field.at, message, format!("use up to {}", 10 * MOST));
        }
        if calls.is_some() {
            return;
        }
        let upstream = part.upstreams.get(&workload.service);
        if least(think) == 0 && upstream.is_none_or(|spec| least(&spec.latency) + least(&spec.jitter) == 0) {
            let message = "this workload neither thinks nor waits for a reply, so it would never end";
            self.walk.fault(
                field.at,
                message,
                "add think = \"100ms\", or a latency to the upstream".to_owned(),
            );
        }
    }
}

/// The smallest value that a spread draws.
fn least(spread: &Spread) -> u64 {
    match *spread {
        Spread::Exactly(value) | Spread::Between(value, _) | Spread::LogBetween(value, _) => value,
        Spread::Tailed { .. } => 1,
    }
}
