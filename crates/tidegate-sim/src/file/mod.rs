//! From a file to a [`Scenario`]: a `tidegate.toml` with a `[simulation]` in it.
//!
//! The config part is read by the core, and the simulation by the core's own walk, so a mistake in either is
//! told with file, line, column and a hint, and all of them at once. Traces are read from the folder that the
//! caller names. Nothing here depends on a seed.

mod arrivals;
mod faults;
mod reader;
mod spreads;
mod trace;
mod upstream;
mod workload;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_core::Config;
use tidegate_core::config::{ConfigErrors, Document, Field};

use self::reader::Reader;
use crate::scenario::{Faults, Scenario, UpstreamSpec, Workload};

const SIMULATION: &[&str] =
    &["duration", "warmup", "phases", "seed", "wait_for_breakers", "upstreams", "workload", "faults"];

/// How long a simulation is that does not say so.
const DURATION: Duration = Duration::from_secs(600);
/// How long one may be: a year, leap day included.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// A scenario with the seed that its file gives it.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    /// What is simulated.
    pub scenario: Scenario,
    /// The seed to use where no other is named.
    pub seed: u64,
}

/// Why a scenario could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The file could not be read.
    #[error("cannot read {}: {cause}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why not. Part of the text, and so no `source`: reporters that print the chain would print it twice.
        cause: std::io::Error,
    },
    /// The file says something that cannot be: every mistake with its line, column and a hint.
    #[error(transparent)]
    Invalid(#[from] ConfigErrors),
}

impl Scenario {
    /// Reads a scenario whose `${VAR}` expand through `env` and whose traces lie in `dir`.
    ///
    /// `file` is only the name that errors give.
    ///
    /// ```
    /// use std::path::Path;
    /// use tidegate_sim::Scenario;
    ///
    /// let text = r#"
    /// [services.api]
    /// requests = "60/min"
    ///
    /// [[simulation.workload]]
    /// arrivals = { poisson = "90/min" }
    /// "#;
    /// let scenario = Scenario::parse(text, "api.toml", &|_| None, Path::new("."))?;
    /// assert_eq!(scenario.workloads[0].service, "api");
    /// # Ok::<(), tidegate_core::config::ConfigErrors>(())
    /// ```
    ///
    /// # Errors
    /// Everything that is wrong with the text, each with its line, column and a hint.
    pub fn parse(
        text: &str,
        file: &str,
        env: &dyn Fn(&str) -> Option<String>,
        dir: &Path,
    ) -> Result<Scenario, ConfigErrors> {
        Ok(ScenarioFile::read(&Document::new(text, file, env), dir)?.scenario)
    }

    /// Reads a scenario from a file. `${VAR}` expand from the environment; traces lie beside it.
    ///
    /// # Errors
    /// If the file cannot be read or says something that cannot be.
    pub fn load(path: impl AsRef<Path>) -> Result<Scenario, ScenarioError> {
        Ok(ScenarioFile::load(path)?.scenario)
    }
}

impl ScenarioFile {
    /// Reads a file. `${VAR}` expand from the environment; traces lie beside it.
    ///
    /// # Errors
    /// If the file cannot be read or says something that cannot be.
    pub fn load(path: impl AsRef<Path>) -> Result<ScenarioFile, ScenarioError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|cause| ScenarioError::Unreadable { path: path.to_owned(), cause })?;
        let environment = |variable: &str| std::env::var(variable).ok();
        let file = path.display().to_string();
        let dir = path.parent().unwrap_or(Path::new(""));
        Ok(ScenarioFile::read(&Document::new(&text, &file, &environment), dir)?)
    }

    /// Reads a document, whose traces lie in `dir`.
    ///
    /// # Errors
    /// Everything that is wrong with it; that it has no `[simulation]` too.
    pub fn read(document: &Document<'_>, dir: &Path) -> Result<ScenarioFile, ConfigErrors> {
        let (config, part) = document.config_and_simulation(|walk, config, section| {
            if section.is_none() {
                let hint = "add [[simulation.workload]] with its arrivals".to_owned();
                walk.fault(0, "there is no [simulation] in this file", hint);
            }
            read_simulation(&mut Reader { walk, config, dir }, section)
        })?;
        let Part { seed, duration, warmup, phases, upstreams, workloads, faults, wait_for_breakers } = part;
        let scenario =
            Scenario { config, duration, warmup, phases, upstreams, workloads, faults, wait_for_breakers };
        Ok(ScenarioFile { scenario, seed })
    }

    /// The config of a document, with its `[simulation]` checked too if it has one.
    ///
    /// # Errors
    /// Everything that is wrong with either.
    pub fn check(document: &Document<'_>, dir: &Path) -> Result<Config, ConfigErrors> {
        let read = document.config_and_simulation(|walk, config, section| {
            section.is_some().then(|| read_simulation(&mut Reader { walk, config, dir }, section))
        });
        read.map(|(config, _)| config)
    }
}

