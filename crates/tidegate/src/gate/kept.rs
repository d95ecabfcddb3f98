//! A gate with a state file: what of it the gate's lock and its thread have to do with each other.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidegate_core::Outputs;
use tidegate_core::engine::Found;
use tidegate_core::{Reason, Refusal};

use super::shared::{Inner, Shared};
use crate::gate::Gate;
use crate::state::{Keeper, OnFailure, StateError, StateFile, Store, Taken};

/// So many pages are taken at a time, that nobody waits long for the lock.
const AT_A_TIME: usize = 256;
/// What is learned about outputs is written this often.
const OUTPUTS: Duration = Duration::from_secs(5);

/// The state of a gate, as the gate sees it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub keeper: Arc<Keeper>,
    path: PathBuf,
    /// Texts that users keep beside it, and those that changed.
    notes: Mutex<(BTreeMap<&'static str, String>, Vec<&'static str>)>,
    /// When outputs were last written, and how much was known then.
    outputs: Mutex<(Instant, u64)>,
    /// Calls went without a promise on disk, or nothing is on disk any more: every limit has to be written anew.
    unwritten: AtomicBool,
}

impl Shared {
    /// Gives a new gate its state.
    pub fn keep_in(self, mut file: StateFile) -> Arc<Shared> {
        let found = file.found.take().unwrap_or_default();
        if let Some(kept) = file.fact("outputs").and_then(|text| serde_json::from_str(&text).ok()) {
            *self.outputs.lock() = Outputs::from_kept(kept);
        }
        let notes = NOTES.iter().filter_map(|name| Some((*name, file.fact(name)?))).collect();
        let (path, on_failure) = (file.path().to_owned(), file.on_failure);
        self.keep_with(found, notes, path, on_failure, Box::new(file))
    }

    /// The same, wherever it is written to.
    pub fn keep_with(
        mut self,
        found: Found,
        notes: BTreeMap<&'static str, String>,
        path: PathBuf,
        on_failure: OnFailure,
        store: Box<dyn Store>,
    ) -> Arc<Shared> {
        let heard = self.outputs.lock().heard();
        let keeper = Arc::new(Keeper::new(on_failure));
        self.state = Some(Kept {
            keeper: keeper.clone(),
            path,
            notes: Mutex::new((notes, Vec::new())),
            outputs: Mutex::new((Instant::now(), heard)),
            unwritten: AtomicBool::new(false),
        });
        // It was looked through when the file was opened.
        let kept = self.act(|engine, now| engine.keep_book(found, now));
        debug_assert!(kept.is_ok());
        self.tell_what_began_as_spent();
        let shared = Arc::new(self);
        keeper.start(&shared, store);
        shared
    }

    /// What is to be written now; everything, if it is the last.
    pub fn take_pages(&self, last: bool) -> Taken {
        let mut pages = Vec::new();
        let facts = self.facts_to_write(last);
        if last {
            let (pages, engine, now) =
                self.act_quietly(|engine, now| (engine.last_pages(now), Some(engine.all_facts(now)), now));
            return Taken { pages, engine, facts, now, clean: true, anew: false };
        }
        let unwritten =
            self.state.as_ref().is_some_and(|state| state.unwritten.swap(false, Ordering::AcqRel));
        let engine = self.act_quietly(|engine, now| {
            if unwritten {
                engine.all_pages_due();
            }
            engine.facts(now)
        });
        self.tell_what_began_as_spent();
        loop {
            let (some, now) = self.act_quietly(|engine, now| (engine.pages(AT_A_TIME, now), now));
            if some.is_empty() {
                return Taken { pages, engine, facts, now, clean: false, anew: unwritten };
            }
            pages.extend(some);
        }
    }

    fn facts_to_write(&self, last: bool) -> Vec<(&'static str, String)> {
        let Some(state) = &self.state else { return Vec::new() };
        let mut notes = state.notes.lock();
        let (texts, changed) = &mut *notes;
        if last {
            // The file may have been begun anew since they were written.
            *changed = texts.keys().copied().collect();
        }
        let mut facts: Vec<_> =
            changed.drain(..).map(|name| (name, texts.get(name).cloned().unwrap_or_default())).collect();
        let mut written = state.outputs.lock();
        let outputs = self.outputs.lock();
        if outputs.heard() != written.1 && (last || written.0.elapsed() >= OUTPUTS) {
            *written = (Instant::now(), outputs.heard());
            facts.push(("outputs", serde_json::to_string(&outputs.kept()).unwrap_or_default()));
        }
        facts
    }

