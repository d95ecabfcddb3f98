//! `tidegate limit`: changes or resets a limit of the running sidecar.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tidegate_core::Dimension;
use tidegate_core::config::units::{UnitError, parse_count, parse_rate_of, parse_size};

use crate::http::encoded;
use crate::sidecar::Which;
use crate::{Misuse, print};

/// Change or forgive a limit of the sidecar that runs.
#[derive(Args)]
pub struct Limit {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Set(Set),
    Reset(Reset),
}

/// Make a limit another, at once: who waits for it is planned again.
///
/// Names are those that `tidegate status` shows, such as openai/requests/1m or openai/concurrency.
#[derive(Args)]
struct Set {
    /// The limit.
    name: String,
    /// A rate such as 500/min; a number for concurrency, a size such as 5MB for a byte budget.
    #[arg(value_name = "RATE")]
    to: String,
    #[command(flatten)]
    which: Which,
}

/// Forgive what was spent and is owed at a limit: it begins unspent, and calls that wait for it go.
///
/// Use it after an absurd reply or report. What `limit set` changed stays, and so do backoff windows: `tidegate backoff
/// clear` ends those. The upstream does not forgive with it, and may refuse what it still counts.
#[derive(Args)]
struct Reset {
    /// The limit, such as openai/tokens/1m or loop:agent-7/requests/1m.
    name: String,
    #[command(flatten)]
    which: Which,
}

impl Limit {
    pub fn run(self) -> anyhow::Result<()> {
        match self.what {
            What::Set(set) => set.run(),
            What::Reset(reset) => reset.run(),
        }
    }
}

impl Reset {
    fn run(self) -> anyhow::Result<()> {
        let path = format!("/v1/limits/{}/reset", encoded(&self.name));
        let before = self.which.sidecar()?.post(&path, &json!({}))?;
        print(&format!("{} begins unspent: {} units are forgiven\n", self.name, before["used_before"]))
    }
}

impl Set {
    fn run(self) -> anyhow::Result<()> {
        let set = self;
        let change = change(&set.name, &set.to)
            .map_err(|error| Misuse(format!("{} cannot be `{}`: {error}", set.name, set.to)))?;
        set.which.sidecar()?.put(&format!("/v1/limits/{}", encoded(&set.name)), &change)?;
        print(&format!("{} is {} now\n", set.name, set.to))
    }
}

/// Returns the body of the request. The name of a limit says its kind.
fn change(name: &str, to: &str) -> Result<Value, UnitError> {
    let mut words = name.rsplit('/');
    let last = words.next().unwrap_or_default();
    match last {
        "concurrency" | "throttled_concurrency" => Ok(json!({ "bound": parse_count(to)? })),
        "byte_budget" => Ok(json!({ "bound": parse_size(to)? })),
        _ => {
            // Parsed here as well, so that a typo is reported with a hint and changes nothing.
            let dimension = Dimension::from_name(words.next().unwrap_or_default());
            parse_rate_of(to, &dimension)?.rate(&dimension)?;
            Ok(json!({ "rate": to }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_what_a_limit_may_be() {
        assert_eq!(change("openai/requests/1m", "500/min").unwrap(), json!({"rate": "500/min"}));
        assert_eq!(change("openai/bytes/1m", "5MB/min").unwrap(), json!({"rate": "5MB/min"}));
        assert_eq!(change("openai/concurrency", "1k").unwrap(), json!({"bound": 1000}));
        assert_eq!(change("openai/byte_budget", "5MB").unwrap(), json!({"bound": 5_000_000}));
        for (name, to) in
            [("openai/requests/1m", "500"), ("openai/requests/1m", "5MB/min"), ("a/concurrency", "5/s")]
        {
            assert!(change(name, to).is_err(), "{name} {to}");
        }
    }
}