/// A `[simulation]`, as read.
struct Part {
    seed: u64,
    duration: Duration,
    warmup: Duration,
    phases: Vec<Duration>,
    upstreams: BTreeMap<String, UpstreamSpec>,
    workloads: Vec<Workload>,
    faults: Faults,
    wait_for_breakers: bool,
}

/// Reads the section; a key that is missing has its default.
fn read_simulation(reader: &mut Reader<'_, '_>, section: Option<&Field<'_>>) -> Part {
    let fields = section.map(|section| reader.walk.table(section)).unwrap_or_default();
    let mut part = Part {
        seed: 1,
        duration: DURATION,
        warmup: Duration::ZERO,
        phases: Vec::new(),
        upstreams: BTreeMap::new(),
        workloads: Vec::new(),
        faults: Faults::default(),
        wait_for_breakers: true,
    };
    for field in fields.iter().filter(|field| !SIMULATION.contains(&field.name)) {
        reader.walk.no_such_key(field, "simulation", SIMULATION);
    }
    let named = |name: &str| fields.iter().find(|field| field.name == name);
    // Everything else happens within the duration, wherever in the file that stands.
    if let Some(field) = named("duration") {
        part.duration = reader.some_time(field).unwrap_or(part.duration);
        if part.duration > LONGEST {
            reader.walk.fault(field.at, "a simulation lasts a year at most", "use up to \"366d\"".to_owned());
        }
    }
    if let Some(field) = named("warmup") {
        part.warmup = reader.within(field, part.duration).unwrap_or_default();
    }
    if let Some(field) = named("phases") {
        part.phases = read_phases(reader, field, part.duration);
    }
    if let Some(field) = named("seed") {
        part.seed = reader.walk.count(field).unwrap_or(part.seed);
    }
    if let Some(field) = named("wait_for_breakers") {
        part.wait_for_breakers = reader.walk.flag(field).unwrap_or(part.wait_for_breakers);
    }
    if let Some(field) = named("upstreams") {
        part.upstreams = upstream::read(reader, field, part.duration);
    }
    match (named("workload"), section) {
        (Some(field), _) => part.workloads = workload::read(reader, field, part.duration, &part.upstreams),
        (None, Some(section)) => {
            let hint = "add [[simulation.workload]] with its arrivals".to_owned();
            reader.walk.fault(section.key_at, "nobody calls in this simulation", hint);
        }
        (None, None) => {}
    }
    if let Some(field) = named("faults") {
        part.faults = faults::read(reader, field, part.duration);
    }
    part
}

/// `["5m", "8m"]`: moments before the end, each after the one before it.
fn read_phases(reader: &mut Reader<'_, '_>, field: &Field<'_>, duration: Duration) -> Vec<Duration> {
    let mut moments: Vec<Duration> = Vec::new();
    for item in reader.walk.items(field, "phases = [\"5m\", \"8m\"]") {
        let Some(at) = reader.within(&item, duration) else { continue };
        if at <= moments.last().copied().unwrap_or_default() {
            let hint = "the first part begins at 0; write when each of the others does".to_owned();
            reader.walk.fault(item.at, "a part of the run must begin after the one before it", hint);
        }
        moments.push(at);
    }
    moments
}
