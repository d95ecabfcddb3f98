//! Errors in the shape of whoever is being played.
//!
//! Which words a refusal has depends on the endpoint; what it gives away about the limit depends on the header
//! style: only OpenAI, Azure and the IETF's drafts tell it in the body, and a style that says little says
//! little here too.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_core::WindowName;

use super::asked::{Asked, Shape};
use crate::scenario::{HeaderStyle, Model, UpstreamLimit};
use crate::upstream::headers::{go_duration, seconds};
use crate::upstream::{Headers, RefusedBy};

/// All that there is to say about a refused request.
#[derive(Debug)]
pub(super) struct Refusal {
    pub status: u16,
    pub headers: Headers,
    pub style: HeaderStyle,
    pub limit: UpstreamLimit,
    pub by: RefusedBy,
    pub remaining: u64,
    pub requested: u64,
}

impl Refusal {
    pub fn body(&self, asked: &Asked) -> Value {
        match (asked.shape, self.style) {
            (Shape::Messages, _) => anthropic("rate_limit_error", &self.anthropic_message()),
            (Shape::Chat | Shape::Responses | Shape::Embeddings, HeaderStyle::Azure) => {
                json!({ "error": { "code": "429", "message": self.azure_message() } })
            }
            (Shape::Chat | Shape::Responses | Shape::Embeddings, _) => self.openai(asked),
            (Shape::Other, HeaderStyle::GitHub) => self.github(),
            (Shape::Other, HeaderStyle::IetfOld | HeaderStyle::IetfNew) => self.problem(),
            (Shape::Other, _) => plain("rate_limit_exceeded", "Too many requests."),
        }
    }

    fn openai(&self, asked: &Asked) -> Value {
        let kind = if self.limit.dimension.name().contains("token") { "tokens" } else { "requests" };
        let code = if self.is_slots() { "too_many_concurrent_requests" } else { "rate_limit_exceeded" };
        let message = self.openai_message(asked).unwrap_or_else(|| "Rate limit reached.".to_owned());
        json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
    }

    /// The words of OpenAI, from which the exact wait can be read: only if that is its style.
    fn openai_message(&self, asked: &Asked) -> Option<String> {
        let limit = &self.limit;
        if self.style != HeaderStyle::OpenAi || self.by.hidden || self.is_slots() {
            return None;
        }
        let (size, unit) = (limit.rate.units(), limit.dimension.name());
        let per = match limit.rate.window().as_secs() {
            60 => format!("{unit} per min ({}PM)", initial(unit)),
            86_400 => format!("{unit} per day ({}PD)", initial(unit)),
            _ => format!("{unit} per {}", WindowName(limit.rate.window())),
        };
        let at = format!("for {} in organization org-sim on {per}: Limit {size}", asked.model);
        let requested = self.requested;
        Some(match self.by.wait {
            Some(wait) => format!(
                "Rate limit reached {at}, Used {}, Requested {requested}. Please try again in {}. \
                 Visit https://platform.openai.com/account/rate-limits to learn more.",
                size.saturating_sub(self.remaining),
                go_duration(wait),
            ),
            None => format!(
                "Request too large {at}, Requested {requested}. \
                 The input or output tokens must be reduced in order to run successfully."
            ),
        })
    }

    fn azure_message(&self) -> String {
        let wait = self.by.wait.unwrap_or(Duration::from_secs(1));
        format!(
            "Requests to this operation have exceeded the rate limit of your current pricing tier. \
             Please retry after {} seconds.",
            seconds(wait)
        )
    }

    fn anthropic_message(&self) -> String {
        match &self.limit {
            _ if self.is_slots() => "Number of concurrent requests has exceeded your rate limit.".to_owned(),
            limit if !self.by.hidden && self.style == HeaderStyle::Anthropic => format!(
                "Number of {} has exceeded your rate limit. Please reduce the rate at which you send them.",
                limit.dimension.name().replace('_', " ")
            ),
            _ => "This request would exceed your organization's rate limit.".to_owned(),
        }
    }

    fn github(&self) -> Value {
        let message = match self.by.hidden {
            true => "You have exceeded a secondary rate limit. Please wait before you try again.",
            false => "API rate limit exceeded for user ID 1.",
        };
        json!({ "message": message, "documentation_url": "https://docs.github.com/rest/rate-limits" })
    }

    fn problem(&self) -> Value {
        json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": "Request cannot be satisfied as assigned quota has been exceeded",
        })
    }

    fn is_slots(&self) -> bool {
        self.limit.model == Model::Concurrency
    }
}

/// An upstream that fails, or is down.
pub(super) fn failed(shape: Shape, status: u16) -> Value {
    let down = status == 503;
    match shape {
        Shape::Messages if down => anthropic("overloaded_error", "Overloaded"),
        Shape::Messages => anthropic("api_error", "Internal server error"),
        Shape::Other if down => plain("service_unavailable", "Down for a while."),
        Shape::Other => plain("internal_error", "Something went wrong."),
        _ => {
            let message = match down {
                true => "The engine is currently overloaded, please try again later",
                false => "The server had an error while processing your request. Sorry about that!",
            };
            json!({ "error": { "message": message, "type": "server_error", "param": null, "code": null } })
        }
    }
}

/// A request that is none.
pub(super) fn malformed(shape: Shape, why: &str) -> Value {
    match shape {
        Shape::Messages => anthropic("invalid_request_error", why),
        Shape::Other => plain("invalid_request", why),
        _ => {
            json!({ "error": { "message": why, "type": "invalid_request_error", "param": null, "code": null } })
        }
    }
}

fn anthropic(kind: &str, message: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}

fn plain(code: &str, message: &str) -> Value {
    json!({ "error": { "code": code, "message": message } })
}

fn initial(unit: &str) -> char {
    unit.chars().next().unwrap_or('R').to_ascii_uppercase()
}
