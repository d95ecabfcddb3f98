//! `tidegate backoff`: opens and closes backoff windows of the running sidecar.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tidegate_core::config::units::parse_duration;

use crate::http::encoded;
use crate::print;
use crate::sidecar::Which;

/// Open or end a backoff window of the sidecar that runs.
#[derive(Args)]
pub struct Backoff {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Hold all calls back that KEY is for; a window that is open is only ever extended.
    Set {
        /// A service, or the name of a limit or the beginning of one, such as openai/model:gpt-4o*.
        key: String,
        /// How long, such as 30s.
        #[arg(value_parser = parse_duration)]
        duration: Duration,
        /// JSON instead of text, as the sidecar answers.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        which: Which,
    },
    /// End a window, and let the calls go that wait for it.
    Clear {
        /// What it was set for.
        key: String,
        /// JSON instead of text, as the sidecar answers: `cleared` is false if no window was open.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        which: Which,
    },
}

impl Backoff {
    pub fn run(self) -> anyhow::Result<()> {
        let path = |key: &str| format!("/v1/backoff/{}", encoded(key));
        match self.what {
            What::Set { key, duration, json, which } => {
                let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
                let told = which.sidecar()?.put(&path(&key), &json!({ "ms": ms }))?;
                print(&if json { format!("{told}\n") } else { format!("calls to {key} are held back\n") })
            }
            What::Clear { key, json, which } => {
                let told = which.sidecar()?.delete(&path(&key))?;
                print(&if json { format!("{told}\n") } else { cleared(&key, &told) })
            }
        }
    }
}

/// Prints the result of closing a window. It is no error if none was open: nothing holds these calls back.
fn cleared(key: &str, told: &Value) -> String {
    if told["cleared"] != false {
        return format!("calls to {key} are not held back any more\n");
    }
    let near =
        told["did_you_mean"].as_str().map(|near| format!(": did you mean `{near}`?")).unwrap_or_default();
    format!("no window is open for {key}{near}\n")
}
