//! What somebody reports of the work that a permit was for.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Number;
use tidegate::Outcome;

use super::asked::{Units, Wrong, units};

/// The body of `POST /v1/permits/{id}/complete`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reported {
    /// The status of the upstream's reply, if there was one.
    status: Option<u16>,
    /// Its headers.
    #[serde(default)]
    headers: BTreeMap<String, Values>,
    /// What it really cost.
    #[serde(default)]
    usage: BTreeMap<String, Number>,
    /// What became of it, where that is not a matter of a status.
    outcome: Option<Word>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    /// It is done.
    Done,
    /// It was turned away because of a limit.
    Refused,
    /// There was no answer.
    Failed,
    /// It never got there.
    Unreached,
}

/// A header's value, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Values {
    One(String),
    Many(Vec<String>),
}

impl Reported {
    /// How the work ended. The caller's own word goes before a status: there may be no reply behind it.
    pub fn outcome(&self) -> Result<Outcome, Wrong> {
        if self.status.is_some_and(|status| !(100..=599).contains(&status)) {
            return Err(("bad_request", "`status` is no status of HTTP".into()));
        }
        let headers = self.headers()?;
        let mut outcome = match (self.outcome, self.status) {
            (Some(Word::Done), _) | (None, None) => Outcome::done(),
            (Some(Word::Refused), None) => refused(&headers),
            (Some(Word::Refused), Some(status)) => {
                Outcome::reply(if status < 400 { 429 } else { status }, &headers)
            }
            (Some(Word::Failed), _) => Outcome::failed(),
            (Some(Word::Unreached), _) => Outcome::unreached(),
            (None, Some(status)) => Outcome::reply(status, &headers),
        };
        for (dimension, units) in units(&self.usage)? {
            outcome = match units {
                Units::Whole(units) => outcome.units(dimension, units),
                Units::Dollars(dollars) => outcome.usd(dollars),
            };
        }
        Ok(outcome)
    }

    fn headers(&self) -> Result<HeaderMap, Wrong> {
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

/// Headers without a status still say when to come back.
fn refused(headers: &HeaderMap) -> Outcome {
    if headers.is_empty() { Outcome::refused() } else { Outcome::reply(429_u16, headers) }
}
