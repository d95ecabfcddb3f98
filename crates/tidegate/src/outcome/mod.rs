//! How a call ended, in the words of whoever made it.
//!
//! An [`Outcome`] says what is known: that it is done, what it cost, that it was turned away or failed, or the
//! reply itself. A reply is not read here. Whose reply it is, and so what its headers mean, is known to the gate,
//! which reads it when the permit is finished; until then the outcome keeps as much of it as that takes. Of a
//! reply that is no error that is nothing: most replies are like this, and end as cheaply as [`Outcome::done`].

mod failed;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tidegate_core::engine::{Ended, Fate};
use tidegate_core::reply::{Reader, Reading, UnixMillis};
use tidegate_core::retry::{Failure, FailureKind};
use tidegate_core::vendors::Counting;
use tidegate_core::{Cost, Dimension};

pub use failed::Failed;
#[cfg(feature = "reqwest")]
pub(crate) use failed::of_reqwest;
pub(crate) use failed::outcome_of;

/// How a call ended: what became of it, and what it really cost, where that is known.
///
/// ```
/// use http::{HeaderMap, StatusCode};
/// use std::time::Duration;
/// use tidegate::Outcome;
///
/// let (status, headers) = (StatusCode::TOO_MANY_REQUESTS, HeaderMap::new());
/// let by_its_reply = Outcome::reply(status, &headers).body(br#"{"error": {"code": "rate_limit_exceeded"}}"#);
/// let with_its_cost = Outcome::done().input_tokens(310).output_tokens(95);
/// let turned_away = Outcome::refused().retry_after(Duration::from_secs(20));
/// ```
#[derive(Clone, Debug)]
pub struct Outcome {
    cost: Cost,
    told: Told,
    /// When to come back, said by the caller: it goes before what a reply says.
    hint: Option<Duration>,
    /// What the call asked for.
    model: Option<Arc<str>>,
}

/// What became of a call.
#[derive(Clone, Debug)]
enum Told {
    Nothing,
    Done,
    Failure(FailureKind),
    Unprocessed,
    /// With what is to be read of it, unless its status says all there is to know.
    Reply(u16, Option<Box<Text>>),
    /// What an error in a stream says, after a status that was none.
    #[cfg(feature = "wire")]
    InStream(Box<Reading>),
}

#[derive(Clone, Debug, Default)]
struct Text {
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Outcome {
    /// It ended, and cost what was reserved unless more is said. An attempt that failed so is not worth another
    /// one.
    #[must_use]
    pub fn done() -> Outcome {
        Outcome::told(Told::Done)
    }

    /// The upstream replied so. The status is a number or an [`http::StatusCode`].
    #[must_use]
    pub fn reply(status: impl Into<u16>, headers: &HeaderMap) -> Outcome {
        let status = status.into();
        let headers = if status >= 400 { Some(headers.clone()) } else { limits_told(headers) };
        let text = headers.map(|headers| Box::new(Text { headers, body: Vec::new() }));
        Outcome::told(Told::Reply(status, text))
    }

    /// The body of the reply, as far as it is at hand: errors say there which limit was met and when to come
    /// back, and where no cost is stated, the usage that it reports is the cost. To a call without a reply it
    /// means nothing.
    #[must_use]
    pub fn body(mut self, body: &[u8]) -> Outcome {
        if let Told::Reply(_, text) = &mut self.told {
            text.get_or_insert_default().body = body.to_vec();
        }
        self
    }

    /// It was turned away because of a limit, and so not done: any call may be made again.
    #[must_use]
    pub fn refused() -> Outcome {
        Outcome::told(Told::Failure(FailureKind::Refused))
    }

    /// There was no answer: it may have been done or not. Only a call that is repeatable is made again.
    #[must_use]
    pub fn failed() -> Outcome {
        Outcome::told(Told::Failure(FailureKind::Unsure))
    }

    /// It never got there, and so was not done: what it reserved comes back, and any call may be made again.
    #[must_use]
    pub fn unreached() -> Outcome {
        Outcome::told(Told::Failure(FailureKind::Unreached))
    }

    /// It was sent, and the upstream says that it did not process it: tokens and bytes come back, the request stays spent,
    /// and any call may be made again. HTTP/2 says so by REFUSED_STREAM, and by GOAWAY with a lower stream id.
    #[must_use]
    pub fn unprocessed() -> Outcome {
        Outcome::told(Told::Unprocessed)
    }

    /// When to come back, where the upstream said that in words that a reply's reader does not know.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Outcome {
        self.hint = Some(wait);
        self
    }

