//! The config file, read from disk.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};

use tidegate_core::config::ConfigErrors;

/// A whole `tidegate.toml`, valid, with every default filled in.
///
/// ```
/// use tidegate::Config;
///
/// let config = Config::parse("[services.git]\nrequests = \"60/min\"\nconcurrency = 4\n")?;
/// assert_eq!(config.services["git"].limits.concurrency, Some(4));
/// # Ok::<(), tidegate::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config(tidegate_core::Config);

/// Why a config could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
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

impl Config {
    /// Reads a file. `${VAR}` in it expands from the environment.
    ///
    /// # Errors
    /// If the file cannot be read or says something that cannot be.
    pub fn load(path: impl AsRef<Path>) -> Result<Config, ConfigError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|cause| ConfigError::Unreadable { path: path.to_owned(), cause })?;
        Config::parse_file(&text, path)
    }

    /// Reads a text. `${VAR}` in it expands from the environment.
    ///
    /// # Errors
    /// If it says something that cannot be.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::read(text, "config")
    }

    /// The same, where errors are to name the file that the text is from.
    ///
    /// # Errors
    /// If it says something that cannot be.
    pub fn parse_file(text: &str, path: impl AsRef<Path>) -> Result<Config, ConfigError> {
        Config::read(text, &path.as_ref().display().to_string())
    }

    fn read(text: &str, name: &str) -> Result<Config, ConfigError> {
        let environment = |variable: &str| std::env::var(variable).ok();
        Ok(Config(tidegate_core::Config::parse_with(text, name, &environment)?))
    }
}

impl Deref for Config {
    type Target = tidegate_core::Config;

    fn deref(&self) -> &tidegate_core::Config {
        &self.0
    }
}

impl DerefMut for Config {
    fn deref_mut(&mut self) -> &mut tidegate_core::Config {
        &mut self.0
    }
}

impl From<tidegate_core::Config> for Config {
    fn from(config: tidegate_core::Config) -> Config {
        Config(config)
    }
}
