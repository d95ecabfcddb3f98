//! Finds and reads the config file of a command.

use std::path::{Path, PathBuf};

use tidegate::Config;
use tidegate::config::ConfigError;

use crate::Misuse;

/// The config file that is used if none is named.
const CONFIG: &str = "tidegate.toml";

/// Returns the named config file, else the one in the working directory, whether it exists or not.
pub fn config_path(named: Option<&Path>) -> &Path {
    named.unwrap_or(Path::new(CONFIG))
}

/// Returns the named config, else the one in the working directory, else an empty one.
pub fn config(named: Option<&Path>) -> Result<Config, Misuse> {
    let path = config_path(named);
    if named.is_none() && !path.exists() {
        return Ok(Config::default());
    }
    Config::load(path).map_err(|error| match error {
        ConfigError::Unreadable { path, cause } => {
            Misuse(format!("cannot read the config {}: {cause}", path.display()))
        }
        error => Misuse(error.to_string()),
    })
}

/// Returns the named file, else the one in the working directory if it exists.
pub fn file(named: Option<PathBuf>) -> Option<PathBuf> {
    named.or_else(|| Some(PathBuf::from(CONFIG)).filter(|path| path.exists()))
}