    /// The model that the call asked for. A refusal that names neither a limit nor a model then holds back the
    /// calls for this one, and not the whole service.
    #[must_use]
    pub fn model(mut self, model: &str) -> Outcome {
        self.model = Some(model.into());
        self
    }

    /// Tokens it used in all.
    #[must_use]
    pub fn tokens(self, tokens: u64) -> Outcome {
        self.units(Dimension::Tokens, tokens)
    }

    /// Tokens it sent.
    #[must_use]
    pub fn input_tokens(self, tokens: u64) -> Outcome {
        self.units(Dimension::InputTokens, tokens)
    }

    /// Tokens it got.
    #[must_use]
    pub fn output_tokens(self, tokens: u64) -> Outcome {
        self.units(Dimension::OutputTokens, tokens)
    }

    /// Dollars it cost. A negative or not finite number says nothing.
    #[must_use]
    pub fn usd(mut self, dollars: f64) -> Outcome {
        if dollars.is_finite() && dollars >= 0.0 {
            self.cost.set_usd(dollars);
        }
        self
    }

    /// Units of any dimension.
    #[must_use]
    pub fn units(mut self, dimension: Dimension, units: u64) -> Outcome {
        self.cost.set(dimension, units);
        self
    }

    /// It ended, and cost this.
    #[cfg(feature = "wire")]
    pub(crate) fn costing(cost: Cost) -> Outcome {
        Outcome { cost, ..Outcome::done() }
    }

    /// Its stream says that it was refused or failed, though its status did not.
    #[cfg(feature = "wire")]
    pub(crate) fn in_stream(failure: Reading) -> Outcome {
        Outcome::told(Told::InStream(Box::new(failure)))
    }

    /// The same for a call that asked for this model, where it was not said.
    pub(crate) fn asked_for(mut self, model: Option<&Arc<str>>) -> Outcome {
        self.model = self.model.or_else(|| model.cloned());
        self
    }

    /// Nobody knows how it ended: it cost what was reserved, and is not worth another attempt.
    pub(crate) fn unknown() -> Outcome {
        Outcome::told(Told::Nothing)
    }

    /// What it comes to, or the reply that is to be read for that.
    pub(crate) fn into_known(self) -> Result<(Ended, Failure), Box<Unread>> {
        let Outcome { cost, told, hint, model } = self;
        let (fate, kind) = match told {
            Told::Reply(status, Some(text)) => {
                return Err(Box::new(Unread { status, text, cost, hint, model }));
            }
            #[cfg(feature = "wire")]
            Told::InStream(reading) => {
                let (ended, failure) = meaning(STREAM_STATUS, &reading, hint, model);
                return Ok((ended.cost(cost), failure));
            }
            Told::Nothing => (Fate::Unknown, FailureKind::Final),
            Told::Reply(_, None) | Told::Done | Told::Failure(FailureKind::Final) => {
                (Fate::Answered, FailureKind::Final)
            }
            Told::Failure(kind @ FailureKind::Refused) => {
                (Fate::TurnedAway { wait: hint, by: Vec::new(), in_flight: false }, kind)
            }
            Told::Failure(kind @ FailureKind::Unreached) => (Fate::Unreached, kind),
            Told::Unprocessed => (Fate::Unprocessed, FailureKind::Unreached),
            Told::Failure(kind) => (Fate::Failed { wait: hint }, kind),
        };
        Ok((Ended { cost: Some(cost), fate, model, told: Vec::new() }, Failure { kind, hint }))
    }

