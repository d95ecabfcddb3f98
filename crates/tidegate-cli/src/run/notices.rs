//! What `run` says on standard error: that the sidecar is another project's, and that no call came through.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate::Config;

use super::variables::{Caller, Service};
use crate::running::full;

/// What this `run` was started with.
pub struct Own<'r> {
    /// The config file, which may not be there.
    pub file: &'r Path,
    /// What it says, if it is right.
    pub config: Option<&'r Config>,
    /// The folder for state that was asked for.
    pub state: Option<&'r Path>,
}

/// The sidecar that is used.
pub struct Theirs<'r> {
    pub url: String,
    /// As `/v1/status` has it.
    pub status: &'r Value,
    /// The variables that lead to it.
    pub set: &'r BTreeMap<&'static str, String>,
}

/// Returns a line on each thing in which a sidecar that was there before differs from what this `run` would have started.
pub fn other_sidecar(own: &Own<'_>, theirs: &Theirs<'_>, caller: &Caller) -> Vec<String> {
    let mut lines = Vec::new();
    let (file, url) = (full(own.file), &theirs.url);
    let used = theirs.status["config"]["file"].as_str().map(|file| full(Path::new(file)));
    if own.file.exists() && used.as_ref() != Some(&file) {
        let with =
            used.map_or_else(|| "no config".into(), |used| format!("another config ({})", used.display()));
        let lacks = own.config.map(|config| lacking(config, theirs, caller)).unwrap_or_default();
        lines.push(format!(
            "uses the sidecar on {url}, which was started with {with} and not with {}: its limits apply{lacks}. For one of \
             your own, write another `listen`",
            file.display()
        ));
    } else if theirs.status["config"]["error"].is_string() || own.config.is_none() {
        lines.push(format!(
            "{} has errors: the sidecar on {url} goes on with what it said before (`tidegate check` lists them)",
            file.display()
        ));
    }
    let kept = theirs.status["state"]["path"].as_str().map(|path| full(Path::new(path)));
    if let Some(state) = own.state
        && kept.as_deref().and_then(Path::parent) != Some(&*resolved(state))
    {
        let kept = kept.map_or_else(|| "in memory only".into(), |kept| format!("in {}", kept.display()));
        lines.push(format!(
            "--state is not used: the sidecar on {url} was there before, and keeps its state {kept}"
        ));
    }
    lines
}

/// A folder as records have it.
fn resolved(folder: &Path) -> PathBuf {
    full(&folder.join("state.db")).parent().map_or_else(|| folder.to_owned(), Path::to_owned)
}

/// What this config has and the sidecar has not, as the end of a sentence.
fn lacking(config: &Config, theirs: &Theirs<'_>, caller: &Caller) -> String {
    let services: Vec<&str> = config
        .services
        .keys()
        .map(String::as_str)
        .filter(|name| theirs.status["services"][name].is_null())
        .collect();
    let forwarded = config.services.iter().filter(|(_, service)| service.upstream.is_some());
    let own: Vec<Service> =
        forwarded.filter_map(|(name, service)| Some((name.clone(), service.preset.clone()?))).collect();
    let wanted = caller.variables(&theirs.url, &own);
    let unset: Vec<&str> = wanted.into_keys().filter(|name| !theirs.set.contains_key(name)).collect();
    let mut text = String::new();
    for (words, names) in [("it has no service", services), ("not set", unset)] {
        if !names.is_empty() {
            text += &format!("; {words}: {}", names.join(", "));
        }
    }
    text
}

impl Theirs<'_> {
    /// Returns a line if the sidecar's config does not know a loop type.
    pub fn unknown_loop_type(&self, name: &str) -> Option<String> {
        let known: Vec<&str> =
            self.status["loop_types"].as_array()?.iter().filter_map(Value::as_str).collect();
        (!known.contains(&name)).then(|| crate::unknown_loop_type(name, &known))
    }
}

/// Returns the line on a program of which no call came through.
pub fn never_came(loop_id: &str, theirs: &Theirs<'_>) -> String {
    let names: Vec<&str> = theirs.set.keys().copied().collect();
    format!(
        "no call of `{loop_id}` came through {}: the program made none, or has a base URL of its own and did not read {}",
        theirs.url,
        names.join(", ")
    )
}
