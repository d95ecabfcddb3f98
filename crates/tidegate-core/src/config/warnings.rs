//! What is valid in a config and still not what its author expects.
//!
//! Warnings do not keep a config from being used. `tidegate check` prints all of them; the sidecar and the library log
//! the keys that have no effect.

use super::check::Problem;
use super::hint::{nearest, quoted};
use super::path::join;
use super::{Config, ServiceConfig};
use crate::config::presets::{self, Preset};

impl Config {
    /// Returns the keys that are read, checked and have no effect in this version.
    ///
    /// ```
    /// use tidegate_core::config::Config;
    ///
    /// let config = Config::parse("[alerts]\napproaching = 0.8\n", "tidegate.toml")?;
    /// assert_eq!(config.ignored()[0].path, "alerts");
    /// # Ok::<(), tidegate_core::config::ConfigErrors>(())
    /// ```
    #[must_use]
    pub fn ignored(&self) -> Vec<Problem> {
        let alerts = self.alerts.iter().map(|_| Problem {
            path: "alerts".into(),
            message: "[alerts] has no effect yet: no alert is raised and nothing is sent".into(),
            hint: Some("remove it, or follow GET /v1/events of the sidecar".into()),
        });
        alerts.collect()
    }

    /// Returns everything that `tidegate check` warns of: [`Config::ignored`], and the services that the sidecar can
    /// forward nothing to.
    #[must_use]
    pub fn warnings(&self) -> Vec<Problem> {
        let unreachable = self.services.iter().filter(|(_, service)| service.upstream.is_none());
        self.ignored()
            .into_iter()
            .chain(unreachable.map(|(name, service)| no_upstream(name, service)))
            .collect()
    }
}

fn no_upstream(name: &str, service: &ServiceConfig) -> Problem {
    let message = format!(
        "{} has no `upstream`: calls to its URL get a 404, and only permits and the library use its limits",
        quoted(name)
    );
    let preset = service.preset.as_deref().and_then(presets::by_name);
    let hint = match (preset, presets::by_name(name).or_else(|| near(name))) {
        (Some(preset), _) => {
            format!(
                "add `upstream`: every customer of the preset `{}` has an address of its own",
                preset.name
            )
        }
        (None, Some(likely)) => format!("did you mean `preset = \"{}\"`?", likely.name),
        (None, None) => "to forward calls, add `upstream` or `preset`".into(),
    };
    Problem { path: join("services", name), message, hint: Some(hint) }
}

/// The preset whose name was most likely meant.
fn near(name: &str) -> Option<&'static Preset> {
    presets::of_service(nearest(name, presets::all().map(|preset| preset.name))?)
}
