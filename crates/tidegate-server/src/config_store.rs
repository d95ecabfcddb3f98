//! The config that is in force, and how another one takes its place.
//!
//! The config in force is the config as written with the changes of limits over it. The lock is held while the gate takes
//! another config, so that of two configs that arrive together the gate and this store keep the same one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tidegate::wire::Memory;
use tidegate::{Config, Gate};
use tracing::warn;

use crate::auth::Tokens;
use crate::limit_changes::{LimitChanges, NewLimit, RejectedChange};
use crate::services::Services;
use crate::start_error::StartError;

/// How long a call waits unless the config says otherwise.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The config in force, and the parts that must follow a change of it.
#[derive(Debug)]
pub(crate) struct ConfigStore {
    gate: Gate,
    memory: Arc<Memory>,
    /// The address at which other machines reach the sidecar, if they must show a token there.
    exposed: Option<SocketAddr>,
    active: RwLock<Arc<ActiveConfig>>,
}

/// A config and what is derived from it.
#[derive(Clone, Debug)]
pub(crate) struct ActiveConfig {
    /// The config in force: `written` with `changes` over it.
    pub config: Config,
    /// The config as written.
    written: Config,
    pub changes: LimitChanges,
    pub services: Arc<Services>,
    pub tokens: Arc<Tokens>,
}

impl ActiveConfig {
    pub fn new(written: Config, mut changes: LimitChanges, services: Services) -> ActiveConfig {
        let tokens = Arc::new(Tokens::new(&written));
        let config = changes.over(&written);
        ActiveConfig { config, written, changes, services: Arc::new(services), tokens }
    }
}

impl ConfigStore {
    pub fn new(
        gate: Gate,
        memory: Arc<Memory>,
        exposed: Option<SocketAddr>,
        active: ActiveConfig,
    ) -> ConfigStore {
        ConfigStore { gate, memory, exposed, active: RwLock::new(Arc::new(active)) }
    }

    /// Returns the config in force.
    pub fn active(&self) -> Arc<ActiveConfig> {
        self.active.read().clone()
    }

    /// Returns whether callers must show a token.
    pub fn requires_token(&self) -> bool {
        self.active.read().tokens.are_required()
    }

    /// Puts another config into force.
    ///
    /// # Errors
    /// Returns an error if the config is invalid. The old one stays in force as a whole.
    pub fn reconfigure(&self, config: Config) -> Result<(), StartError> {
        let services = Services::new(&config)?;
        if let Some(exposed) = self.exposed.filter(|_| config.auth.tokens.is_empty()) {
            return Err(StartError::Exposed(exposed));
        }
        let mut active = self.active.write();
        if config.listen != active.written.listen || config.listen_unix != active.written.listen_unix {
            warn!("where it listens changes with a restart only");
        }
        let mut next = ActiveConfig::new(config, active.changes.clone(), services);
        if let Err(error) = self.gate.reconfigure(&next.config) {
            // A change by hand must not keep a valid file from coming into force.
            self.gate.reconfigure(&next.written)?;
            warn!(%error, "changes of limits are dropped: they do not go with the new config");
            (next.changes, next.config) = (LimitChanges::default(), next.written.clone());
        }
        self.memory.resize(next.config.buffer_memory);
        self.gate.keep_changes(next.changes.kept());
        log_ignored(&next.written);
        *active = Arc::new(next);
        Ok(())
    }

    /// Changes a limit until the written config says something else about it.
    pub fn change_limit(&self, name: &str, wanted: &NewLimit) -> Result<(), RejectedChange> {
        let mut active = self.active.write();
        let mut next = ActiveConfig::clone(&active);
        next.changes.set(&next.written, name, wanted)?;
        next.config = next.changes.over(&next.written);
        self.gate.reconfigure(&next.config).map_err(|error| RejectedChange::Invalid(error.to_string()))?;
        self.gate.keep_changes(next.changes.kept());
        *active = Arc::new(next);
        Ok(())
    }
}

/// Returns the config with a sidecar's defaults.
pub(crate) fn with_defaults(mut config: Config) -> Config {
    if config.services.is_empty() {
        config.services = tidegate_core::config::presets::served();
    }
    for service in config.services.values_mut() {
        service.queue.timeout.get_or_insert(TIMEOUT);
    }
    config
}

/// Logs the keys that have no effect.
pub(crate) fn log_ignored(config: &Config) {
    for ignored in config.ignored() {
        warn!("config: {ignored}");
    }
}
