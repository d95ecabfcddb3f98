//! From the text of a `tidegate.toml` to the model.
//!
//! Parsing goes in three steps, and what it finds in all of them is reported at once: the TOML itself; the
//! walk, which reads each value by its kind and notes where each field was written; and the checks on the
//! finished model, whose problems are put back to those places. Broken TOML ends it after the first step,
//! since what is left of the file would only be misread.
//!
//! A `[simulation]` is passed over: whoever plays it reads it through [`Document::config_and_simulation`], by the
//! same walk and with the same errors.
//!
//! A service is read over its preset, so that what comes out is what is in force; each limit still knows which
//! of the two it is from.
//!
//! Any string value may hold `${VAR}`. The core reads no environment: the caller passes it in. What a variable
//! held is never repeated in a message, since it may be a secret.

mod after_failure;
mod auth;
mod document;
mod keys;
mod level;
mod profile;
mod rates;
mod schema;
mod service;
mod top;
mod walk;

use super::error::ConfigErrors;
use super::{Config, path};
use crate::vendors::Profiles;
pub use document::Document;
pub use schema::schema;
pub use walk::{Field, Kind, Walk};

impl Config {
    /// Reads a config without an environment: a `${VAR}` in it is an error.
    ///
    /// `file` is only the name that errors give.
    ///
    /// ```
    /// use tidegate_core::config::Config;
    ///
    /// let config = Config::parse("[services.git]\nrequests = \"60/min\"", "tidegate.toml")?;
    /// assert_eq!(config.services["git"].limits.rates[0].rate.units(), 60);
    ///
    /// let errors = Config::parse("[services.git]\nrequets = \"60/min\"", "tidegate.toml").unwrap_err();
    /// assert_eq!(
    ///     errors.to_string(),
    ///     "tidegate.toml:2:1: unknown key `requets` in [services.git]\n  hint: did you mean `requests`?",
    /// );
    /// # Ok::<(), tidegate_core::config::ConfigErrors>(())
    /// ```
    ///
    /// # Errors
    /// Everything that is wrong with the text, each with its line, column and a hint.
    pub fn parse(text: &str, file: &str) -> Result<Config, ConfigErrors> {
        Config::parse_with(text, file, &|_| None)
    }

    /// Reads a config whose `${VAR}` expand through `env`.
    ///
    /// `$${` writes a plain `${`; any other `$` stands for itself. Keys do not expand.
    ///
    /// # Errors
    /// As [`Config::parse`]; a variable that `env` does not know is one of them.
    pub fn parse_with(
        text: &str,
        file: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Config, ConfigErrors> {
        Document::new(text, file, env).config()
    }
}

impl Profiles {
    /// Reads the `[profiles]` of a config and passes over everything else in it, right or wrong.
    ///
    /// ```
    /// use tidegate_core::vendors::Profiles;
    ///
    /// let text = "[profiles.prices]\nbase = \"openai\"\nreset = \"milliseconds\"\n";
    /// let profiles = Profiles::parse(text, "tidegate.toml")?;
    /// assert_eq!(profiles.get("prices").map(|profile| profile.base.name), Some("openai"));
    /// # Ok::<(), tidegate_core::config::ConfigErrors>(())
    /// ```
    ///
    /// # Errors
    /// Everything that is wrong with the profiles, each with its line, column and a hint.
    pub fn parse(text: &str, file: &str) -> Result<Profiles, ConfigErrors> {
        Profiles::parse_with(text, file, &|_| None)
    }

    /// The same with `${VAR}` expanding through `env`.
    ///
    /// # Errors
    /// As [`Profiles::parse`]; a variable that `env` does not know is one of them.
    pub fn parse_with(
        text: &str,
        file: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Profiles, ConfigErrors> {
        Document::new(text, file, env).read(|walk, document| {
            let fields = walk.fields("", document);
            let section = fields.iter().find(|field| field.name == "profiles");
            section.map(|field| walk.profiles(field)).unwrap_or_default()
        })
    }
}
