//! The engine as it is, for tests that drive it step by step.

use std::time::Duration;

use tidegate_core::{Config, Engine, Nanos};

/// A time that nobody's waiting ends in.
pub const LONG: Duration = Duration::from_secs(3_600);

pub fn engine(config: &str) -> Engine {
    let config = Config::parse(config, "test.toml").expect("the config is right");
    Engine::new(&config, Nanos::ZERO, Duration::ZERO).expect("the config can be")
}

pub fn at(ms: u64) -> Nanos {
    Nanos::ZERO.after(Duration::from_millis(ms))
}
