//! The gate's side of its state file: what is due to be written, and whether calls may go on without the file.
//!
//! It knows the engine and the writer's thread, and not the gate. Nothing here takes the gate's lock.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidegate_core::Outputs;
use tidegate_core::{Engine, Nanos};

use crate::state::{StateError, StateWriter, Taken};

/// How often the experience with outputs is written.
const OUTPUTS: Duration = Duration::from_secs(5);
/// The name of the experience with outputs among the facts.
const OUTPUTS_FACT: &str = "outputs";
/// The name of the changes that were made by hand among the facts.
const CHANGES: &str = "changes";
/// The texts that users keep beside a gate's state.
pub(super) const NOTES: [&str; 1] = [CHANGES];

/// Facts to be written, by name.
pub(super) type FactsDue = Vec<(&'static str, String)>;

/// The state file of a gate, as the gate sees it.
#[derive(Debug)]
pub(crate) struct Persistence {
    writer: Arc<StateWriter>,
    path: PathBuf,
    /// Texts that users keep beside the state, and the names of those that changed.
    notes: Mutex<(BTreeMap<&'static str, String>, Vec<&'static str>)>,
    /// When outputs were last written, and how much was known then.
    outputs: Mutex<(Instant, u64)>,
    /// Calls went without a promise on disk, or nothing is on disk any more: every limit has to be written again.
    unwritten: AtomicBool,
}

impl Persistence {
    /// Makes the persistence of a gate that has `heard` so much about outputs.
    pub fn new(
        writer: Arc<StateWriter>,
        path: PathBuf,
        notes: BTreeMap<&'static str, String>,
        heard: u64,
    ) -> Persistence {
        Persistence {
            writer,
            path,
            notes: Mutex::new((notes, Vec::new())),
            outputs: Mutex::new((Instant::now(), heard)),
            unwritten: AtomicBool::new(false),
        }
    }

    /// Has the thread write what is due. If that is impossible and calls go on all the same, the engine waits for nothing.
    pub fn request_writes(&self, engine: &mut Engine) {
        if !engine.has_pages() {
            return;
        }
        if self.writer.goes_without() {
            let now = engine.now();
            engine.go_without(now);
            self.unwritten.store(true, Ordering::Release);
        }
        self.writer.wake();
    }

    /// Returns whether no call may begin to wait: nothing will be promised.
    pub fn refuses_to_wait(&self) -> bool {
        self.writer.refuses()
    }

    /// Takes the facts that are due; all of them, if it is the `last` time.
    pub fn facts_due(&self, outputs: &Mutex<Outputs>, last: bool) -> FactsDue {
        let mut notes = self.notes.lock();
        let (texts, changed) = &mut *notes;
        if last {
            // The file may have been begun again since they were written.
            *changed = texts.keys().copied().collect();
        }
        let mut facts: Vec<_> =
            changed.drain(..).map(|name| (name, texts.get(name).cloned().unwrap_or_default())).collect();
        let mut written = self.outputs.lock();
        let outputs = outputs.lock();
        if outputs.heard() != written.1 && (last || written.0.elapsed() >= OUTPUTS) {
            *written = (Instant::now(), outputs.heard());
            facts.push((OUTPUTS_FACT, serde_json::to_string(&outputs.kept()).unwrap_or_default()));
        }
        facts
    }

    /// Returns the last batch of a gate: everything that it knows.
    pub fn last_batch(engine: &mut Engine, now: Nanos, facts: FactsDue) -> Taken {
        let (pages, engine) = (engine.last_pages(now), Some(engine.all_facts(now)));
        Taken { pages, engine, facts, now, clean: true, anew: false }
    }

    /// Leaves the last batch of a gate that is dropped to the thread, and does not wait for it.
    pub fn leave(&self, engine: &mut Engine, now: Nanos, facts: FactsDue) {
        self.writer.leave(Persistence::last_batch(engine, now, facts));
    }

    /// Returns whether every limit has to be written again, and forgets that.
    pub fn take_unwritten(&self) -> bool {
        self.unwritten.swap(false, Ordering::AcqRel)
    }

    /// Marks the facts of a batch as due again: it was not written.
    pub fn not_written(&self, taken: &Taken) {
        self.unwritten.fetch_or(taken.anew, Ordering::AcqRel);
        let names = taken.facts.iter().map(|(name, _)| *name);
        self.notes.lock().1.extend(names.filter(|name| *name != OUTPUTS_FACT));
        // As if nothing had been heard when they were last written.
        self.outputs.lock().1 = 0;
    }

    /// Marks everything as due: the file that had it is gone.
    pub fn restart(&self) {
        self.unwritten.store(true, Ordering::Release);
        let mut notes = self.notes.lock();
        notes.1 = notes.0.keys().copied().collect();
        drop(notes);
        // As if they had not been written for long.
        let mut outputs = self.outputs.lock();
        outputs.1 = 0;
        if let Some(long_ago) = Instant::now().checked_sub(OUTPUTS) {
            outputs.0 = long_ago;
        }
    }

    /// Keeps changes that were made by hand.
    pub fn keep_changes(&self, text: String) {
        let mut notes = self.notes.lock();
        notes.0.insert(CHANGES, text);
        if !notes.1.contains(&CHANGES) {
            notes.1.push(CHANGES);
        }
        drop(notes);
        self.writer.wake();
    }

    /// Writes everything and frees the file.
    pub fn close(&self) -> Result<(), StateError> {
        self.writer.close().map_err(|cause| StateError::Disk { path: self.path.clone(), cause })
    }

    /// Returns why nothing can be written, if that is so.
    pub fn trouble(&self) -> Option<String> {
        self.writer.trouble()
    }

    /// Returns how many transactions were written.
    pub fn writes(&self) -> u64 {
        self.writer.written()
    }

    /// Returns where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