    /// These pages are on disk, or may be; asking for them takes so long.
    pub fn pages_taken(&self, taken: &Taken, written: bool, takes: Duration) {
        if !written && let Some(state) = &self.state {
            state.unwritten.fetch_or(taken.anew, Ordering::AcqRel);
            let names = taken.facts.iter().map(|(name, _)| *name);
            state.notes.lock().1.extend(names.filter(|name| *name != "outputs"));
            // As if nothing had been heard when they were last written.
            state.outputs.lock().1 = 0;
        }
        if taken.clean {
            return;
        }
        self.act(|engine, now| {
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

    /// Has everything written that is known: the file that it was in is gone.
    pub fn write_all_anew(&self) {
        let Some(state) = &self.state else { return };
        state.unwritten.store(true, Ordering::Release);
        let mut notes = state.notes.lock();
        notes.1 = notes.0.keys().copied().collect();
        drop(notes);
        // As if they had not been written for long.
        let mut outputs = state.outputs.lock();
        outputs.1 = 0;
        if let Some(long_ago) = Instant::now().checked_sub(OUTPUTS) {
            outputs.0 = long_ago;
        }
    }

    /// Says which limits began as spent, since it is not known what was.
    fn tell_what_began_as_spent(&self) {
        let names = self.act_quietly(|engine, _| engine.take_begun_as_spent());
        if !names.is_empty() {
            let limits = names.join(", ");
            tracing::error!(
                limits,
                "what was spent is not known: these limits begin as spent for one window"
            );
        }
    }

    /// Has the thread write what is due. If that is impossible and calls go on all the same, nothing is waited for.
    pub(super) fn see_to_pages(&self, inner: &mut Inner) {
        let Some(state) = self.state.as_ref().filter(|_| inner.engine.has_pages()) else { return };
        if state.keeper.goes_without() {
            let now = inner.engine.now();
            inner.engine.go_without(now);
            state.unwritten.store(true, Ordering::Release);
        }
        state.keeper.wake();
    }

    /// Whether nobody may wait: there is nothing to wait for.
    pub(super) fn refuses_to_wait(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.keeper.refuses())
    }

    pub(super) fn unless_unavailable(&self, refusal: Refusal) -> Refusal {
        let waits = matches!(refusal.reason, Reason::Timeout | Reason::Hopeless);
        if waits && self.refuses_to_wait() {
            Refusal { reason: Reason::Unavailable, ..refusal }
        } else {
            refusal
        }
    }

    /// The gate goes: what it knows is written down, but nobody waits for that.
    pub(super) fn leave_state(&self) {
        if let Some(state) = &self.state {
            state.keeper.leave(self.take_pages(true));
        }
    }
}

/// The texts that may be kept beside a gate's state.
const NOTES: [&str; 1] = ["changes"];

impl Gate {
    /// Writes everything down and gives the state file back: nothing that was not spent is lost. Calls that come
    /// afterwards are refused. A gate without state does nothing here.
    ///
    /// A gate that is dropped does the same, but does not wait for the disk; after a crash at most one promise is lost.
    ///
    /// # Errors
    /// If the disk does not let us. What is on it then is what a crash would have left behind.
    pub fn close(&self) -> Result<(), StateError> {
        let Some(state) = &self.shared.state else { return Ok(()) };
        state.keeper.close().map_err(|cause| StateError::Disk { path: state.path.clone(), cause })
    }

    /// Why state cannot be written at the moment, if that is so.
    #[must_use]
    pub fn state_trouble(&self) -> Option<String> {
        self.shared.state.as_ref().and_then(|state| state.keeper.trouble())
    }

    /// How many transactions were written to it.
    #[doc(hidden)]
    #[must_use]
    pub fn state_writes(&self) -> u64 {
        self.shared.state.as_ref().map_or(0, |state| state.keeper.written())
    }

    /// The file that the gate's state is in.
    #[must_use]
    pub fn state_path(&self) -> Option<&std::path::Path> {
        self.shared.state.as_ref().map(|state| state.path.as_path())
    }

    /// Keeps changes that were made by hand.
    #[doc(hidden)]
    pub fn keep_changes(&self, text: String) {
        if let Some(state) = &self.shared.state {
            let mut notes = state.notes.lock();
            notes.0.insert("changes", text);
            if !notes.1.contains(&"changes") {
                notes.1.push("changes");
            }
            drop(notes);
            state.keeper.wake();
        }
    }
}
