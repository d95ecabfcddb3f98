//! The reader of the replies that a service gets.

use super::Reader;
use crate::config::{Config, presets};
use crate::vendors::by_name;

impl Config {
    /// The reader of a service's replies: its `profile`, else its preset's vendor; a service with neither, or
    /// that is not in the config, is recognised reply by reply.
    ///
    /// A name means the user's own profile before it means a vendor of the table.
    ///
    /// ```
    /// use tidegate_core::Config;
    /// use tidegate_core::reply::UnixMillis;
    ///
    /// let text = "[services.prices]\nprofile = \"ours\"\n[profiles.ours]\nreset = \"milliseconds\"\n";
    /// let config = Config::parse(text, "tidegate.toml")?;
    /// let headers = [("x-ratelimit-remaining", &b"1"[..]), ("x-ratelimit-reset", b"250")];
    /// let reading = config.reader("prices").read(200, headers, b"", UnixMillis(0));
    /// assert_eq!(reading.limits[0].reset_ms, Some(250));
    /// # Ok::<(), tidegate_core::config::ConfigErrors>(())
    /// ```
    #[must_use]
    pub fn reader(&self, service: &str) -> Reader<'_> {
        let Some(service) = self.services.get(service) else { return Reader::default() };
        let preset = || service.preset.as_deref().and_then(presets::by_name).map(|preset| preset.vendor);
        let Some(name) = service.profile.as_deref().or_else(preset) else { return Reader::default() };
        match self.profiles.get(name) {
            Some(profile) => Reader::with_profile(name, profile),
            None => by_name(name).map(Reader::of).unwrap_or_default(),
        }
    }
}
