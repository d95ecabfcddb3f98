//! What a config must be beyond well-formed: values in range, and nothing that contradicts itself.
//!
//! The checks look at the model and not at the text, so a config built in Rust and one read from a file meet
//! the same ones. Each problem names its field by path; the parser knows where each path was written.

mod after_failure;
mod level;
mod names;
mod service;

use std::fmt;

use super::Config;
use super::hint::{did_you_mean, quoted};
use super::path::join;

pub(super) use level::rate_path;
pub(super) use names::is_listen_address;

/// Something in a [`Config`] that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The field, such as `services.openai.concurrency`.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, " ({hint})"))
    }
}

impl Config {
    /// Whether a config built in Rust meets the checks that a file must meet.
    ///
    /// ```
    /// use tidegate_core::config::Config;
    ///
    /// let mut config = Config::default();
    /// config.global.concurrency = Some(0);
    /// let problems = config.validate().unwrap_err();
    /// assert_eq!(problems[0].path, "global.concurrency");
    /// ```
    ///
    /// # Errors
    /// Everything that is out of range or contradicts itself.
    pub fn validate(&self) -> Result<(), Vec<Problem>> {
        let problems = check(self);
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

/// Everything that is wrong with a config.
pub(super) fn check(config: &Config) -> Vec<Problem> {
    let mut check = Check { problems: Vec::new() };
    check.top(config);
    check.level("global", &config.global);
    check.level("loops", &config.loops);
    if config.loops.throttled_concurrency.is_some() {
        let message = "a loop has no throttled mode of its own: an upstream turns away calls, not loops";
        let hint = "write it for the service, an endpoint or a model";
        check.report("loops.throttled_concurrency", message, hint);
    }
    for (name, service) in &config.services {
        check.service(name, service, &config.profiles);
    }
    for (name, loop_type) in &config.loop_types {
        let path = join("loop_types", name);
        if name.is_empty() {
            check.report(&path, "a loop type must have a name", None);
        }
        check.level(&path, &loop_type.limits);
        let weight = join(&path, "weight");
        if !(loop_type.weight.is_finite() && loop_type.weight > 0.0) {
            let message = format!("a weight of {} shares nothing out", loop_type.weight);
            check.report(&weight, message, "use a number above 0, such as 4");
        }
    }
    check.problems
}

struct Check {
    problems: Vec<Problem>,
}

impl Check {
    fn report<'h>(&mut self, path: &str, message: impl Into<String>, hint: impl Into<Option<&'h str>>) {
        self.problems.push(Problem {
            path: path.to_owned(),
            message: message.into(),
            hint: hint.into().map(str::to_owned),
        });
    }

    fn top(&mut self, config: &Config) {
        if !names::is_listen_address(&config.listen) {
            let hint = "write a host and a port, such as `127.0.0.1:8429`";
            self.report("listen", "this is not an address to listen on", hint);
        }
        if config.listen_unix.as_deref() == Some("") {
            self.report("listen_unix", "the path of the socket is empty", "name a file, or leave it out");
        }
        if config.permit_lease.is_zero() {
            let hint = "write how long a permit lasts that nobody renews, such as \"5m\"";
            self.report("permit_lease", "a lease of 0 ends before the work begins", hint);
        }
        self.auth(config);
        let state = &config.state;
        if state.path.as_deref() == Some("") {
            self.report("state.path", "the folder of the state file is empty", "name a folder");
        }
        if let Some(redis) = &state.redis {
            // Without Redis each machine would spend the whole quota: refused, never ignored.
            let message = if names::is_url(redis, &names::REDIS_SCHEMES) {
                "Redis is not supported yet: every machine would have the whole quota to itself"
            } else {
                "this is not the URL of a Redis, and Redis is not supported yet"
            };
            let hint = "remove `redis`: each machine then has limits of its own, to be written as its share";
            self.report("state.redis", message, hint);
        }
        if let Some(alerts) = &config.alerts {
            if !(alerts.approaching > 0.0 && alerts.approaching <= 1.0) {
                let message = format!("a share of {} is not above 0 and at most 1", alerts.approaching);
                self.report("alerts.approaching", message, "write 80 % as 0.8");
            }
            if let Some(webhook) = &alerts.webhook {
                self.http_url("alerts.webhook", webhook);
            }
        }
    }

    fn auth(&mut self, config: &Config) {
        for (name, token) in &config.auth.tokens {
            let path = join("auth.tokens", name);
            if token.priorities.as_ref().is_some_and(Vec::is_empty) {
                let hint = "name some, or leave it out for all";
                self.report(&join(&path, "priorities"), "no priority is allowed", hint);
            }
            for service in token.services.iter().flatten() {
                if !config.services.contains_key(service) {
                    let message = format!("there is no service named {}", quoted(service));
                    let hint = did_you_mean(service, config.services.keys().map(String::as_str));
                    self.report(&join(&path, "services"), message, hint.as_deref());
                }
            }
            if config.auth.tokens.iter().any(|(other, same)| other < name && same.sha256 == token.sha256) {
                let hint = "give each holder a token of their own";
                self.report(&join(&path, "sha256"), "another token has the same hash", hint);
            }
        }
    }

    /// A share of a whole, both ends included.
    fn share(&mut self, path: &str, share: f64) {
        if !(0.0..=1.0).contains(&share) {
            self.report(path, format!("a share of {share} is not between 0 and 1"), "write 10 % as 0.1");
        }
    }

    // A URL may carry a password: it is never repeated in a message.
    fn http_url(&mut self, path: &str, url: &str) {
        if !names::is_url(url, &names::HTTP_SCHEMES) {
            let hint = "write it like `https://api.example.com`";
            self.report(path, "this is not an http:// or https:// URL", hint);
        }
    }
}
