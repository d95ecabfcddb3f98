//! What the config says about calls that failed, service by service.
//!
//! The engine keeps limits and queues; this is for those who end calls, and is read without its lock. A new
//! config makes new rules.

use tidegate_core::reply::Reader;

use crate::config::Config;

/// What a config says about calls that failed.
#[derive(Debug)]
pub(crate) struct Rules {
    config: Config,
}

impl Rules {
    pub fn new(config: Config) -> Rules {
        Rules { config }
    }

    /// Who reads the replies of a service.
    pub fn reader(&self, service: &str) -> Reader<'_> {
        self.config.reader(service)
    }
}
