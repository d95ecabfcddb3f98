//! How reset headers write their numbers, and the longest time that a reply is believed.

/// The longest time any hint is believed: 366 days. What an upstream says beyond that is clamped to it.
pub const MAX_MS: u64 = 366 * 86_400_000;

/// How a bare number in a reset header is meant. Durations with a unit and dates speak for themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResetForm {
    /// By its size: below 10⁹ seconds from now, below 10¹² seconds since 1970, else milliseconds since 1970.
    #[default]
    Auto,
    /// Seconds from now.
    Seconds,
    /// Milliseconds from now.
    Millis,
    /// Seconds since 1970.
    EpochSeconds,
    /// Milliseconds since 1970.
    EpochMillis,
}

impl ResetForm {
    /// Every form, under its name in config files.
    pub const NAMES: [(&'static str, ResetForm); 5] = [
        ("auto", ResetForm::Auto),
        ("seconds", ResetForm::Seconds),
        ("milliseconds", ResetForm::Millis),
        ("epoch-seconds", ResetForm::EpochSeconds),
        ("epoch-milliseconds", ResetForm::EpochMillis),
    ];
}
