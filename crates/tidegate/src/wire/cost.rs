//! What a reply says that its call cost, whole or as events.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_core::Call;
use tidegate_core::reply::{Reading, StreamReader, UnixMillis, Verdict};

use crate::gate::Shared;
use crate::outcome::Outcome;

/// The largest JSON body in which usage is looked for.
const MOST: usize = 16 << 20;

/// What was seen of a reply's body so far.
pub(super) enum Seen {
    /// JSON, until it is there whole.
    Json(Vec<u8>),
    /// Events, of which only the usage and errors are kept.
    Events(Box<StreamReader>),
    /// Nothing that could report a cost.
    Nothing,
}

impl Seen {
    /// What to look for in a body of this kind.
    pub fn of(content_type: &str) -> Seen {
        let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match kind.as_str() {
            "text/event-stream" | "application/vnd.amazon.eventstream" => Seen::Events(Box::default()),
            kind if kind == "application/json" || kind.ends_with("+json") => Seen::Json(Vec::new()),
            _ => Seen::Nothing,
        }
    }

    /// The next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        match self {
            Seen::Json(body) if body.len() + bytes.len() <= MOST => body.extend_from_slice(bytes),
            Seen::Json(_) => *self = Seen::Nothing,
            Seen::Events(reader) => reader.push(bytes),
            Seen::Nothing => {}
        }
    }
}

/// What the replies to a call mean.
#[derive(Clone)]
pub(super) struct Meaning {
    pub gate: Arc<Shared>,
    pub call: Call,
}

impl Meaning {
    /// How a call ended whose reply was no error and had this body.
    pub fn outcome(&self, seen: Seen) -> Outcome {
        let rules = self.gate.rules();
        let service = rules.service(&self.call);
        let reader = rules.reader(service);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = UnixMillis(i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
        let (usage, failure) = match seen {
            Seen::Json(body) => (reader.read(200, [], &body, now).usage, None),
            Seen::Events(events) => (events.usage(), events.failure(&reader, now)),
            Seen::Nothing => (None, None),
        };
        match (failure, usage) {
            (Some(failure), _) => of_failure(&failure),
            (None, usage) => {
                let counting = rules.counting(service);
                let cost = usage.and_then(|usage| counting.cost(&usage));
                cost.map_or_else(Outcome::done, Outcome::costing)
            }
        }
    }
}

/// A stream may turn out to be a refusal after a status of 200.
fn of_failure(reading: &Reading) -> Outcome {
    let outcome = match reading.verdict {
        Verdict::RateLimited | Verdict::ConcurrencyLimited => Outcome::refused(),
        // The quota is used up, and nobody is ill.
        Verdict::QuotaExhausted => Outcome::done(),
        Verdict::Overloaded | Verdict::Ok => Outcome::failed(),
    };
    match reading.wait() {
        Some(wait) => outcome.retry_after(Duration::from_millis(wait.ms)),
        None => outcome,
    }
}
