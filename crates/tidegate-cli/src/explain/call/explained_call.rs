//! An explained call as text: every limit with its usage, and the one that binds.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;
use tidegate_sim::show::Grid;
use tidegate_sim::show::words::{count, length, span};

/// An explained call, as `/v1/explain` returns it.
pub struct ExplainedCall {
    told: Value,
    live: bool,
}

impl ExplainedCall {
    /// From a running sidecar.
    pub fn live(told: Value) -> ExplainedCall {
        ExplainedCall { told, live: true }.marked()
    }

    /// From the config alone. Then no units are used and no call waits. The binding limit is the one that lets the fewest
    /// such calls pass, unless they can never pass.
    pub fn written(mut told: Value) -> ExplainedCall {
        for limit in told["limits"].as_array_mut().into_iter().flatten() {
            for now in ["used", "waiting", "fits", "fits_in_ms"] {
                limit[now] = Value::Null;
            }
        }
        let mut explained = ExplainedCall { told, live: false };
        if explained.told["fits"] == true {
            explained.told["binding"] =
                explained.narrowest().map(|limit| limit["name"].clone()).unwrap_or_default();
            explained.told["goes_now"] = Value::Null;
            explained.told["expected_wait_ms"] = Value::Null;
        }
        explained.marked()
    }

    fn marked(mut self) -> ExplainedCall {
        self.told["live"] = self.live.into();
        self
    }

    /// Returns the limit that lets the fewest of these calls pass.
    fn narrowest(&self) -> Option<&Value> {
        let a_second = |limit: &Value| {
            let (units, window, cost) =
                (limit["units"].as_f64()?, limit["window_ms"].as_f64()?, limit["cost"].as_f64()?);
            (cost > 0.0).then(|| units / window / cost)
        };
        let rates = self.limits().filter_map(|limit| Some((limit, a_second(limit)?)));
        rates.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(limit, _)| limit)
    }

    fn limits(&self) -> impl Iterator<Item = &Value> {
        self.told["limits"].as_array().into_iter().flatten()
    }

    pub fn json(&self) -> &Value {
        &self.told
    }

    pub fn text(&self) -> String {
        let mut text = self.headline();
        if let Some(advice) = self.told["advice"].as_object() {
            let number = |name: &str| count(advice.get(name).and_then(Value::as_u64).unwrap_or_default());
            let _ = writeln!(
                text,
                "such calls ask for {} tokens at most; {} would do, and let more of them go",
                number("asked"),
                number("max_tokens")
            );
        }
        if self.limits().next().is_none() {
            return text;
        }
        let _ = writeln!(text, "\na call of priority {} passes all of these:", words(&self.told["priority"]));
        let mut grid = Grid::default();
        let live = if self.live { &["used", "waiting", "wait if first"][..] } else { &[] };
        grid.row(["limit", "allows", "it takes"].iter().chain(live).copied());
        for limit in self.limits() {
            let mut row = vec![words(&limit["name"]).to_owned(), allows(limit), number(&limit["cost"])];
            if self.live {
                row.extend([number(&limit["used"]), number(&limit["waiting"]), wait(limit)]);
            }
            grid.row(row);
        }
        text + &grid.text()
    }

    fn headline(&self) -> String {
        let told = &self.told;
        let Some(binding) = told["binding"].as_str() else {
            return match self.live {
                true => "it would go now\n".into(),
                false => "no sidecar runs, and no rate is in its way\n".into(),
            };
        };
        let freed_by = format!("what frees it: {}\n", words(&told["freed_by"]));
        if told["fits"] == false {
            return format!("it never fits {binding}\n{freed_by}");
        }
        if !self.live {
            return format!("no sidecar runs; of calls like this one, {binding} lets the fewest go\n");
        }
        let mut text = match told["expected_wait_ms"].as_u64() {
            Some(ms) => {
                let ahead = match told["position"].as_u64().unwrap_or_default().saturating_sub(1) {
                    0 => String::new(),
                    1 => ", with 1 call ahead of it".into(),
                    ahead => format!(", with {} calls ahead of it", count(ahead)),
                };
                let wait = span(Duration::from_millis(ms));
                format!("it would wait for about {wait}{ahead}: {binding} binds\n")
            }
            None => format!("it waits for a slot of {binding}, and nobody knows how long\n"),
        };
        let _ = writeln!(text, "position: {}", number(&told["position"]));
        text + &freed_by
    }
}

fn allows(limit: &Value) -> String {
    match limit["window_ms"].as_u64() {
        Some(ms) => format!("{} in {}", number(&limit["units"]), length(Duration::from_millis(ms))),
        None => format!("{} at once", number(&limit["units"])),
    }
}

/// Returns how long such a call would wait there if it were the first in the queue. The headline also counts the calls
/// ahead of it.
fn wait(limit: &Value) -> String {
    match limit["fits_in_ms"].as_u64() {
        Some(0) => "none".into(),
        Some(ms) => format!("about {}", span(Duration::from_millis(ms))),
        None => "for a slot".into(),
    }
}

fn number(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".into(), count)
}

fn words(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
