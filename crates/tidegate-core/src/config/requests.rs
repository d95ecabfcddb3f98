//! How the requests of a service are counted, and which of them may be made twice.

use super::Config;
use crate::presets;
use crate::vendor::{Counting, Vendor};

/// What generates or measures text, by the end of its path: made twice it costs twice, and does no harm.
const GENERATES: [&str; 14] = [
    "/chat/completions",
    "/completions",
    "/responses",
    "/messages",
    "/messages/count_tokens",
    "/embeddings",
    "/moderations",
    "/rerank",
    "/converse",
    "/converse-stream",
    "/invoke",
    "/invoke-with-response-stream",
    "/embed",
    "/chat",
];
/// The same where a verb stands behind the model's name.
const VERBS: [&str; 5] =
    [":generateContent", ":streamGenerateContent", ":countTokens", ":embedContent", ":batchEmbedContents"];

impl Config {
    /// How a service counts the tokens of a call: as its vendor does.
    #[must_use]
    pub fn counting(&self, service: &str) -> Counting {
        self.vendor(service).map_or(Counting::PLAIN, |vendor| vendor.counting)
    }

    /// Whether a service's preset marks a call as one that may be made twice though its method says otherwise:
    /// to LLM vendors, whatever generates text or embeddings.
    ///
    /// ```
    /// use tidegate_core::Config;
    ///
    /// let config = Config::parse("[services.openai]\npreset = \"openai\"\n", "tidegate.toml")?;
    /// assert!(config.marks_repeatable("openai", "POST", "/v1/chat/completions"));
    /// assert!(!config.marks_repeatable("openai", "POST", "/v1/files"));
    /// # Ok::<(), tidegate_core::config::ConfigErrors>(())
    /// ```
    #[must_use]
    pub fn marks_repeatable(&self, service: &str, method: &str, path: &str) -> bool {
        method == "POST"
            && self.vendor(service).is_some_and(Vendor::is_llm)
            && (GENERATES.iter().any(|end| path.ends_with(end))
                || VERBS.iter().any(|end| path.ends_with(end)))
    }

    /// The row of the vendor table that a service follows, if it names one.
    fn vendor(&self, service: &str) -> Option<&'static Vendor> {
        let service = self.services.get(service)?;
        let preset = || Some(presets::by_name(service.preset.as_deref()?)?.vendor());
        service.profile_base(&self.profiles).or_else(preset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "[services.openai]\npreset = \"openai\"\n[services.stripe]\npreset = \"stripe\"\n\
                          [services.ours]\nprofile = \"anthropic\"\n[services.bare]\nrequests = \"1/s\"\n";

    #[test]
    fn only_what_an_llm_generates_is_marked() {
        let config = Config::parse(CONFIG, "config").expect("valid");
        let marked = |service: &str, path: &str| config.marks_repeatable(service, "POST", path);
        assert!(marked("openai", "/v1/embeddings") && marked("ours", "/v1/messages"));
        assert!(marked("openai", "/models/gemini-2.5-pro:generateContent"));
        assert!(!marked("openai", "/v1/batches") && !marked("stripe", "/v1/messages"));
        assert!(!marked("bare", "/v1/messages") && !marked("nobody", "/v1/messages"));
        assert!(!config.marks_repeatable("openai", "PATCH", "/v1/responses"));
    }

    #[test]
    fn tokens_are_counted_as_the_vendor_does() {
        let config = Config::parse(CONFIG, "config").expect("valid");
        assert!(!config.counting("ours").cached_counts);
        assert_eq!(config.counting("bare"), Counting::PLAIN);
    }
}
