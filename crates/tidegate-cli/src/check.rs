//! `tidegate check`: checks a config file and prints its limits.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use tidegate_core::Config;
use tidegate_core::config::presets;
use tidegate_core::config::{ConfigError, ConfigErrors, Document, ServiceConfig, schema};
use tidegate_server::configured_limits::{self, ConfiguredLimit};
use tidegate_sim::ScenarioFile;

use crate::config_file::config_path;
use crate::{Misuse, config_text, environment, print};

/// Say whether a config file is right, and which limits it puts in force.
///
/// Each limit is listed with where it is from: the file, or a preset and its tier with source and date.
/// Everything that is wrong is told at once, with line, column and a hint; a `[simulation]` is checked too. What is
/// right and has no effect is a warning on standard error.
#[derive(Args)]
pub struct Check {
    /// The config file; tidegate.toml in the working directory if not said.
    file: Option<PathBuf>,
    /// Print a JSON schema of the config, for editors, and check nothing.
    #[arg(long, conflicts_with = "file")]
    schema: bool,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub fn run(self) -> anyhow::Result<()> {
        if self.schema {
            return print(&format!("{:#}\n", schema()));
        }
        let path = config_path(self.file.as_deref());
        if self.file.is_none() && !path.exists() {
            return Err(Misuse(format!(
                "there is no {} here: name a file, `tidegate check FILE`",
                path.display()
            ))
            .into());
        }
        let file = path.display().to_string();
        let text = config_text(path)?;
        let document = Document::new(&text, &file, &environment);
        let parsed = ScenarioFile::check(&document, path.parent().unwrap_or(Path::new("")));
        let warnings = if parsed.is_ok() { document.warnings() } else { Vec::new() };
        let mut out = io::stdout().lock();
        let written = match (&parsed, self.json) {
            (Ok(config), false) => summary(&mut out, &file, config).and_then(|()| {
                out.flush()?;
                warnings.iter().try_for_each(|warning| writeln!(io::stderr(), "warning: {warning}"))
            }),
            (Ok(config), true) => writeln!(out, "{}", summary_json(&file, config, &warnings)),
            (Err(errors), false) => writeln!(io::stderr(), "{errors}"),
            (Err(errors), true) => writeln!(out, "{}", errors_json(&file, errors)),
        };
        match written {
            // The reader of the output has closed it, which is no error.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            other => other.context("cannot write the result")?,
        }
        match parsed {
            Ok(_) => Ok(()),
            Err(errors) => Err(Misuse(format!("{} in {file}", counted(errors.len(), "mistake"))).into()),
        }
    }
}

fn summary(out: &mut impl Write, file: &str, config: &Config) -> io::Result<()> {
    let mut parts = vec![counted(config.services.len(), "service")];
    let others = [(config.loop_types.len(), "loop type"), (config.profiles.names().count(), "profile")];
    parts.extend(others.iter().filter(|(count, _)| *count > 0).map(|(count, name)| counted(*count, name)));
    writeln!(out, "{file} is right: {}, listening on {}", parts.join(", "), config.listen)?;

    writeln!(out, "services:")?;
    let width = config.services.keys().map(|name| name.chars().count()).max().unwrap_or_default();
    for (name, service) in &config.services {
        writeln!(out, "  {name:width$}  {}", described(service))?;
    }

    let limits = configured_limits::limits(config);
    if limits.is_empty() {
        return writeln!(out, "limits: none");
    }
    writeln!(out, "limits:")?;
    let name_width = limits.iter().map(|limit| limit.name.chars().count()).max().unwrap_or_default();
    let amount_width = limits.iter().map(|limit| limit.amount.chars().count()).max().unwrap_or_default();
    for limit in &limits {
        let (name, amount) = (&limit.name, &limit.amount);
        writeln!(out, "  {name:name_width$}  {amount:amount_width$}  {}", limit.from())?;
    }
    // Many limits share one source.
    let mut sources: Vec<String> = limits.iter().filter_map(ConfiguredLimit::evidence).collect();
    sources.dedup();
    if !sources.is_empty() {
        writeln!(out, "sources of presets, which replies correct:")?;
    }
    sources.iter().try_for_each(|source| writeln!(out, "  {source}"))
}

/// Describes a service in one line: its upstream and its preset.
fn described(service: &ServiceConfig) -> String {
    let mut parts = vec![match &service.upstream {
        Some(url) => without_secrets(url),
        None => "no upstream".into(),
    }];
    if let Some(preset) = service.preset.as_deref().and_then(presets::by_name) {
        parts.push(format!("preset {}", preset.name));
        match &service.tier {
            Some(tier) => parts.push(format!("tier {tier}")),
            None if preset.tiers.iter().any(|tier| tier.limits.len() > preset.limits(None).count()) => {
                let tiers: Vec<&str> = preset.tiers.iter().map(|tier| tier.name).collect();
                parts.push(format!("no tier (for its limits: {})", tiers.join(" | ")));
            }
            None => {}
        }
    }
    parts.extend(service.profile.iter().map(|profile| format!("profile {profile}")));
    parts.join(", ")
}

fn summary_json(file: &str, config: &Config, warnings: &[ConfigError]) -> Value {
    let service = |service: &ServiceConfig| {
        json!({
            "upstream": service.upstream.as_deref().map(without_secrets),
            "preset": service.preset,
            "tier": service.tier,
            "profile": service.profile,
        })
    };
    let services: serde_json::Map<String, Value> =
        config.services.iter().map(|(name, found)| (name.clone(), service(found))).collect();
    let limits: Vec<Value> = configured_limits::limits(config).iter().map(ConfiguredLimit::json).collect();
    json!({
        "file": file,
        "ok": true,
        "listen": config.listen,
        "services": services,
        "profiles": config.profiles.names().collect::<Vec<_>>(),
        "limits": limits,
        "errors": [],
        "warnings": warnings.iter().map(error_json).collect::<Vec<_>>(),
    })
}

fn errors_json(file: &str, errors: &ConfigErrors) -> Value {
    let errors: Vec<Value> = errors.iter().map(error_json).collect();
    json!({ "file": file, "ok": false, "errors": errors, "warnings": [] })
}

fn error_json(error: &ConfigError) -> Value {
    json!({
        "file": error.file,
        "line": error.line,
        "column": error.column,
        "message": error.message,
        "hint": error.hint,
    })
}

/// Returns a URL without parts that may be a password or a key.
fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

pub fn counted(count: usize, name: &str) -> String {
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}
