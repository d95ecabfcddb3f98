//! What the server remembers of each request.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::HeaderMap;
use serde_json::{Value, json};
use tidegate_core::{Cost, Dimension, Salt};

use crate::upstream::UpstreamCounts;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its number, in the order of arrival; the first is 0.
    pub number: u64,
    /// When it was counted, from the server's start.
    pub at: Duration,
    /// When the server was done with it.
    pub ended: Option<Duration>,
    /// Whether the whole answer was handed over: not if it was lost, or if the client went away.
    pub completed: bool,
    /// The method.
    pub method: String,
    /// The path, without its query.
    pub path: String,
    /// The answer's status; nothing if the answer was lost.
    pub status: Option<u16>,
    /// What was counted for it on arrival; nothing at all if it reached no limit.
    pub cost: Cost,
    /// The header `x-sim-id`, else `x-request-id`.
    pub id: Option<String>,
    /// A fingerprint of `authorization`, else of `x-api-key` or `api-key`. The key itself is not kept.
    pub key: Option<String>,
}

impl Record {
    pub(super) fn new(method: &str, path: &str, headers: &HeaderMap) -> Record {
        let text = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let key = ["authorization", "x-api-key", "api-key"].into_iter().find_map(text);
        Record {
            number: 0,
            at: Duration::ZERO,
            ended: None,
            completed: false,
            method: method.to_owned(),
            path: path.to_owned(),
            status: None,
            cost: Cost::nothing(),
            id: text("x-sim-id").or_else(|| text("x-request-id")).map(|id| id.into_owned()),
            key: key.map(|key| Salt::default().fingerprint(&key)),
        }
    }

    /// As `/_sim/records` tells it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let micros = |span: Duration| span.as_micros() as u64;
        let units = |dimension: Dimension| self.cost.units(&dimension);
        json!({
            "number": self.number,
            "at_us": micros(self.at),
            "ended_us": self.ended.map(micros),
            "completed": self.completed,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "cost": {
                "requests": units(Dimension::Requests),
                "tokens": units(Dimension::Tokens),
                "input_tokens": units(Dimension::InputTokens),
                "output_tokens": units(Dimension::OutputTokens),
                "bytes": units(Dimension::Bytes),
            },
            "id": self.id,
            "key": self.key,
        })
    }
}

/// What the server has counted since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerCounts {
    /// What reached the limits, by what became of it.
    pub upstream: UpstreamCounts,
    /// Answers by status, those of what reached no limit included.
    pub statuses: BTreeMap<u16, u64>,
    /// Accepted requests whose answer was lost on purpose; they have no status.
    pub lost: u64,
    /// Requests that were none, and reached no limit.
    pub malformed: u64,
    /// Accepted requests that are not done yet.
    pub running: u64,
}
