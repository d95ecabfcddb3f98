//! Services and loop types of the config.

use crate::config::{BackoffConfig, Headers, Mode, Queued, SettleRule};
use crate::model::SpecId;
use crate::model::pattern::Pattern;
use crate::model::priority::Priority;
use std::sync::Arc;

/// What became of a service's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceCounts {
    /// Went.
    pub granted: u64,
    /// Would not wait, and did not fit.
    pub refused: u64,
    /// Waited in vain.
    pub timed_out: u64,
    /// Pushed out of a full queue.
    pub shed: u64,
    /// Went although they did not fit, because the service is only observed.
    pub would_wait: u64,
}

/// A service of the config.
#[derive(Debug, Default)]
pub(crate) struct Service {
    pub specs: Vec<SpecId>,
    pub endpoints: Vec<(Pattern, Vec<SpecId>)>,
    pub models: Vec<(Pattern, Vec<SpecId>)>,
    pub per_key: bool,
    pub observe: bool,
    pub keep: bool,
    /// What has a breaker: endpoints by pattern, and all others.
    pub breakers: Breakers,
    /// Models that no pattern names and that have routes of their own.
    pub other_models: Vec<Arc<str>>,
    pub counts: ServiceCounts,
    /// Whether it starts slowly after a time without calls.
    pub ramps: bool,
    /// No longer in the config.
    pub gone: bool,
    pub queue: QueueRules,
    pub replies: ReplyRules,
}

/// How calls of a service wait.
#[derive(Debug, Default)]
pub(crate) struct QueueRules {
    pub aging: u64,
    /// In millionths.
    pub aging_share: i128,
    pub timeout: Option<std::time::Duration>,
    pub max_waiting: usize,
}

/// What replies of a service do.
#[derive(Debug, Default)]
pub(crate) struct ReplyRules {
    /// Whether calls that wait are refused when a breaker opens.
    pub fail_queued: bool,
    pub backoff: BackoffConfig,
    /// Whether a call that was turned away counts at the upstream all the same.
    pub failures_count: bool,
    /// What replies may do to limits.
    pub headers: Headers,
}

/// The breakers of a service.
#[derive(Debug, Default)]
pub(crate) struct Breakers {
    pub endpoints: Vec<(Box<str>, SpecId)>,
    pub others: Option<SpecId>,
}

impl Service {
    pub fn set_rules(&mut self, config: &crate::config::ServiceConfig) {
        self.per_key = config.per_key;
        self.observe = config.mode == Mode::Observe;
        self.keep = config.settle == SettleRule::Keep;
        self.queue.aging = crate::model::time::whole_nanos(config.queue.aging).max(1_000_000);
        self.queue.aging_share = (config.queue.aging_share * 1e6) as i128;
        self.queue.timeout = config.queue.timeout;
        self.queue.max_waiting = config.queue.max_waiting;
        self.replies.fail_queued =
            config.breaker.as_ref().is_some_and(|breaker| breaker.queued == Queued::Fail);
        self.replies.backoff = config.backoff.clone();
        self.replies.failures_count = config.failures_count;
        self.replies.headers = config.headers;
        self.gone = false;
    }
}

/// A loop type of the config.
#[derive(Clone, Debug)]
pub(crate) struct LoopType {
    pub specs: Vec<SpecId>,
    pub priority: Option<Priority>,
    pub inverse: u64,
}
