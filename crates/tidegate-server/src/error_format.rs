//! Error replies of the sidecar, in the format of the vendor that the client expects.
//!
//! An SDK understands only the errors of its vendor. So a refusal looks like one of the vendor's, and has the sidecar's
//! code, limit and times in it as further fields.

use http::header::HeaderValue;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use tidegate::Refused;
use tidegate_core::vendors::Vendor;

use crate::body::{Body, json as answer};
use crate::refusal::{self, millis};

/// The format in which a vendor writes errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorFormat {
    /// The sidecar's own format.
    Plain,
    OpenAi,
    Anthropic,
    Google,
    Aws,
    /// A message at the top level, as GitHub, Cohere and many others write it.
    Message,
    Slack,
}

/// An error in place of a reply.
struct Told<'t> {
    status: StatusCode,
    code: &'t str,
    message: &'t str,
    /// The limit and the times of a refusal.
    more: Map<String, Value>,
}

/// Returns an error on one of the sidecar's own routes.
pub(crate) fn plain(status: StatusCode, code: &str, message: &str) -> Response<Body> {
    ErrorFormat::Plain.error(status, code, message)
}

impl ErrorFormat {
    pub fn of(vendor: Option<&Vendor>) -> ErrorFormat {
        match vendor.map(|vendor| vendor.name) {
            None => ErrorFormat::Plain,
            Some("anthropic") => ErrorFormat::Anthropic,
            Some("google-gemini") => ErrorFormat::Google,
            Some("aws-bedrock") => ErrorFormat::Aws,
            Some("slack") => ErrorFormat::Slack,
            Some(
                "openai" | "azure-openai" | "groq" | "deepseek" | "xai" | "together" | "cerebras"
                | "fireworks" | "kimi" | "nous" | "openrouter" | "litellm" | "stripe",
            ) => ErrorFormat::OpenAi,
            Some(name) if name.starts_with("generic") => ErrorFormat::Plain,
            Some(_) => ErrorFormat::Message,
        }
    }

    /// Returns the reply to a call that the gate refused.
    pub fn refused(self, refused: &Refused) -> Response<Body> {
        let mut more = Map::new();
        more.insert("limit".into(), refused.limit().into());
        more.insert("retry_after_ms".into(), refused.wait().map(millis).into());
        let reset = refused.reset().and_then(|reset| jiff::Timestamp::try_from(reset).ok());
        more.insert("reset_at".into(), reset.map(|reset| format!("{reset:.3}")).into());
        let (code, message) = (refused.reason().code(), refused.to_string());
        let mut response =
            self.write(&Told { status: refusal::status(refused), code, message: &message, more });
        response.headers_mut().extend(refusal::headers(refused));
        response
    }

    /// Returns the reply to a call that failed for another reason. The SDK must not retry: what was worth retrying was
    /// retried.
    pub fn error(self, status: StatusCode, code: &str, message: &str) -> Response<Body> {
        let mut response = self.write(&Told { status, code, message, more: Map::new() });
        response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
        response
    }

    fn write(self, told: &Told<'_>) -> Response<Body> {
        let Told { status, code, message, more } = told;
        let kind = kind(*status);
        let mut error = json!({ "code": code, "message": message });
        let mut value = match self {
            ErrorFormat::Plain => json!({ "error": error }),
            ErrorFormat::OpenAi => {
                error["type"] = kind.openai.into();
                error["param"] = Value::Null;
                json!({ "error": error })
            }
            ErrorFormat::Anthropic => json!({
                "type": "error",
                "error": { "type": kind.anthropic, "message": message, "details": { "error_code": code } },
            }),
            ErrorFormat::Google => json!({
                "error": { "code": status.as_u16(), "message": message, "status": kind.google, "reason": code },
            }),
            ErrorFormat::Aws => json!({ "message": message, "code": code }),
            ErrorFormat::Message => json!({ "message": message, "code": code }),
            ErrorFormat::Slack => {
                json!({ "ok": false, "error": if *status == 429 { "ratelimited" } else { code } })
            }
        };
        let place = match self {
            ErrorFormat::Aws | ErrorFormat::Message | ErrorFormat::Slack => &mut value,
            _ => &mut value["error"],
        };
        if let Value::Object(place) = place {
            place.extend(more.clone());
        }
        let mut response = answer(*status, &value);
        if self == ErrorFormat::Aws {
            response.headers_mut().insert("x-amzn-errortype", HeaderValue::from_static(kind.aws));
        }
        response
    }
}

/// The names that each vendor has for errors of one status.
struct Kind {
    openai: &'static str,
    anthropic: &'static str,
    google: &'static str,
    aws: &'static str,
}

fn kind(status: StatusCode) -> Kind {
    let [openai, anthropic, google, aws] = match status.as_u16() {
        429 => ["rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED", "ThrottlingException"],
        404 => ["invalid_request_error", "not_found_error", "NOT_FOUND", "ResourceNotFoundException"],
        413 => ["invalid_request_error", "request_too_large", "INVALID_ARGUMENT", "ValidationException"],
        400..=499 => {
            ["invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT", "ValidationException"]
        }
        504 => ["server_error", "timeout_error", "DEADLINE_EXCEEDED", "ModelTimeoutException"],
        503 => ["server_error", "overloaded_error", "UNAVAILABLE", "ServiceUnavailableException"],
        _ => ["server_error", "api_error", "INTERNAL", "InternalServerException"],
    };
    Kind { openai, anthropic, google, aws }
}
