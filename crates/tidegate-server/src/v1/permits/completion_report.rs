//! The report of a permit's holder: how the work ended, and what it cost.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Number, Value, json};
use tidegate::{Dimension, Outcome};
use tidegate_core::reply::Usage;

use super::acquire_request::{BadField, Units, units};

/// The body of `POST /v1/permits/{id}/complete`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompletionReport {
    /// The status of the upstream's reply, if there was one.
    status: Option<u16>,
    /// The headers of that reply.
    #[serde(default)]
    headers: BTreeMap<String, Values>,
    /// The actual cost, in tidegate's units or as the vendor's reply states it.
    #[serde(default)]
    usage: Map<String, Value>,
    /// The outcome, where no status says it.
    outcome: Option<ReportedOutcome>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReportedOutcome {
    /// The work is done.
    Done,
    /// A limit rejected the work.
    Refused,
    /// There was no reply.
    Failed,
    /// The upstream was not reached.
    Unreached,
}

/// A header's value, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Values {
    One(String),
    Many(Vec<String>),
}

impl CompletionReport {
    /// Returns the outcome of the work. A stated outcome takes precedence over a status.
    pub fn outcome(&self) -> Result<Outcome, BadField> {
        if self.status.is_some_and(|status| !(100..=599).contains(&status)) {
            return Err(("bad_request", "`status` is no status of HTTP".into()));
        }
        let headers = self.headers()?;
        let mut outcome = match (self.outcome, self.status) {
            (Some(ReportedOutcome::Done), _) | (None, None) => Outcome::done(),
            (Some(ReportedOutcome::Refused), None) => refused(&headers),
            (Some(ReportedOutcome::Refused), Some(status)) => {
                Outcome::reply(if status < 400 { 429 } else { status }, &headers)
            }
            (Some(ReportedOutcome::Failed), _) => Outcome::failed(),
            (Some(ReportedOutcome::Unreached), _) => Outcome::unreached(),
            (None, Some(status)) => Outcome::reply(status, &headers),
        };
        if let Some(body) = self.vendors_usage() {
            // Read with the rest of the reply, as the service's vendor counts.
            return Ok(match (self.outcome, self.status) {
                (Some(ReportedOutcome::Done) | None, None) => Outcome::reply(200_u16, &headers).body(&body),
                _ => outcome.body(&body),
            });
        }
        for (dimension, units) in units(&self.units()?)? {
            outcome = match units {
                Units::Whole(units) => outcome.units(dimension, units),
                Units::Dollars(dollars) => outcome.usd(dollars),
            };
        }
        Ok(outcome)
    }

    /// Returns usage in a vendor's own fields, as the body of a reply would have it. Such usage has fields that are not
    /// tidegate's units, or no numbers.
    fn vendors_usage(&self) -> Option<Vec<u8>> {
        let is_ours = |name: &String| !matches!(Dimension::from_name(name), Dimension::Custom(_));
        if self.usage.iter().all(|(name, value)| is_ours(name) && value.is_number()) {
            return None;
        }
        let body = json!({ "usage": self.usage, "usageMetadata": self.usage }).to_string().into_bytes();
        Usage::of_body(&body).is_some().then_some(body)
    }

    fn units(&self) -> Result<BTreeMap<String, Number>, BadField> {
        let number = |(name, value): (&String, &Value)| match value {
            Value::Number(number) => Ok((name.clone(), number.clone())),
            _ => Err((
                "invalid_cost",
                format!("`{name}` is no number, and `usage` is no vendor's that is known"),
            )),
        };
        self.usage.iter().map(number).collect()
    }

    fn headers(&self) -> Result<HeaderMap, BadField> {
        let mut headers = HeaderMap::new();
        for (name, values) in &self.headers {
            let wrong = || ("bad_request", "`headers` holds what is no header".to_owned());
            let name: HeaderName = name.parse().map_err(|_| wrong())?;
            let values = match values {
                Values::One(value) => std::slice::from_ref(value),
                Values::Many(values) => values,
            };
            for value in values {
                headers.append(name.clone(), HeaderValue::from_str(value).map_err(|_| wrong())?);
            }
        }
        Ok(headers)
    }
}

/// Reads a refusal without a status. Its headers may still say when to retry.
fn refused(headers: &HeaderMap) -> Outcome {
    if headers.is_empty() { Outcome::refused() } else { Outcome::reply(429_u16, headers) }
}
