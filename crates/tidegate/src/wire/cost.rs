//! What a reply says that its call cost, whole or as events.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use tidegate_core::reply::{JsonUsage, StreamReader, UnixMillis, Usage};
use tidegate_core::{Call, Cost, Dimension};

use super::decode::{Coding, Decoder, MAX_DECODED};
use super::memory::{Memory, Owners, Share};
use crate::gate::{Gate, Shared};
use crate::outcome::Outcome;

/// Output is told while it comes in steps of so many tokens: each takes the gate's lock.
const STEP: u64 = 64;

/// What was seen of a reply's body so far.
pub(super) struct Seen {
    said: Said,
    /// Reads it if it is compressed.
    decoder: Option<Box<Decoder>>,
    coding: Coding,
}

/// What it said.
pub(super) enum Said {
    /// JSON, of which only the usage is kept.
    Json(Box<JsonUsage>),
    /// Events, of which only the usage and errors are kept.
    Events(Box<Events>),
    /// Nothing that could report a cost.
    Nothing,
}

/// A stream as far as it has come.
#[derive(Default)]
pub(super) struct Events {
    pub reader: StreamReader,
    /// The output that the permit was last told of.
    told: u64,
}

impl Said {
    fn push(&mut self, bytes: &[u8]) {
        match self {
            Said::Json(usage) => usage.push(bytes),
            Said::Events(events) => events.reader.push(bytes),
            Said::Nothing => {}
        }
    }
}

impl Seen {
    /// What to look for in a body under these headers. One that is compressed is decoded in memory of the call's.
    pub fn of(headers: &HeaderMap, meaning: &Meaning) -> Seen {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        let is = |name: &str| kind.eq_ignore_ascii_case(name);
        let coding = Coding::of(headers);
        let said = if coding == Coding::Other {
            Said::Nothing
        } else if is("text/event-stream") || is("application/vnd.amazon.eventstream") {
            Said::Events(Box::default())
        } else if is("application/json") || kind.to_ascii_lowercase().ends_with("+json") {
            Said::Json(Box::default())
        } else {
            Said::Nothing
        };
        let compressed = coding != Coding::Plain && !matches!(said, Said::Nothing);
        let decoder = compressed.then(|| Box::new(Decoder::new(coding, meaning.share(), MAX_DECODED)));
        Seen { said, decoder, coding }
    }

    /// The next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        match &mut self.decoder {
            Some(decoder) => decoder.push(bytes, &mut |plain| self.said.push(plain)),
            None => self.said.push(bytes),
        }
    }

    /// The events so far, if it is a stream that is understood as it comes.
    pub fn events(&self) -> Option<&StreamReader> {
        let is_read =
            self.coding.is_prompt() && !self.decoder.as_ref().is_some_and(|decoder| decoder.is_over());
        match &self.said {
            Said::Events(events) if is_read => Some(&events.reader),
            _ => None,
        }
    }

    /// What the call has cost so far, each time that this is worth telling: streams are settled as they go.
    pub fn grown(&mut self, meaning: &Meaning) -> Option<Cost> {
        let Said::Events(events) = &mut self.said else { return None };
        let output = events.reader.output_so_far();
        if output < events.told.saturating_add(STEP) {
            return None;
        }
        events.told = output;
        meaning.so_far(events.reader.usage(), output)
    }
}

/// The memory of those that name none: as much as the sidecar's.
static MEMORY: LazyLock<Arc<Memory>> = LazyLock::new(|| Arc::new(Memory::new(256 << 20)));

pub(super) fn default_memory() -> &'static Arc<Memory> {
    &MEMORY
}

/// What the replies to a call mean: whose they are, and how their cost is counted.
#[derive(Clone)]
pub struct Meaning {
    gate: Arc<Shared>,
    service: Box<str>,
    call: Call,
    memory: Arc<Memory>,
    owners: Owners,
}

impl Meaning {
    /// Of the replies to this call.
    #[must_use]
    pub fn of(gate: &Gate, call: &Call) -> Meaning {
        let service = gate.shared.rules().service(call).into();
        let (memory, owners) = (MEMORY.clone(), Owners::default());
        Meaning { gate: gate.shared.clone(), service, call: call.clone(), memory, owners }
    }

    /// The same, with memory for compressed replies from these owners' share of this budget: 256 MiB for the whole process
    /// if none is named.
    #[must_use]
    pub fn within(mut self, memory: &Arc<Memory>, owners: Owners) -> Meaning {
        (self.memory, self.owners) = (memory.clone(), owners);
        self
    }

    pub(super) fn share(&self) -> Share {
        self.memory.share(self.owners)
    }

    /// How a call ended whose reply was no error and had this body.
    pub(super) fn outcome(&self, seen: Seen) -> Outcome {
        let rules = self.gate.rules();
        let (usage, failure) = match seen.said {
            Said::Json(usage) => (usage.usage(), None),
            Said::Events(events) => {
                (events.reader.usage(), events.reader.failure(&rules.reader(&self.service), unix()))
            }
            Said::Nothing => (None, None),
        };
        match (failure, usage) {
            (Some(failure), _) => Outcome::in_stream(failure),
            (None, usage) => {
                if let Some(output) = usage.and_then(|usage| usage.output_tokens) {
                    self.gate.outputs.lock().hear(&self.call, output, None);
                }
                let counting = rules.counting(&self.service);
                let cost = usage.and_then(|usage| counting.cost(&usage));
                cost.map_or_else(Outcome::done, Outcome::costing)
            }
        }
    }

    /// What a call has cost whose stream has had this much output. Until it says how much it took in, that is what was
    /// reserved for it.
    fn so_far(&self, usage: Option<Usage>, output: u64) -> Option<Cost> {
        let mut usage = usage.unwrap_or_default();
        let input = usage.input_tokens.unwrap_or(self.call.cost().units(&Dimension::InputTokens));
        let output = output.max(usage.output_tokens.unwrap_or(0));
        // A sum that was said before is of less output.
        (usage.input_tokens, usage.output_tokens) = (Some(input), Some(output));
        usage.total_tokens = Some(input.saturating_add(output));
        self.gate.rules().counting(&self.service).cost(&usage)
    }

    /// Whether a stream with this head may turn out to be a refusal: its vendor does that, or the head already
    /// says when to come back.
    pub(super) fn may_refuse(&self, headers: &HeaderMap) -> bool {
        let hint = || headers.contains_key(RETRY_AFTER) || headers.contains_key("retry-after-ms");
        let rules = self.gate.rules();
        hint() || rules.vendor(&self.service).is_some_and(|vendor| vendor.refuses_in_streams())
    }

    /// What a stream has said so far, if it says that the call was refused or failed. Where it does not say when
    /// to come back its head may.
    pub(super) fn refusal(&self, events: &StreamReader, headers: &HeaderMap) -> Option<Outcome> {
        let rules = self.gate.rules();
        let reader = rules.reader(&self.service);
        let failure = events.failure(&reader, unix())?;
        let says_when = failure.wait().is_some();
        let outcome = Outcome::in_stream(failure);
        if says_when {
            return Some(outcome);
        }
        let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let hint = reader.read(200, headers, &[], unix()).retry_after_ms;
        Some(hint.map_or(outcome.clone(), |ms| outcome.retry_after(Duration::from_millis(ms))))
    }
}

impl fmt::Debug for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meaning").field("service", &self.service).finish_non_exhaustive()
    }
}

fn unix() -> UnixMillis {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}
