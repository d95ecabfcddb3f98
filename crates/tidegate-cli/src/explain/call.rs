//! `tidegate explain call`: which limits a call would meet, which of them binds, how long it would wait and what would
//! free it.
//!
//! The way of a call is the engine's own answer for the config. How the limits stand is asked of the sidecar, if one
//! runs; without one, the limit is named that would bind first if such calls came without a pause.

mod way;

use std::io::{self, IsTerminal};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::Value;
use tidegate::Priority;
use tidegate_core::{Call, Engine, Nanos, presets};

use crate::serve::config;
use crate::sidecar::Which;
use crate::{Misuse, print};
use way::{Held, Way};

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
        let mut config = config(self.which.config.as_deref())?;
        if config.services.is_empty() {
            config.services = presets::served();
        }
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let mut engine = Engine::new(&config, Nanos::ZERO, unix)
            .map_err(|error| Misuse(format!("the config cannot be: {error}")))?;
        let call = self.call();
        let known = engine.passages(&call, Nanos::ZERO);
        let passages = known.map_err(|refusal| Misuse(format!("such a call is refused: {refusal}")))?;
        let priority = engine.priority_of(&call, Nanos::ZERO).unwrap_or(Priority::Normal);
        let live = match self.which.find()? {
            Some(sidecar) => {
                let (limits, status) = (sidecar.get("/v1/limits")?, sidecar.get("/v1/status")?);
                self.must_be_there(&sidecar.url(), &status)?;
                Some(Held::new(limits["limits"].clone(), status["backoffs"].clone()))
            }
            None => None,
        };
        let way = Way::new(&self.service, passages, priority, live.as_ref());
        let for_a_person = self.text || (!self.json && io::stdout().is_terminal());
        print(&if for_a_person { way.text() } else { format!("{}\n", way.json()) })
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

    /// A sidecar with another config would be asked about limits that it does not have.
    fn must_be_there(&self, url: &str, status: &Value) -> Result<(), Misuse> {
        if status["services"].get(&self.service).is_some() {
            return Ok(());
        }
        Err(Misuse(format!(
            "the sidecar on {url} has no service `{}`: it runs with another config",
            self.service
        )))
    }
}
