//! What a gate shows: its limits, windows and breakers, what it has learned, and what a call would meet.

use tidegate_core::engine::{
    BackoffStatus, BreakerStatus, Explained, LearnedLimit, Lesson, LimitStatus, News, Outlook, ServiceCounts,
    Terms,
};
use tidegate_core::{Advice, Outputs};
use tidegate_core::{Call, Nanos, Priority};

use super::Gate;
use crate::refused::Refused;

/// What a call would meet.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The priority that it has, its own or its loop type's.
    pub priority: Priority,
    /// Whether it would go now; else what would hold it, and for how long.
    pub outlook: Outlook,
    /// The limits on its way, in the order in which it passes them.
    pub limits: Vec<Explained>,
    /// What each of them says, in the same order.
    pub terms: Vec<Terms>,
    /// The output that such calls have on average, if there is experience.
    pub expected_output: Option<u64>,
    /// What they could ask for at most, if they ask for much more than they need.
    pub advice: Option<Advice>,
}

/// # What it shows
impl Gate {
    /// Returns the fingerprint that stands for an API key in the names of its limits. With a state file it stays the same
    /// across restarts; without one, each gate has fingerprints of its own.
    #[must_use]
    pub fn fingerprint(&self, key: &str) -> String {
        self.shared.with(|engine, _| engine.fingerprint(key))
    }

    /// Every limit as it stands.
    #[must_use]
    pub fn limits(&self) -> Vec<LimitStatus> {
        self.shared.with(|engine, now| engine.limits(now))
    }

    /// One limit as it stands.
    #[must_use]
    pub fn limit(&self, name: &str) -> Option<LimitStatus> {
        self.shared.limit(name)
    }

    /// What became of a service's calls.
    #[must_use]
    pub fn counts(&self, service: &str) -> Option<ServiceCounts> {
        self.shared.lock().engine.counts(service)
    }

    /// The time by the gate's clock, as its resets have it.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.shared.now()
    }

    /// How many calls wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.waiting()
    }

    /// The backoff windows that are open or were not long ago.
    #[must_use]
    pub fn backoffs(&self) -> Vec<BackoffStatus> {
        self.shared.with(|engine, now| engine.backoffs(now))
    }

    /// Every breaker as it stands.
    #[must_use]
    pub fn breakers(&self) -> Vec<BreakerStatus> {
        self.shared.with(|engine, now| engine.breakers(now))
    }

    /// What a call would meet if it came now: whether it would go, what would hold it and for how long, the limits that it
    /// must pass, how they stand, and what was learned about them. It consumes nothing.
    ///
    /// ```
    /// use tidegate::{Call, Config, Gate};
    ///
    /// let gate = Gate::builder().config(Config::parse("[services.openai]\nrequests = \"500/min\"")?).build()?;
    /// let explanation = gate.explain(&Call::to("openai"))?;
    /// assert_eq!(&*explanation.limits[0].limit, "openai/requests/1m");
    /// assert!(explanation.limits[0].learned.is_none(), "no reply has told anything yet");
    /// assert_eq!(explanation.outlook, tidegate::Outlook::Goes);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the call names a service that is not there.
    pub fn explain(&self, call: &Call) -> Result<Explanation, Refused> {
        let call = &self.shared.priced(call.clone());
        let told = self.shared.with(|engine, now| {
            let priority = engine.priority_of(call, now)?;
            let terms = engine.passages(call, now)?.into_iter().map(|passage| passage.terms).collect();
            Ok((priority, engine.outlook(call, now)?, engine.explain(call, now)?, terms))
        });
        let (priority, outlook, limits, terms) = told.map_err(|refusal| self.shared.refused(refusal))?;
        let outputs = self.shared.outputs.lock();
        let (expected_output, advice) = (outputs.expected(call), outputs.advice(call));
        Ok(Explanation { priority, outlook, limits, terms, expected_output, advice })
    }

    /// Every limit about which something was learned.
    #[must_use]
    pub fn learned(&self) -> Vec<LearnedLimit> {
        self.shared.with(|engine, now| engine.learned(now))
    }

    /// What was learned since this was last asked, oldest first; of very many the latest.
    #[must_use]
    pub fn lessons(&self) -> Vec<Lesson> {
        self.shared.with(|engine, _| engine.lessons())
    }

    /// What happened to windows and breakers since this was last asked, oldest first; of very many the latest.
    #[must_use]
    pub fn news(&self) -> Vec<News> {
        self.shared.with(|engine, _| engine.news())
    }

    /// Waits until there are [lessons](Gate::lessons) or [news](Gate::news) that nobody has waited for. For one listener:
    /// of several, one is woken.
    pub async fn noticed(&self) {
        self.shared.noticed.notified().await;
    }

    /// Experience with how much output calls have.
    #[must_use]
    pub fn outputs(&self) -> Outputs {
        self.shared.outputs.lock().clone()
    }
}
