//! Which config file a command means, and what it says.

use std::path::{Path, PathBuf};

use tidegate::Config;
use tidegate::config::ConfigError;

use crate::Misuse;

/// The config that is used if there is one and none is named.
const CONFIG: &str = "tidegate.toml";

/// Returns the config file that was named, else the one of the working directory, whether it is there or not.
pub fn config_path(named: Option<&Path>) -> &Path {
    named.unwrap_or(Path::new(CONFIG))
}

/// Returns the config that was named, else the one that is there, else an empty one.
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

/// Returns the file that was named, else the one that is there.
pub fn file(named: Option<PathBuf>) -> Option<PathBuf> {
    named.or_else(|| Some(PathBuf::from(CONFIG)).filter(|path| path.exists()))
}
