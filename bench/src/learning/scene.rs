//! The world of one cell: what we are told, what the upstream does, and who calls. It is written as a scenario that
//! `tidegate simulate` plays too.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use tidegate_sim::{HeaderStyle, Model, Scenario};

/// Seconds in the window of every limit here.
pub const WINDOW: u64 = 60;

/// A world, in the words of a scenario.
#[derive(Clone, Debug)]
pub struct Scene {
    /// What the config says of the service.
    pub ours: String,
    /// The upstream's limits.
    pub limits: String,
    /// What it says about them.
    pub says: HeaderStyle,
    /// What else there is to say about it.
    pub upstream: String,
    /// What there is to say about calls.
    pub calls: String,
    /// How many call, wait for the reply and call again at once.
    pub workers: u64,
    /// How long it lasts, in seconds.
    pub lasts: u64,
}

impl Scene {
    /// One limit on requests, told as a plain rate, alone, for ten windows, with more callers than it can serve:
    /// so many as it serves in two seconds, which is longer than a reply takes, and twenty who wait.
    pub fn alone(rate: u64, model: Model, says: HeaderStyle) -> Scene {
        Scene {
            ours: format!("requests = \"{rate}/min\"\n"),
            limits: limit(rate, model),
            says,
            upstream: String::new(),
            calls: String::new(),
            workers: rate * 2 / WINDOW + 20,
            lasts: 10 * WINDOW,
        }
    }

    /// The same with one limit on tokens, for calls of which nobody knows how many they will cost: input of all sizes
    /// from 200 to 4,000, and output of 600 on average. An upstream that reserves output says so in its profile.
    pub fn tokens(model: Model, says: HeaderStyle, reserves: &str) -> Scene {
        let rate = "200k/min";
        let mut scene = Scene {
            limits: format!("{{ tokens = \"{rate}\", model = \"{}\" }}", model_name(model)),
            ours: format!("tokens = \"{rate}\"\n"),
            calls: "input_tokens   = { from = 200, to = 4000, log = true }\n\
                    output_tokens  = { p50 = 436, p99 = 2800 }\n\
                    max_tokens     = 4096\n\
                    unknown_output = true\n"
                .into(),
            ..Scene::alone(107, model, says)
        };
        match reserves {
            "max_tokens" => scene.ours += "profile = \"cerebras\"\n",
            "max_tokens-kept" => {
                scene.ours += "profile = \"azure-openai\"\n";
                scene.upstream = "refused_cost = true\n".into();
            }
            _ => {}
        }
        if !reserves.is_empty() {
            scene.upstream += &format!("reserves = \"{reserves}\"\n");
        }
        scene
    }

    /// The scenario's text, told in the parts that begin at these seconds.
    pub fn text(&self, phases: &[u64]) -> String {
        let Scene { ours, limits, upstream, calls, workers, lasts, .. } = self;
        let says = style_name(self.says);
        let phases: Vec<String> = phases.iter().map(|at| format!("\"{at}s\"")).collect();
        let mut text = String::new();
        let _ = write!(
            text,
            r#"[services.api]
{ours}
[simulation]
duration = "{lasts}s"
warmup   = "{WINDOW}s"
phases   = [{}]

[simulation.upstreams.api]
limits  = [{limits}]
headers = "{says}"
jitter  = "20ms..80ms"
latency = "300ms..1500ms"
{upstream}
[[simulation.workload]]
name     = "load"
arrivals = {{ closed = {workers}, think = "0s" }}
{calls}"#,
            phases.join(", ")
        );
        text
    }

    /// The scenario.
    pub fn scenario(&self, phases: &[u64]) -> Result<Scenario> {
        let text = self.text(phases);
        Scenario::parse(&text, "cell", &|_| None, Path::new(".")).context(text)
    }
}

/// A limit of an upstream on requests.
pub fn limit(rate: u64, model: Model) -> String {
    let burst = burst(rate, model).map(|burst| format!(", burst = {burst}")).unwrap_or_default();
    format!("{{ requests = \"{rate}/min\", model = \"{}\"{burst} }}", model_name(model))
}

/// How many may come at once where that is not the whole limit.
pub fn burst(rate: u64, model: Model) -> Option<u64> {
    (model == Model::Gcra).then(|| (rate / 60).max(2))
}

/// What users write for a model.
pub fn model_name(model: Model) -> &'static str {
    name(&Model::NAMED, model)
}

/// What users write for a style of headers.
pub fn style_name(style: HeaderStyle) -> &'static str {
    name(&HeaderStyle::NAMED, style)
}

fn name<T: PartialEq>(named: &[(&'static str, T)], wanted: T) -> &'static str {
    named.iter().find(|(_, known)| *known == wanted).map_or("?", |(name, _)| name)
}
