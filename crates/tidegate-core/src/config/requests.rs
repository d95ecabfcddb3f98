//! Whose a service is, and how its requests are counted.

use super::{Config, ServiceConfig};
use crate::config::presets;
use crate::model::endpoint;
use crate::model::pattern::{Pattern, most_specific};
use crate::vendors::{Counting, Profiles, Vendor, by_name};

impl Config {
    /// How a service counts the tokens of a call: as its vendor does, where it names one.
    ///
    /// ```
    /// use tidegate_core::Config;
    /// use tidegate_core::vendors::Counting;
    ///
    /// let config = Config::parse("[services.ours]\nprofile = \"anthropic\"\n", "tidegate.toml")?;
    /// assert!(!config.counting("ours").cached_counts);
    /// assert_eq!(config.counting("nobody"), Counting::PLAIN);
    /// # Ok::<(), tidegate_core::config::ConfigErrors>(())
    /// ```
    #[must_use]
    pub fn counting(&self, service: &str) -> Counting {
        self.vendor(service).map_or(Counting::PLAIN, |vendor| vendor.counting)
    }

    /// The row of the vendor table that a service belongs to, by its profile or its preset.
    #[must_use]
    pub fn vendor(&self, service: &str) -> Option<&'static Vendor> {
        let service = self.services.get(service)?;
        let preset = || Some(presets::by_name(service.preset.as_deref()?)?.vendor());
        service.profile_base(&self.profiles).or_else(preset)
    }
}

impl ServiceConfig {
    /// The row of the table behind the service's profile, if it names one that exists.
    pub(super) fn profile_base(&self, profiles: &Profiles) -> Option<&'static Vendor> {
        let name = self.profile.as_deref()?;
        profiles.get(name).map(|profile| profile.base).or_else(|| by_name(name))
    }

    /// The most specific of its endpoint patterns that matches a method and path.
    #[must_use]
    pub fn endpoint_pattern(&self, endpoint: &str) -> Option<&str> {
        let patterns: Vec<Pattern> = self.endpoints.keys().map(|text| Pattern::of_endpoints(text)).collect();
        let found = most_specific(patterns.iter().enumerate(), &endpoint::normal(endpoint))?;
        self.endpoints.keys().nth(found).map(String::as_str)
    }
}
