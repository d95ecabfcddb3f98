//! The body of an acquire: the call for which a permit is requested.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{Response, StatusCode};
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use tidegate::{Call, Dimension};

use crate::auth::Caller;
use crate::body::Body;
use crate::error_format;
use crate::v1::Api;
use crate::v1::json_body::read;

/// The longest id that a caller may give.
const MAX_ID: usize = 256;

/// The body of `POST /v1/acquire`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(in crate::v1) struct AcquireRequest {
    service: String,
    endpoint: Option<String>,
    model: Option<String>,
    #[serde(skip_serializing)]
    key: Option<String>,
    #[serde(skip_serializing)]
    id: Option<String>,
    #[serde(rename = "loop")]
    loop_id: Option<String>,
    loop_type: Option<String>,
    priority: Option<String>,
    #[serde(default)]
    cost: BTreeMap<String, Number>,
    #[serde(skip_serializing)]
    timeout_ms: Option<u64>,
}

/// Sets a field of a call.
type SetField = fn(Call, &str) -> Call;

/// Why a field is invalid: code and message.
pub(in crate::v1) type BadField = (&'static str, String);

impl AcquireRequest {
    /// Reads a request and the call that it describes, and checks that the caller may make that call.
    ///
    /// # Errors
    /// Returns the answer to a request that is invalid or not allowed.
    pub async fn read(
        api: &Api,
        caller: &Caller,
        body: Incoming,
    ) -> Result<(AcquireRequest, Call), Box<Response<Body>>> {
        let (request, _): (AcquireRequest, _) = read(api, body).await?;
        let response = |status, code, message: &str| Box::new(error_format::plain(status, code, message));
        let wrong = |(code, message): BadField| response(StatusCode::BAD_REQUEST, code, &message);
        let call = request.call().map_err(wrong)?;
        let may = caller.may_call(&call, &api.shared.config.active().config);
        may.map_err(|(status, code, message)| response(status, code, message))?;
        Ok((request, call))
    }

    pub fn service(&self) -> &str {
        &self.service
    }

    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    pub fn loop_id(&self) -> Option<&str> {
        self.loop_id.as_deref()
    }

    /// Returns a text by which a repeated request is recognised. It leaves the timeout out, and has only a fingerprint of
    /// the key.
    pub fn identity(&self, fingerprint: impl FnOnce(&str) -> String) -> String {
        let key = self.key.as_deref().map(fingerprint);
        // Serializing text and numbers cannot fail.
        format!("{} {key:?}", serde_json::to_string(self).unwrap_or_default())
    }

    /// Returns the call that the request describes.
    fn call(&self) -> Result<Call, BadField> {
        let wrong = |message: String| ("bad_request", message);
        if self.id.as_ref().is_some_and(|id| id.is_empty() || id.len() > MAX_ID) {
            return Err(wrong(format!("`id` is empty or longer than {MAX_ID} bytes")));
        }
        let mut call = Call::to(&self.service);
        for (dimension, units) in units(&self.cost)? {
            call = match units {
                Units::Whole(units) => call.units(dimension, units),
                Units::Dollars(dollars) => call.usd(dollars),
            };
        }
        let texts: [(&Option<String>, SetField); 5] = [
            (&self.endpoint, Call::endpoint),
            (&self.model, Call::model),
            (&self.key, Call::key),
            (&self.loop_id, Call::loop_id),
            (&self.loop_type, Call::loop_type),
        ];
        for (text, state) in texts {
            if let Some(text) = text {
                call = state(call, text);
            }
        }
        if let Some(priority) = &self.priority {
            call = call.priority(priority.parse().map_err(|error| wrong(format!("{error}")))?);
        }
        if let Some(ms) = self.timeout_ms {
            call = call.timeout(Duration::from_millis(ms));
        }
        Ok(call)
    }
}

/// An amount of one unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Units {
    Whole(u64),
    Dollars(f64),
}

