//! `tidegate backoff`: having everybody stay away from something, or come back to it.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
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
        #[command(flatten)]
        which: Which,
    },
    /// End a window, and let those go that wait for it.
    Clear {
        /// What it was set for.
        key: String,
        #[command(flatten)]
        which: Which,
    },
}

impl Backoff {
    pub fn run(self) -> anyhow::Result<()> {
        let path = |key: &str| format!("/v1/backoff/{}", encoded(key));
        match self.what {
            What::Set { key, duration, which } => {
                let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
                which.sidecar()?.put(&path(&key), &json!({ "ms": ms }))?;
                print(&format!("calls to {key} are held back\n"))
            }
            What::Clear { key, which } => {
                which.sidecar()?.delete(&path(&key))?;
                print(&format!("calls to {key} are not held back any more\n"))
            }
        }
    }
}
