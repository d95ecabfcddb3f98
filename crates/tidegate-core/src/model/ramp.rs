//! How calls begin again after a time without any.

use std::time::Duration;

/// How calls begin again after a time without any.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RampConfig {
    /// So long without a call.
    pub idle: Duration,
    /// The share of the usual pace that they begin with; 1 is no ramp at all.
    pub from: f64,
    /// How long it takes until the pace is whole.
    pub over: Duration,
}

impl Default for RampConfig {
    fn default() -> Self {
        RampConfig { idle: Duration::from_secs(300), from: 0.5, over: Duration::from_secs(60) }
    }
}
