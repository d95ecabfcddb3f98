//! The callers: a source for each workload, the kinds of calls that they have made, and what they know of their calls.

use std::collections::HashMap;

use tidegate_core::Outputs;

use super::retries::Retries;
use super::source::{DraftKey, Source};
use crate::scenario::Scenario;

/// All callers.
#[derive(Debug)]
pub(crate) struct Callers {
    /// By workload.
    pub sources: Vec<Source>,
    /// Nothing stands for a kind that the engine cannot route.
    kinds: HashMap<DraftKey, Option<u32>>,
    loops: HashMap<String, u32>,
    /// By the number of the loop; calls without one share number 0.
    loop_names: Vec<String>,
    /// How much output calls have had.
    pub outputs: Outputs,
    pub retries: Retries,
}

impl Callers {
    pub fn new(scenario: &Scenario, seed: u64) -> Callers {
        let source = |(number, workload)| Source::new(workload, number, seed, scenario.duration);
        Callers {
            sources: scenario.workloads.iter().enumerate().map(source).collect(),
            kinds: HashMap::new(),
            loops: HashMap::new(),
            loop_names: vec![String::new()],
            outputs: Outputs::default(),
            retries: Retries::new(&scenario.config, seed),
        }
    }

    /// Returns the kind of such calls, if one was made before.
    pub fn kind(&self, key: &DraftKey) -> Option<Option<u32>> {
        self.kinds.get(key).copied()
    }

    /// Remembers the kind of such calls.
    pub fn add_kind(&mut self, key: DraftKey, kind: Option<u32>) {
        self.kinds.insert(key, kind);
    }

    /// Returns the number of a loop, a new one if it has not called before.
    pub fn loop_number(&mut self, name: Option<&str>) -> u32 {
        let Some(name) = name else { return 0 };
        let next = self.loop_names.len() as u32;
        let number = *self.loops.entry(name.to_owned()).or_insert(next);
        if number == next {
            self.loop_names.push(name.to_owned());
        }
        number
    }

    pub fn loop_names(&self) -> &[String] {
        &self.loop_names
    }
}
