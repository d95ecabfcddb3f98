//! The limits of a config by the names that refusals and metrics give them, each with its source.
//!
//! ```
//! let config = tidegate_core::Config::parse("[services.git]\nrequests = \"60/min\"\n", "tidegate.toml")?;
//! let limits = tidegate_server::configured_limits::limits(&config);
//! assert_eq!((&*limits[0].name, &*limits[0].from()), ("git/requests/1m", "file"));
//! # Ok::<(), tidegate_core::config::ConfigErrors>(())
//! ```

use serde_json::{Value, json};
use tidegate_core::config::presets::{self, Preset, Tier};
use tidegate_core::config::units::WrittenRate;
use tidegate_core::config::{Limits, Origin, RateLimit, ServiceConfig};
use tidegate_core::{Config, WindowName};

/// One limit of a config.
#[derive(Debug)]
pub struct ConfiguredLimit<'c> {
    /// Its name. Limits of loops are named `loop:*`.
    pub name: String,
    /// Its size, for people.
    pub amount: String,
    /// Its size, for programs: the keys and values of this kind of limit.
    parts: Value,
    /// The service whose preset sets the limit, or none if the file does.
    preset: Option<&'c ServiceConfig>,
}

impl ConfiguredLimit<'_> {
    /// Returns its source, for people.
    #[must_use]
    pub fn from(&self) -> String {
        match self.source() {
            None => "file".into(),
            Some((preset, Some(tier), _)) => format!("preset {}, tier {}", preset.name, tier.name),
            Some((preset, None, _)) => format!("preset {}, every tier", preset.name),
        }
    }

    /// Returns the evidence of a preset's limit: its source outside of the file, and the date.
    #[must_use]
    pub fn evidence(&self) -> Option<String> {
        let (_, _, of) = self.source()?;
        Some(format!("{}: {}, {}, confidence {}", self.from(), of.source, of.date, of.confidence.name()))
    }

    /// Returns the limit as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut value = json!({ "name": self.name, "from": "file" });
        if let Some((preset, tier, of)) = self.source() {
            value = json!({
                "name": self.name,
                "from": "preset",
                "preset": preset.name,
                "tier": tier.map(|tier| tier.name),
                "source": of.source,
                "date": of.date,
                "confidence": of.confidence.name(),
            });
        }
        if let (Value::Object(value), Value::Object(parts)) = (&mut value, &self.parts) {
            value.extend(parts.clone());
        }
        value
    }

    /// Returns the preset, the tier that the config names, and the tier whose numbers apply: the first one if all are
    /// equal.
    fn source(&self) -> Option<(&'static Preset, Option<&'static Tier>, &'static Tier)> {
        let service = self.preset?;
        let preset = presets::by_name(service.preset.as_deref()?)?;
        let tier = service.tier.as_deref().and_then(|tier| preset.tier(tier));
        Some((preset, tier, tier.or(preset.tiers.first())?))
    }
}

/// Returns all limits of a config.
#[must_use]
pub fn limits(config: &Config) -> Vec<ConfiguredLimit<'_>> {
    let mut found = Vec::new();
    level(&mut found, "global", &config.global, None);
    for (name, service) in &config.services {
        level(&mut found, name, &service.limits, Some(service));
        for (pattern, limits) in &service.endpoints {
            level(&mut found, &format!("{name}/endpoint:{pattern}"), limits, Some(service));
        }
        for (pattern, limits) in &service.models {
            level(&mut found, &format!("{name}/model:{pattern}"), limits, Some(service));
        }
    }
    for (name, loop_type) in &config.loop_types {
        level(&mut found, &format!("loop_type:{name}"), &loop_type.limits, None);
    }
    level(&mut found, "loop:*", &config.loops, None);
    found
}

fn level<'c>(
    found: &mut Vec<ConfiguredLimit<'c>>,
    name: &str,
    limits: &Limits,
    service: Option<&'c ServiceConfig>,
) {
    let preset = |origin| service.filter(|_| origin == Origin::Preset);
    found.extend(limits.rates.iter().map(|limit| rate(name, limit, preset(limit.origin))));
    let in_flight = [
        ("concurrency", limits.concurrency, limits.concurrency_origin),
        ("throttled_concurrency", limits.throttled_concurrency, Origin::Written),
        ("byte_budget", limits.byte_budget, Origin::Written),
    ];
    for (kind, limit, origin) in in_flight {
        found.extend(limit.map(|units| ConfiguredLimit {
            name: format!("{name}/{kind}"),
            amount: match limits.adaptive.as_ref().filter(|_| kind == "concurrency") {
                Some(adaptive) => format!("{} to {units}, {}", adaptive.min, adaptive.by.name()),
                None => units.to_string(),
            },
            parts: json!({ "units": units }),
            preset: preset(origin),
        }));
    }
}

fn rate<'c>(level: &str, limit: &RateLimit, preset: Option<&'c ServiceConfig>) -> ConfiguredLimit<'c> {
    let (written, algorithm) = (WrittenRate::from(limit).to_string(), limit.counts_by().name());
    let burst = limit.burst.map_or(String::new(), |burst| format!(", burst {burst}"));
    ConfiguredLimit {
        name: format!("{level}/{}/{}", limit.dimension, WindowName(limit.rate.window())),
        amount: format!("{written} {algorithm}{burst}"),
        parts: json!({
            "rate": written,
            "units": limit.rate.units(),
            "window_ms": u64::try_from(limit.rate.window().as_millis()).unwrap_or(u64::MAX),
            "algorithm": algorithm,
            "burst": limit.burst,
            "calendar": limit.calendar,
        }),
        preset,
    }
}
