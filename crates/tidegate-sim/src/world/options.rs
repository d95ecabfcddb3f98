//! How a scenario is played.

/// How a scenario is played.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether every promise is checked at every event.
    pub checks: bool,
    /// Ends the run after this event.
    pub until_event: Option<u64>,
    /// How many of the last events a violation tells.
    pub story: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { checks: true, until_event: None, story: 100 }
    }
}
