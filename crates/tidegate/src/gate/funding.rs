//! The engine as the lender's port: how a gate gets its state file, and how the file's thread talks with the engine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Outputs;
use tidegate_core::engine::Found;
use tidegate_core::{Engine, Nanos};

use super::persistence::{NOTES, Persistence};
use super::shared::Shared;
use crate::state::{FundingPort, OnFailure, StateFile, StateWriter, Store, Taken};

/// How many pages are taken at a time: the lock is not held for long.
const AT_A_TIME: usize = 256;

impl Shared {
    /// Gives a new gate its state file.
    pub fn keep_in(self, mut file: StateFile) -> Arc<Shared> {
        let found = file.found.take().unwrap_or_default();
        if let Some(kept) = file.fact("outputs").and_then(|text| serde_json::from_str(&text).ok()) {
            *self.outputs.lock() = Outputs::from_kept(kept);
        }
        let notes = NOTES.iter().filter_map(|name| Some((*name, file.fact(name)?))).collect();
        let (path, on_failure) = (file.path().to_owned(), file.on_failure);
        self.keep_with(found, notes, path, on_failure, Box::new(file))
    }

    /// Gives a new gate its state, wherever that is written to.
    pub fn keep_with(
        mut self,
        found: Found,
        notes: BTreeMap<&'static str, String>,
        path: PathBuf,
        on_failure: OnFailure,
        store: Box<dyn Store>,
    ) -> Arc<Shared> {
        let heard = self.outputs.lock().heard();
        let writer = Arc::new(StateWriter::new(on_failure));
        self.persistence = Some(Persistence::new(writer.clone(), path, notes, heard));
        // The file was checked when it was opened.
        let kept = self.with(|engine, now| engine.keep_book(found, now));
        debug_assert!(kept.is_ok());
        self.log_limits_begun_as_spent();
        let shared = Arc::new(self);
        writer.start(&shared, store);
        shared
    }

    /// Runs `work` on the engine. It decides about no call, so nothing is published.
    fn quietly<T>(&self, work: impl FnOnce(&mut Engine, Nanos) -> T) -> T {
        let mut inner = self.lock();
        let now = self.clock.now(&inner.engine);
        work(&mut inner.engine, now)
    }

    /// Logs which limits began as spent, because it is not known what was spent.
    fn log_limits_begun_as_spent(&self) {
        let names = self.quietly(|engine, _| engine.take_begun_as_spent());
        if !names.is_empty() {
            let limits = names.join(", ");
            tracing::error!(
                limits,
                "what was spent is not known: these limits begin as spent for one window"
            );
        }
    }
}

impl FundingPort for Shared {
    fn poll(&self, last: bool) -> Taken {
        let facts = self.persistence.as_ref().map(|it| it.facts_due(&self.outputs, last)).unwrap_or_default();
        if last {
            return self.quietly(|engine, now| Persistence::last_batch(engine, now, facts));
        }
        let anew = self.persistence.as_ref().is_some_and(Persistence::take_unwritten);
        let engine = self.quietly(|engine, now| {
            if anew {
                engine.all_pages_due();
            }
            engine.facts(now)
        });
        self.log_limits_begun_as_spent();
        let mut pages = Vec::new();
        loop {
            let (some, now) = self.quietly(|engine, now| (engine.pages(AT_A_TIME, now), now));
            if some.is_empty() {
                return Taken { pages, engine, facts, now, clean: false, anew };
            }
            pages.extend(some);
        }
    }

    fn answer(&self, taken: &Taken, written: bool, takes: Duration) {
        if !written && let Some(persistence) = &self.persistence {
            persistence.not_written(taken);
        }
        if taken.clean {
            return;
        }
        self.with(|engine, now| {
            engine.pages_take(takes);
            if written {
                taken.engine.iter().for_each(|facts| engine.facts_written(facts));
                engine.written(&taken.pages, now);
            } else {
                if taken.engine.is_some() {
                    engine.facts_not_written();
                }
                engine.not_written(&taken.pages, now, now);
            }
        });
    }

    fn restart(&self) {
        if let Some(persistence) = &self.persistence {
            persistence.restart();
        }
    }
}
