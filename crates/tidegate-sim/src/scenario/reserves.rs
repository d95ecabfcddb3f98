//! Whether an upstream counts the output that a call asks for before it knows what there will be.

/// What an upstream reserves for output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reserves {
    /// Nothing: output counts when it is there (Anthropic).
    #[default]
    Nothing,
    /// The most that the call asks for, and what does not come returns in the end (Bedrock, Cerebras).
    MaxTokens,
    /// The same, and nothing returns (Azure OpenAI).
    MaxTokensKept,
}

impl Reserves {
    /// All of them, by the names that users write.
    pub const NAMED: [(&'static str, Reserves); 3] = [
        ("nothing", Reserves::Nothing),
        ("max_tokens", Reserves::MaxTokens),
        ("max_tokens-kept", Reserves::MaxTokensKept),
    ];

    /// Whether it counts the most that a call asks for.
    #[must_use]
    pub fn max_tokens(self) -> bool {
        self != Reserves::Nothing
    }

    /// Whether what it reserved stays counted.
    #[must_use]
    pub fn keeps(self) -> bool {
        self == Reserves::MaxTokensKept
    }
}