    fn told(told: Told) -> Outcome {
        Outcome { cost: Cost::nothing(), told, hint: None, model: None }
    }
}

/// What a reply that went well tells of limits, if it does. One out of a cache tells of another time.
fn limits_told(headers: &HeaderMap) -> Option<HeaderMap> {
    let cached = headers.get(http::header::AGE).is_some_and(|age| age.as_bytes() != b"0");
    let has = |name: &[u8], part: &[u8]| name.windows(part.len()).any(|some| some == part);
    let tells = |name: &http::HeaderName| {
        let name = name.as_str().as_bytes();
        has(name, b"limit") || has(name, b"remaining")
    };
    // All of them: how a vendor writes is known by other headers too.
    (!cached && headers.keys().any(tells)).then(|| headers.clone())
}

/// The status of a reply whose stream turns out to be an error.
#[cfg(feature = "wire")]
const STREAM_STATUS: u16 = 200;

/// What was read in a reply or in its stream means for the gate and for another attempt. What the caller says goes before
/// what the reply says.
fn meaning(
    status: u16,
    reading: &Reading,
    hint: Option<Duration>,
    model: Option<Arc<str>>,
) -> (Ended, Failure) {
    let mut failure = Failure::of_reply(status, reading);
    let mut ended = Ended::by_reply(status, reading);
    if let Some(hint) = hint {
        failure.hint = Some(hint);
        if let Fate::TurnedAway { wait, .. } | Fate::Failed { wait } = &mut ended.fate {
            *wait = Some(hint);
        }
    }
    // The reply may name a version of the model that no call asks for.
    ended.model = model.or(ended.model);
    (ended, failure)
}

/// A reply that is still to be read.
#[derive(Debug)]
pub(crate) struct Unread {
    status: u16,
    text: Box<Text>,
    cost: Cost,
    hint: Option<Duration>,
    model: Option<Arc<str>>,
}