/// Reads a cost: dollars with a fraction, all other units whole.
pub(super) fn units(cost: &BTreeMap<String, Number>) -> Result<Vec<(Dimension, Units)>, BadField> {
    let wrong = |name: &str, number: &Number| {
        let message = format!("`{name}` cannot be {number}: it is a whole number, and not negative");
        ("invalid_cost", message)
    };
    let read = |(name, number): (&String, &Number)| {
        let dimension = Dimension::from_name(name);
        let units = match dimension {
            Dimension::MicroUsd => number.as_f64().filter(|dollars| *dollars >= 0.0).map(Units::Dollars),
            _ => number.as_u64().or_else(|| whole_number(number)).map(Units::Whole),
        };
        units.map(|units| (dimension, units)).ok_or_else(|| wrong(name, number))
    };
    cost.iter().map(read).collect()
}

/// Reads `12.0` as 12, since some languages write it so.
fn whole_number(number: &Number) -> Option<u64> {
    let float = number.as_f64()?;
    (float >= 0.0 && float.fract() == 0.0 && float < 9e15).then_some(float as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Call, String> {
        let request: AcquireRequest = serde_json::from_str(text).map_err(|error| error.to_string())?;
        request.call().map_err(|(code, _)| code.to_owned())
    }

    #[test]
    fn every_field_becomes_a_part_of_the_call() {
        let call = read(
            r#"{"service": "openai", "endpoint": "POST /v1/x", "model": "gpt", "key": "sk-secret", "id": "a",
                "loop": "agent-7", "loop_type": "code", "priority": "high",
                "cost": {"tokens": 1200, "usd": 0.25, "credits": 3.0}, "timeout_ms": 250}"#,
        )
        .expect("a call");
        assert_eq!((call.service(), call.stated_model()), ("openai", Some("gpt")));
        assert_eq!((call.stated_endpoint(), call.stated_loop_type()), (Some("POST /v1/x"), Some("code")));
        assert_eq!(call.stated_priority(), Some(tidegate::Priority::High));
        assert_eq!(call.stated_timeout(), Some(Duration::from_millis(250)));
        let units = |name: &str| call.cost().units(&Dimension::from_name(name));
        assert_eq!((units("tokens"), units("usd"), units("credits")), (1_200, 250_000, 3));
        let said = format!("{call:?}");
        assert!(said.contains("agent-7") && !said.contains("sk-secret"), "{said}");
    }

    #[test]
    fn what_is_unknown_or_makes_no_sense_is_told() {
        for (text, word) in [
            (r#"{"service": "a", "prority": "high"}"#, "prority"),
            (r#"{"endpoint": "GET /"}"#, "service"),
            (r#"{"service": "a", "priority": "urgent"}"#, "bad_request"),
            (r#"{"service": "a", "id": ""}"#, "bad_request"),
            (r#"{"service": "a", "cost": {"tokens": -1}}"#, "invalid_cost"),
            (r#"{"service": "a", "cost": {"tokens": 1.5}}"#, "invalid_cost"),
            (r#"{"service": "a", "cost": {"usd": -0.1}}"#, "invalid_cost"),
        ] {
            assert!(read(text).expect_err("not so").contains(word), "{text}");
        }
    }

    #[test]
    fn the_same_is_known_again_however_long_it_may_wait_and_no_key_is_kept_for_that() {
        let identity = |text: &str| {
            serde_json::from_str::<AcquireRequest>(text)
                .expect("valid")
                .identity(|key| tidegate_core::Salt::default().fingerprint(key))
        };
        let one = identity(r#"{"service": "a", "key": "sk-1", "timeout_ms": 5, "id": "x"}"#);
        assert_eq!(one, identity(r#"{"service": "a", "key": "sk-1", "id": "x"}"#));
        assert_ne!(one, identity(r#"{"service": "a", "key": "sk-2", "id": "x"}"#));
        assert_ne!(one, identity(r#"{"service": "a", "key": "sk-1", "cost": {"tokens": 1}}"#));
        assert!(!one.contains("sk-1"), "{one}");
    }
}
