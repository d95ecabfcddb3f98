//! What becomes of a reservation above the actual cost.

/// What a reservation above the actual cost does when the call settles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SettleRule {
    /// The difference returns to where it came from.
    #[default]
    Refund,
    /// The upstream keeps its own estimate: only its headers give back.
    Keep,
}
