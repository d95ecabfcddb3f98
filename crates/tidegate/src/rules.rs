//! What the config says about calls that failed, service by service.
//!
//! The engine keeps limits and queues; this is for those who end calls and try them again, and is read without
//! the engine's lock. A new config makes new rules. The retry budgets are carried over to them: what was retried
//! in the last seconds does not become undone because a file was saved.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_core::Call;
use tidegate_core::config::presets;
use tidegate_core::reply::Reader;
use tidegate_core::retry::{Budget, RetryPolicy};
use tidegate_core::vendors::{Counting, Vendor};

use crate::config::Config;

/// What a config says about calls that failed.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    config: Config,
    /// Whose a service is, if its config says so: asked several times for each call.
    vendors: HashMap<String, &'static Vendor>,
    retries: HashMap<String, Retries>,
    /// Whether attempts that were refused count among the retries.
    refusals_count: bool,
}

/// When and how often the failed calls of a service are tried again.
#[derive(Clone, Debug)]
pub(crate) struct Retries {
    pub policy: RetryPolicy,
    /// Shared by all calls of the service.
    pub budget: Arc<Mutex<Budget>>,
    /// The share that the budget was made for, as it was written.
    share: Option<f64>,
}

impl Rules {
    /// The rules of a config, with the budgets of those before it.
    pub fn new(config: Config, refusals_count: bool, before: &Rules) -> Rules {
        let of_service = |(name, service): (&String, &tidegate_core::config::ServiceConfig)| {
            // A config in force was checked, so the default is never needed.
            let policy = RetryPolicy::from_config(&service.retry).unwrap_or_default();
            let policy = policy.refusals_count(refusals_count);
            let share = service.retry.budget;
            let kept = before.retries.get(name).filter(|kept| kept.share == share);
            let budget = kept.map_or_else(|| new_budget(&policy), |kept| kept.budget.clone());
            (name.clone(), Retries { policy, budget, share })
        };
        let retries = config.services.iter().map(of_service).collect();
        let vendor = |name: &String| Some((name.clone(), config.vendor(name)?));
        let vendors = config.services.keys().filter_map(vendor).collect();
        Rules { config, vendors, retries, refusals_count }
    }

    /// The same under another config.
    pub fn under(&self, config: Config) -> Rules {
        Rules::new(config, self.refusals_count, self)
    }

    /// Whose replies a service gets, if its config says so.
    #[cfg(feature = "wire")]
    pub fn vendor(&self, service: &str) -> Option<&'static Vendor> {
        self.vendors.get(service).copied()
    }

    /// What becomes of calls to a service whose bodies cannot be read.
    #[cfg(feature = "wire")]
    pub fn unread(&self, service: &str) -> tidegate_core::config::Unread {
        self.config.services.get(service).map(|service| service.unread).unwrap_or_default()
    }

    /// How a service counts tokens.
    pub fn counting(&self, service: &str) -> Counting {
        self.vendors.get(service).map_or(Counting::PLAIN, |vendor| vendor.counting)
    }

    /// Who reads the replies of a service.
    pub fn reader(&self, service: &str) -> Reader<'_> {
        self.config.reader(service)
    }

    /// The service that a call goes to, by its name: one that names none goes to the only one there is.
    pub fn service<'s>(&'s self, call: &'s Call) -> &'s str {
        match (call.service(), self.retries.len()) {
            ("", 1) => self.retries.keys().next().map_or("", String::as_str),
            (named, _) => named,
        }
    }

    /// Whether the preset of a service marks an endpoint as one that does no harm twice.
    pub fn repeats(&self, service: &str, endpoint: &str) -> bool {
        let preset = self.config.services.get(service).and_then(|service| service.preset.as_deref());
        preset.and_then(presets::by_name).is_some_and(|preset| preset.repeats(endpoint))
    }

    /// When the calls of a service are tried again. Those of one that is unknown are refused by the engine before
    /// any of this matters.
    pub fn retries(&self, service: &str) -> Retries {
        self.retries.get(service).cloned().unwrap_or_else(|| {
            let policy = RetryPolicy::default();
            Retries { budget: new_budget(&policy), policy, share: None }
        })
    }
}

fn new_budget(policy: &RetryPolicy) -> Arc<Mutex<Budget>> {
    Arc::new(Mutex::new(policy.new_budget()))
}
