//! After an attempt that failed: whether the call is made again, and when.
//!
//! The rules are those that the core gives every gate: each service's own retry policy decides, under one budget for
//! all its calls. Chance comes from dice of their own, so that more retries change nothing else.

use std::time::Duration;

use tidegate_core::retry::{Budget, Decision, Failure, RetryPolicy, Tries};
use tidegate_core::{Config, Nanos};

use crate::dice::Dice;

/// The retry rules of all services.
#[derive(Debug)]
pub(crate) struct Retries {
    /// By the place of their service in the config.
    services: Vec<(RetryPolicy, Budget)>,
    dice: Dice,
}

impl Retries {
    /// Rules that make no sense are those of a config that no file can give; then the usual ones hold.
    pub fn new(config: &Config, seed: u64) -> Retries {
        let rules = config.services.values().map(|service| {
            let policy = RetryPolicy::from_config(&service.retry).unwrap_or_default();
            let budget = policy.new_budget();
            (policy, budget)
        });
        Retries { services: rules.collect(), dice: Dice::part(seed, "retries", 0) }
    }

    /// A call comes for the first time.
    pub fn call(&mut self, service: usize, now: Nanos) {
        self.services[service].1.call(now);
    }

    /// After how long a call that failed is made again; nothing if it is given up.
    pub fn after(
        &mut self,
        service: usize,
        failure: &Failure,
        tries: &mut Tries,
        now: Nanos,
    ) -> Option<Duration> {
        let (policy, budget) = &mut self.services[service];
        match policy.decide(failure, tries, budget, self.dice.draw(), now) {
            Decision::Retry { after, .. } => {
                tries.again(failure, after);
                Some(after)
            }
            Decision::GiveUp(_) => None,
        }
    }
}
