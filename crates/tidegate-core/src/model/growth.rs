//! How the delays between attempts grow.

/// How delays grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    /// Twice as long each time.
    #[default]
    Exponential,
    /// Longer by the first delay each time.
    Linear,
    /// Always the first delay.
    Constant,
    /// Anything between the first delay and three times the last one. That is a spread of its own: jitter is
    /// not added to it.
    Decorrelated,
}

impl Growth {
    /// The names used in config files.
    pub const NAMES: [(&'static str, Growth); 4] = [
        ("exponential", Growth::Exponential),
        ("linear", Growth::Linear),
        ("constant", Growth::Constant),
        ("decorrelated", Growth::Decorrelated),
    ];
}