impl Unread {
    /// What the call came to, by its reply.
    pub fn read(mut self, reader: &Reader<'_>, counting: Counting, now: UnixMillis) -> (Ended, Failure) {
        let headers = self.text.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let reading = reader.read(self.status, headers, &self.text.body, now);
        let (ended, failure) = meaning(self.status, &reading, self.hint, self.model.take());
        // What the reply reports of its own cost, where the caller did not state it.
        let stated = self.cost.states(&Dimension::Tokens);
        let reported = reading.usage.filter(|_| !stated).and_then(|usage| counting.cost(&usage));
        (ended.cost(reported.unwrap_or(self.cost)), failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, lines: &[(&'static str, &str)]) -> Outcome {
        let lines = lines.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), value.parse().expect("a header's value"))
        });
        Outcome::reply(status, &lines.collect())
    }

    fn read(outcome: Outcome) -> (Ended, Failure) {
        match outcome.into_known() {
            Ok(known) => known,
            Err(unread) => unread.read(&Reader::default(), Counting::PLAIN, UnixMillis(0)),
        }
    }

    #[test]
    fn of_a_reply_that_is_no_error_nothing_is_kept_and_nothing_read() {
        let known = reply(200, &[("retry-after", "20")]).into_known();
        assert_eq!(known.expect("nothing to read").0.fate, Fate::Answered);
    }

    #[test]
    fn a_refusal_is_read_from_headers_and_a_hint_of_the_callers_goes_before_them() {
        let refused = reply(429, &[("retry-after", "20")]);
        let wait = |outcome: Outcome| {
            let (ended, failure) = read(outcome);
            assert_eq!(failure.kind, FailureKind::Refused);
            assert!(matches!(ended.fate, Fate::TurnedAway { wait, .. } if wait == failure.hint));
            failure.hint
        };
        assert_eq!(wait(refused.clone()), Some(Duration::from_secs(20)));
        assert_eq!(wait(refused.retry_after(Duration::from_secs(3))), Some(Duration::from_secs(3)));
    }

    #[test]
    fn the_usage_in_a_body_is_the_cost_unless_the_caller_states_it() {
        let body = br#"{"usage": {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42}}"#;
        let tokens = |outcome: Outcome| {
            let (ended, _) = read(outcome.body(body));
            assert_eq!(ended.fate, Fate::Answered);
            let cost = ended.cost.expect("a cost");
            (cost.units(&Dimension::InputTokens), cost.units(&Dimension::Tokens))
        };
        assert_eq!(tokens(reply(200, &[])), (30, 42));
        assert_eq!(tokens(reply(200, &[]).tokens(50)), (0, 50));
    }

    #[test]
    fn usage_is_counted_as_the_vendor_does() {
        let body = br#"{"usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5}}"#;
        let Err(unread) = reply(200, &[]).body(body).into_known() else { panic!("there is a body") };
        let vendor = tidegate_core::vendors::by_name("anthropic").expect("known");
        let (ended, _) = unread.read(&Reader::of(vendor), vendor.counting, UnixMillis(0));
        let cost = ended.cost.expect("a cost");
        assert_eq!(cost.units(&Dimension::InputTokens), 10, "what came from the cache is free");
    }

    #[test]
    fn what_did_not_get_there_and_what_got_no_answer_is_told_apart() {
        let (ended, failure) = read(Outcome::unreached());
        assert_eq!((ended.fate, failure.kind), (Fate::Unreached, FailureKind::Unreached));
        let (ended, failure) = read(Outcome::unprocessed());
        assert_eq!((ended.fate, failure.kind), (Fate::Unprocessed, FailureKind::Unreached));
        let (ended, failure) = read(Outcome::failed().retry_after(Duration::from_secs(1)));
        assert_eq!(failure, Failure::of_kind(FailureKind::Unsure).come_back(Duration::from_secs(1)));
        assert_eq!(ended.fate, Fate::Failed { wait: Some(Duration::from_secs(1)) });
    }

    #[cfg(feature = "wire")]
    #[test]
    fn an_error_in_a_stream_means_what_it_means_as_a_reply() {
        use tidegate_core::reply::StreamReader;

        let errors = [
            (
                r#"{"error": {"code": "insufficient_quota", "message": "You exceeded your quota"}}"#,
                Fate::OutOfQuota,
            ),
            (
                r#"{"error": {"code": "too_many_concurrent_requests", "message": "Slow down"}}"#,
                Fate::TurnedAway { wait: None, by: Vec::new(), in_flight: true },
            ),
            (
                r#"{"error": {"code": "rate_limit_exceeded", "message": "Rate limit reached"}}"#,
                Fate::TurnedAway { wait: None, by: Vec::new(), in_flight: false },
            ),
            (
                r#"{"error": {"type": "overloaded_error", "message": "Overloaded"}}"#,
                Fate::Failed { wait: None },
            ),
        ];
        for (error, fate) in errors {
            let mut stream = StreamReader::default();
            stream.push(format!("event: error\ndata: {error}\n\n").as_bytes());
            let failure = stream.failure(&Reader::default(), UnixMillis(0)).expect("an error");
            let (in_stream, again) = read(Outcome::in_stream(failure));
            let status = if matches!(fate, Fate::Failed { .. }) { 529 } else { 429 };
            let (by_reply, retried) = read(reply(status, &[]).body(error.as_bytes()));
            assert_eq!(in_stream.fate, fate, "{error}");
            assert_eq!((in_stream.fate, again), (by_reply.fate, retried), "{error}");
        }
    }
}
