//! What the report says about windows and breakers, as the engine tells of them.
//!
//! Asked after every call that did not go well, since only then one opens.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_core::Nanos;
use tidegate_core::engine::{BreakerState, BreakerStatus};

use super::World;

/// Windows and breakers that are known, each with when it ends.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    windows: HashMap<Arc<str>, Nanos>,
    breakers: HashMap<Arc<str>, Nanos>,
}

impl World<'_> {
    /// Writes down what has opened.
    pub(super) fn note_trouble(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        for window in engine.backoffs(self.now) {
            let until = self.now.after(window.open_for);
            let known = self.trouble.windows.insert(window.key.clone(), until).unwrap_or_default();
            for service in concerned(&self.service_names, &window.key) {
                let opened = known <= self.now && until > self.now;
                self.tally.backs_off(service, opened, until, self.now);
            }
        }
        if self.scenario.config.services.values().all(|service| service.breaker.is_none()) {
            return;
        }
        for BreakerStatus { name, state, .. } in engine.breakers(self.now) {
            let BreakerState::Open { probe_in } = state else { continue };
            let until = self.now.after(probe_in);
            if self.trouble.breakers.insert(name.clone(), until) != Some(until) {
                for service in concerned(&self.service_names, &name) {
                    self.tally.service(service).breaker_openings += 1;
                }
            }
        }
    }

    /// A window was ended by hand.
    pub(super) fn window_ended(&mut self, key: &str) {
        self.trouble.windows.remove(key);
        for service in concerned(&self.service_names, key) {
            let names = &self.service_names;
            let others =
                self.trouble.windows.iter().filter(|(key, _)| concerned(names, key).contains(&service));
            let until = others.map(|(_, until)| *until).max().unwrap_or_default();
            self.tally.backs_off_until(service, until.max(self.now));
        }
    }
}

/// The services that a key is about: the one that it begins with, else all.
fn concerned(services: &[String], key: &str) -> Vec<usize> {
    let named = key.split('/').next().unwrap_or_default();
    match services.iter().position(|service| service == named) {
        Some(service) => vec![service],
        None => (0..services.len()).collect(),
    }
}
