//! `tidegate explain call`: prints which limits a call would meet, which one binds, how long it would wait and what would
//! free it.
//!
//! The answer comes from the engine: that of the running sidecar, else that of a new one with the config. In the second
//! case the limit is named that would bind first if such calls came without a pause.

mod explained_call;

use std::io::{self, IsTerminal};
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use tidegate::{Call, Gate, Priority};
use tidegate_core::config::presets;

use crate::config_file::{config, config_path};
use crate::running::canonical;
use crate::sidecar::{ErrorReply, Sidecar, Which};
use crate::{Misuse, print, suggested, unknown_loop_type};
use explained_call::ExplainedCall;

/// Say which limits a call would meet, which one binds, how long it would wait and what would free it.
///
/// Asks the sidecar how the limits stand; if none runs, tells what the config alone says.
#[derive(Args)]
pub struct ExplainCall {
    /// The service, as the config names it.
    #[arg(long)]
    service: String,
    /// Method and path, such as `POST /v1/embeddings`.
    #[arg(long)]
    endpoint: Option<String>,
    /// The model.
    #[arg(long)]
    model: Option<String>,
    /// Who calls.
    #[arg(long = "loop", value_name = "NAME")]
    loop_id: Option<String>,
    /// Its type.
    #[arg(long, value_name = "TYPE")]
    loop_type: Option<String>,
    /// critical, high, normal or low.
    #[arg(long)]
    priority: Option<Priority>,
    /// How many tokens it is expected to cost.
    #[arg(long, value_name = "N")]
    tokens: Option<u64>,
    /// JSON, also on a terminal.
    #[arg(long, conflicts_with = "text")]
    json: bool,
    /// Text for a person, also when not on a terminal.
    #[arg(long)]
    text: bool,
    #[command(flatten)]
    which: Which,
}

impl ExplainCall {
    pub fn run(self) -> anyhow::Result<()> {
        let explained = match self.which.find()? {
            Some(sidecar) => {
                let explained = ExplainedCall::live(self.ask(&sidecar)?);
                let status = sidecar.get("/v1/status").unwrap_or_default();
                let known = status["loop_types"].as_array();
                known
                    .into_iter()
                    .for_each(|known| self.warn_of_loop_type(known.iter().filter_map(Value::as_str)));
                explained
            }
            None => ExplainedCall::written(self.explain_config()?),
        };
        let for_a_person = self.text || (!self.json && io::stdout().is_terminal());
        print(&if for_a_person { explained.text() } else { format!("{}\n", explained.json()) })
    }

    fn ask(&self, sidecar: &Sidecar) -> anyhow::Result<Value> {
        let cost = self.tokens.map_or_else(|| json!({}), |tokens| json!({ "tokens": tokens }));
        let call = json!({
            "service": self.service,
            "endpoint": self.endpoint,
            "model": self.model,
            "loop": self.loop_id,
            "loop_type": self.loop_type,
            "priority": self.priority.map(Priority::name),
            "cost": cost,
        });
        sidecar.post("/v1/explain", &call).map_err(|error| match error.downcast_ref::<ErrorReply>() {
            Some(ErrorReply { status: 404, .. }) => self.unknown_service(sidecar).into(),
            _ => error,
        })
    }

    /// Returns the error for a service that the sidecar does not have: its config is another one than the file here, or the
    /// name is wrong.
    fn unknown_service(&self, sidecar: &Sidecar) -> Misuse {
        let status = sidecar.get("/v1/status").unwrap_or_default();
        let here = self.which.config.as_deref();
        let is_here = config(here).is_ok_and(|config| config.services.contains_key(&self.service));
        let used = status["config"]["file"].as_str().map(|file| canonical(Path::new(file)));
        let why = if is_here && used != Some(canonical(config_path(here))) {
            let used = used.map_or_else(|| "no config file".into(), |file| file.display().to_string());
            format!("it runs with another config ({used})")
        } else {
            let known = status["services"].as_object().into_iter().flatten();
            suggested(&self.service, &known.map(|(name, _)| &**name).collect::<Vec<_>>())
        };
        Misuse(format!("the sidecar on {} has no service `{}`: {why}", sidecar.url(), self.service))
    }

    /// Returns the answer of a sidecar that has just started.
    fn explain_config(&self) -> anyhow::Result<Value> {
        let mut config = config(self.which.config.as_deref())?;
        if config.services.is_empty() {
            config.services = presets::served();
        }
        if !config.services.contains_key(&self.service) {
            let known: Vec<&str> = config.services.keys().map(String::as_str).collect();
            let known = suggested(&self.service, &known);
            return Err(Misuse(format!("the config has no service `{}`: {known}", self.service)).into());
        }
        self.warn_of_loop_type(config.loop_types.keys().map(String::as_str));
        let gate = Gate::builder().config(config).build();
        let gate = gate.map_err(|error| Misuse(format!("the config cannot be: {error}")))?;
        let told = tidegate_server::explain::call(&gate, &self.call());
        Ok(told.map_err(|refused| Misuse(format!("such a call is refused: {refused}")))?)
    }

    /// Warns of a loop type that is not in the config.
    fn warn_of_loop_type<'k>(&self, known: impl Iterator<Item = &'k str>) {
        let known: Vec<&str> = known.collect();
        if let Some(name) = self.loop_type.as_deref().filter(|name| !known.contains(name)) {
            eprintln!("tidegate: {}", unknown_loop_type(name, &known));
        }
    }

    fn call(&self) -> Call {
        let mut call = Call::to(&self.service);
        if let Some(endpoint) = &self.endpoint {
            call = call.endpoint(endpoint);
        }
        if let Some(model) = &self.model {
            call = call.model(model);
        }
        if let Some(loop_id) = &self.loop_id {
            call = call.loop_id(loop_id);
        }
        if let Some(loop_type) = &self.loop_type {
            call = call.loop_type(loop_type);
        }
        if let Some(priority) = self.priority {
            call = call.priority(priority);
        }
        if let Some(tokens) = self.tokens {
            call = call.tokens(tokens);
        }
        call
    }
}
