//! What a caller says about one call, beyond what the config says about all calls.

use std::time::Duration;

use tidegate_core::Call;
use tidegate_core::retry::{RetryPolicy, is_repeatable};
use tokio::time::Instant;

use super::progress::Listeners;
use crate::outcome::Outcome;
use crate::rules::Rules;

pub(super) struct Settings<'a, E> {
    pub policy: Option<RetryPolicy>,
    pub repeatable: Option<bool>,
    pub max_elapsed: Option<Duration>,
    pub deadline: Option<Instant>,
    pub classify: Option<Classify<'a, E>>,
    pub listeners: Listeners<'a>,
    /// Whether attempts are told what held them.
    pub name_limits: bool,
}

type Classify<'a, E> = Box<dyn FnMut(&E) -> Outcome + Send + 'a>;

impl<E> Default for Settings<'_, E> {
    fn default() -> Self {
        Settings {
            policy: None,
            repeatable: None,
            max_elapsed: None,
            deadline: None,
            classify: None,
            listeners: Listeners::default(),
            name_limits: false,
        }
    }
}

impl<E> Settings<'_, E> {
    /// Whether the call may be made again though it may have been done already.
    pub fn is_repeatable(&self, call: &Call, rules: &Rules) -> bool {
        let by_endpoint = |endpoint: &str| {
            let method = endpoint.split(' ').next().unwrap_or_default();
            is_repeatable(method, false, rules.repeats(rules.service(call), endpoint))
        };
        self.repeatable.unwrap_or_else(|| call.stated_endpoint().is_some_and(by_endpoint))
    }
}
