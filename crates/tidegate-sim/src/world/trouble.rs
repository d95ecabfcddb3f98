//! What the report says about windows and breakers, as the engine tells of them.
//!
//! Asked after every call that did not go well, since only then one opens.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_core::engine::{BreakerState, BreakerStatus};
use tidegate_core::{Config, Engine, Nanos};

use super::tally::Tally;

/// Windows and breakers that are known, each with when it ends.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    windows: HashMap<Arc<str>, Nanos>,
    breakers: HashMap<Arc<str>, Nanos>,
}

impl Trouble {
    /// Counts what has opened.
    pub fn note(
        &mut self,
        engine: &mut Engine,
        config: &Config,
        services: &[String],
        tally: &mut Tally,
        now: Nanos,
    ) {
        for window in engine.backoffs(now) {
            let until = now.after(window.open_for);
            let known = self.windows.insert(window.key.clone(), until).unwrap_or_default();
            for service in concerned(services, &window.key) {
                let opened = known <= now && until > now;
                tally.backs_off(service, opened, until, now);
            }
        }
        if config.services.values().all(|service| service.breaker.is_none()) {
            return;
        }
        for BreakerStatus { name, state, .. } in engine.breakers(now) {
            let BreakerState::Open { probe_in } = state else { continue };
            let until = now.after(probe_in);
            if self.breakers.insert(name.clone(), until) != Some(until) {
                for service in concerned(services, &name) {
                    tally.service(service).breaker_openings += 1;
                }
            }
        }
    }

    /// Takes out a window that was ended by hand.
    pub fn window_ended(&mut self, key: &str, services: &[String], tally: &mut Tally, now: Nanos) {
        self.windows.remove(key);
        for service in concerned(services, key) {
            let others = self.windows.iter().filter(|(key, _)| concerned(services, key).contains(&service));
            let until = others.map(|(_, until)| *until).max().unwrap_or_default();
            tally.backs_off_until(service, until.max(now));
        }
    }
}

/// Returns the services that a key is about: the one that it begins with, else all.
fn concerned(services: &[String], key: &str) -> Vec<usize> {
    let named = key.split('/').next().unwrap_or_default();
    match services.iter().position(|service| service == named) {
        Some(service) => vec![service],
        None => (0..services.len()).collect(),
    }
}
