//! The notices of `run` on standard error: the sidecar belongs to another project, or no call used it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate::Config;
use tidegate_core::config::presets;

use super::variables::{Caller, Service};
use crate::running::canonical;

/// The arguments of this `run`.
pub struct Own<'r> {
    /// The config file, which may not exist.
    pub file: &'r Path,
    /// Its config, if it is valid.
    pub config: Option<&'r Config>,
    /// The named folder for state.
    pub state: Option<&'r Path>,
}

/// The sidecar that is used.
pub struct Theirs<'r> {
    pub url: String,
    /// Its `/v1/status`.
    pub status: &'r Value,
    /// The variables that lead to it.
    pub set: &'r BTreeMap<&'static str, String>,
}

/// Returns a line for each difference between a sidecar that was found and the one that this `run` would have started.
pub fn other_sidecar(own: &Own<'_>, theirs: &Theirs<'_>, caller: &Caller) -> Vec<String> {
    let mut lines = Vec::new();
    let (file, url) = (canonical(own.file), &theirs.url);
    let used = theirs.status["config"]["file"].as_str().map(|file| canonical(Path::new(file)));
    let is_there = own.file.exists();
    if used.as_ref() == Some(&file) {
        let wrong = if !is_there {
            Some(("is gone", ""))
        } else {
            let refused = theirs.status["config"]["error"].is_string() || own.config.is_none();
            refused.then_some(("has errors", " (`tidegate check` lists them)"))
        };
        lines.extend(wrong.map(|(wrong, see)| {
            let file = file.display();
            format!("{file} {wrong}: the sidecar on {url} goes on with what it said before{see}")
        }));
    } else if used.is_some() || is_there {
        let with =
            used.map_or_else(|| "no config".into(), |used| format!("another config ({})", used.display()));
        let not_with = if is_there { format!(" and not with {}", file.display()) } else { String::new() };
        let lacks = own.config.map(|config| lacking(config, theirs, caller)).unwrap_or_default();
        let advice = if is_there { "another `listen`" } else { "a tidegate.toml with another `listen`" };
        lines.push(format!(
            "uses the sidecar on {url}, which was started with {with}{not_with}: its limits apply{lacks}. For one of \
             your own, write {advice}"
        ));
    }
    let kept = theirs.status["state"]["path"].as_str().map(|path| canonical(Path::new(path)));
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

/// Returns a folder as records have it.
fn resolved(folder: &Path) -> PathBuf {
    canonical(&folder.join("state.db")).parent().map_or_else(|| folder.to_owned(), Path::to_owned)
}

/// Returns what this config has and the sidecar has not, as the end of a sentence.
fn lacking(config: &Config, theirs: &Theirs<'_>, caller: &Caller) -> String {
    let services: Vec<&str> = config
        .services
        .keys()
        .map(String::as_str)
        .filter(|name| theirs.status["services"][name].is_null())
        .collect();
    // A config without services serves the presets.
    let presets = if config.services.is_empty() { presets::served() } else { BTreeMap::new() };
    let forwarded = config.services.iter().chain(&presets).filter(|(_, service)| service.upstream.is_some());
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

/// Returns the notice for a program that sent no call through the sidecar.
pub fn never_came(loop_id: &str, theirs: &Theirs<'_>) -> String {
    let names: Vec<&str> = theirs.set.keys().copied().collect();
    format!(
        "no call of `{loop_id}` came through {}: the program made none, or has a base URL of its own and did not read {}",
        theirs.url,
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the notices of a `run` in a folder without a config, for a sidecar with that status.
    fn told(status: &Value) -> Vec<String> {
        let caller = Caller { loop_id: "agent".into(), loop_type: None, priority: None };
        let url = "http://127.0.0.1:8429";
        let set = caller.variables(url, &[("openai".into(), "openai".into())]);
        let theirs = Theirs { url: url.into(), status, set: &set };
        let config = Config::default();
        let own = Own { file: Path::new("no-such-folder/tidegate.toml"), config: Some(&config), state: None };
        other_sidecar(&own, &theirs, &caller)
    }

    #[test]
    fn without_a_config_the_sidecar_of_another_project_is_named() {
        let lines =
            told(&json!({ "config": { "file": "/theirs/tidegate.toml" }, "services": { "openai": {} } }));
        let [line] = &lines[..] else { panic!("{lines:?}") };
        for words in ["http://127.0.0.1:8429", "another config (/theirs/tidegate.toml)", "its limits apply"] {
            assert!(line.contains(words), "{words}: {line}");
        }
        assert!(line.contains("not set: ") && line.contains("ANTHROPIC_BASE_URL"), "{line}");
        assert!(!line.contains("OPENAI_BASE_URL") && !line.contains("no service"), "{line}");
        assert!(line.ends_with("write a tidegate.toml with another `listen`"), "{line}");
        assert_eq!(told(&json!({ "config": { "file": null } })), [""; 0], "neither has a config");
    }
}
