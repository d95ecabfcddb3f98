//! Calls that do no harm if they are made twice, though their method says nothing of it.
//!
//! Generating a text, embedding one and counting its tokens change nothing at the upstream: asked again it answers
//! again, and costs again. What stores something (files, threads, batches) is not among them.

use super::preset::Preset;
use crate::model::pattern::Pattern;

/// The endpoints of generation and embedding, in the dialects of all LLM presets.
const ENDPOINTS: [&str; 20] = [
    "POST */completions",
    "POST */responses",
    "POST */v1/messages",
    "POST */v1/messages/count_tokens",
    "POST */embeddings",
    "POST */embed",
    "POST */rerank",
    "POST */moderations",
    "POST */v1/chat",
    "POST */v2/chat",
    "POST */api/chat",
    "POST */api/generate",
    "POST *:generateContent",
    "POST *:streamGenerateContent",
    "POST *:countTokens",
    "POST *:*mbedContent*",
    "POST */invoke",
    "POST */invoke-with-response-stream",
    "POST */converse",
    "POST */converse-stream",
];

impl Preset {
    /// Whether a call to this endpoint does no harm if it is made twice. Its method may say so besides.
    ///
    /// ```
    /// use tidegate_core::config::presets;
    ///
    /// let openai = presets::by_name("openai").unwrap();
    /// assert!(openai.repeats("POST /v1/chat/completions"));
    /// assert!(!openai.repeats("POST /v1/files"));
    /// ```
    #[must_use]
    pub fn repeats(&self, endpoint: &str) -> bool {
        let endpoint = crate::model::endpoint::normal(endpoint.split('?').next().unwrap_or_default());
        self.llm && ENDPOINTS.iter().any(|pattern| Pattern::new(pattern).matches(&endpoint))
    }
}
