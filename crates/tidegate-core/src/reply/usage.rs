//! What a call cost, as the reply itself reports it.
//!
//! Every vendor has its own words for the same six numbers. They are told apart by those words and not by the
//! vendor's name, because half of the vendors speak OpenAI's dialect and a gateway speaks anybody's.

use super::json::{Place, Tree, Value, decode};
use crate::vendors::usage::Usage;

/// Usage as it is written, before it is made comparable. Streams give it in pieces: later ones count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RawUsage {
    /// Input that includes what came from a cache.
    full_input: Option<u64>,
    /// Input that does not.
    fresh_input: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    output: Option<u64>,
    /// Reasoning that is not part of `output` (Gemini).
    apart: Option<u64>,
    reasoning: Option<u64>,
    total: Option<u64>,
    cost: Option<f64>,
}

/// Where usage is found in a body or an event.
const PLACES: [&str; 10] = [
    "usage",
    "response.usage",
    "message.usage",
    "usageMetadata",
    "response.usageMetadata",
    "x_groq.usage",
    "delta.usage",
    "metadata.usage",
    "meta",
    "amazon-bedrock-invocationMetrics",
];

/// The members of a body that these are below.
const MEMBERS: [&str; 9] = [
    "usage",
    "response",
    "message",
    "usageMetadata",
    "x_groq",
    "delta",
    "metadata",
    "meta",
    "amazon-bedrock-invocationMetrics",
];

impl Usage {
    /// What the body of a reply that is no error says that the call cost. Nothing else of it is looked at.
    ///
    /// ```
    /// use tidegate_core::reply::Usage;
    ///
    /// let body = br#"{"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 12}}"#;
    /// assert_eq!(Usage::of_body(body).unwrap().total_tokens, Some(21));
    /// ```
    #[must_use]
    pub fn of_body(body: &[u8]) -> Option<Usage> {
        RawUsage::read(&Tree::parse_only(&decode(body), &MEMBERS)?).map(RawUsage::finish)
    }
}

impl RawUsage {
    /// The usage that a body or a stream's event reports.
    pub(super) fn read(tree: &Tree<'_>) -> Option<RawUsage> {
        let mut usage: Option<RawUsage> = None;
        for path in PLACES {
            tree.each_place(path, |place| {
                let raw = read_place(place);
                if raw.says_something() {
                    usage = Some(usage.map_or(raw, |before| before.then(raw)));
                }
            });
        }
        usage
    }

    /// From counts that headers give.
    pub(super) fn from_counts(input: Option<u64>, output: Option<u64>) -> Option<RawUsage> {
        let raw = RawUsage { full_input: input, output, ..RawUsage::default() };
        raw.says_something().then_some(raw)
    }

    /// This, corrected by what was said later.
    pub(super) fn then(self, later: RawUsage) -> RawUsage {
        RawUsage {
            full_input: later.full_input.or(self.full_input),
            fresh_input: later.fresh_input.or(self.fresh_input),
            cache_read: later.cache_read.or(self.cache_read),
            cache_write: later.cache_write.or(self.cache_write),
            output: later.output.or(self.output),
            apart: later.apart.or(self.apart),
            reasoning: later.reasoning.or(self.reasoning),
            total: later.total.or(self.total),
            cost: later.cost.or(self.cost),
        }
    }

    /// The same in terms that hold for every vendor.
    pub(super) fn finish(self) -> Usage {
        let cached = self.cache_read.unwrap_or(0).saturating_add(self.cache_write.unwrap_or(0));
        let input = self.full_input.or(self.fresh_input.map(|fresh| fresh.saturating_add(cached)));
        let output = match (self.output, self.apart) {
            (Some(output), apart) => Some(output.saturating_add(apart.unwrap_or(0))),
            (None, apart) => apart,
        };
        let sum = || Some(input?.saturating_add(output?));
        Usage {
            input_tokens: input,
            output_tokens: output,
            total_tokens: self.total.or_else(sum),
            cache_read_tokens: self.cache_read,
            cache_write_tokens: self.cache_write,
            reasoning_tokens: self.reasoning.or(self.apart),
            cost_usd: self.cost,
        }
    }

    fn says_something(&self) -> bool {
        *self != RawUsage::default()
    }
}

/// What a word counts.
#[derive(Clone, Copy)]
enum Counts {
    /// Input with what came from a cache.
    Prompt,
    /// The same in Gemini's words, the prompts of tools apart.
    GeminiPrompt,
    GeminiTools,
    /// Input with what came from a cache, or without it.
    Input,
    /// Input without what came from a cache.
    Fresh,
    CacheRead,
    CacheWrite,
    Output,
    Apart,
    Reasoning,
    Total,
    /// How many there are.
    End,
}

/// The words of all vendors: below what they stand, and what they count. Where several count the same, the first goes
/// before the others.
const WORDS: [(&str, &str, Counts); 35] = [
    ("", "prompt_tokens", Counts::Prompt),
    ("tokens", "input_tokens", Counts::Prompt),
    ("billed_units", "input_tokens", Counts::Prompt),
    ("", "promptTokenCount", Counts::GeminiPrompt),
    ("", "toolUsePromptTokenCount", Counts::GeminiTools),
    ("", "input_tokens", Counts::Input),
    ("", "inputTokens", Counts::Fresh),
    ("", "inputTokenCount", Counts::Fresh),
    ("", "cache_read_input_tokens", Counts::CacheRead),
    ("prompt_tokens_details", "cached_tokens", Counts::CacheRead),
    ("input_tokens_details", "cached_tokens", Counts::CacheRead),
    ("", "prompt_cache_hit_tokens", Counts::CacheRead),
    ("", "cachedContentTokenCount", Counts::CacheRead),
    ("", "cacheReadInputTokens", Counts::CacheRead),
    ("", "cacheReadInputTokenCount", Counts::CacheRead),
    ("", "cached_tokens", Counts::CacheRead),
    ("", "cache_creation_input_tokens", Counts::CacheWrite),
    ("prompt_tokens_details", "cache_write_tokens", Counts::CacheWrite),
    ("input_tokens_details", "cache_write_tokens", Counts::CacheWrite),
    ("", "cacheWriteInputTokens", Counts::CacheWrite),
    ("", "cacheWriteInputTokenCount", Counts::CacheWrite),
    ("", "completion_tokens", Counts::Output),
    ("", "output_tokens", Counts::Output),
    ("", "candidatesTokenCount", Counts::Output),
    ("", "outputTokens", Counts::Output),
    ("", "outputTokenCount", Counts::Output),
    ("tokens", "output_tokens", Counts::Output),
    ("billed_units", "output_tokens", Counts::Output),
    ("", "thoughtsTokenCount", Counts::Apart),
    ("completion_tokens_details", "reasoning_tokens", Counts::Reasoning),
    ("output_tokens_details", "reasoning_tokens", Counts::Reasoning),
    ("", "reasoning_tokens", Counts::Reasoning),
    ("", "total_tokens", Counts::Total),
    ("", "totalTokenCount", Counts::Total),
    ("", "totalTokens", Counts::Total),
];

/// The numbers of a place, by what they count. Each is looked up once: there are few of them, and many words.
#[derive(Default)]
struct Numbers {
    /// With the word's rank among all.
    found: [Option<(usize, u64)>; Counts::End as usize],
    cost: Option<f64>,
}

impl Numbers {
    fn hear(&mut self, below: &str, key: &str, value: &Value<'_>) {
        let Some(number) = value.number().filter(|number| *number >= 0.0) else { return };
        if below.is_empty() && key == "cost" {
            self.cost = self.cost.or(Some(number));
        }
        let rank = WORDS.iter().position(|(parent, word, _)| *word == key && *parent == below);
        if let Some(rank) = rank {
            let best = &mut self.found[WORDS[rank].2 as usize];
            if best.is_none_or(|(before, _)| rank < before) {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                // filtered, and casts saturate
                let count = number as u64;
                *best = Some((rank, count));
            }
        }
    }

    fn count(&self, of: Counts) -> Option<u64> {
        self.found[of as usize].map(|(_, count)| count)
    }

    /// Whether it is by this word that such a number is known.
    fn is_called(&self, of: Counts, word: &str) -> bool {
        self.found[of as usize].is_some_and(|(rank, _)| WORDS[rank].1 == word)
    }
}

fn read_place(place: Place<'_>) -> RawUsage {
    let mut numbers = Numbers::default();
    place.each_near(|below, key, value| numbers.hear(below, key, value));
    let count = |of| numbers.count(of);
    let anthropic_cache = numbers.is_called(Counts::CacheRead, "cache_read_input_tokens")
        || numbers.is_called(Counts::CacheWrite, "cache_creation_input_tokens");
    let input = count(Counts::Input);
    // Gemini counts the prompts of tools apart from the prompt.
    let tools = count(Counts::GeminiTools).unwrap_or(0);
    RawUsage {
        full_input: count(Counts::Prompt)
            .or(count(Counts::GeminiPrompt).map(|prompt| prompt.saturating_add(tools)))
            // OpenAI's newer API and Anthropic share the word; only OpenAI's includes what was cached.
            .or(input.filter(|_| !anthropic_cache && numbers.is_called(Counts::Total, "total_tokens"))),
        fresh_input: count(Counts::Fresh).or(input),
        cache_read: count(Counts::CacheRead),
        cache_write: count(Counts::CacheWrite),
        output: count(Counts::Output),
        apart: count(Counts::Apart),
        reasoning: count(Counts::Reasoning),
        total: count(Counts::Total),
        cost: numbers.cost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Usage {
        let usage = RawUsage::read(&Tree::parse(body).unwrap()).unwrap().finish();
        assert_eq!(Usage::of_body(body.as_bytes()), Some(usage), "nothing that matters is passed over");
        usage
    }

    #[test]
    fn every_place_is_below_a_member_that_is_kept() {
        assert!(PLACES.iter().all(|place| MEMBERS.contains(&place.split('.').next().unwrap())));
    }

    #[test]
    fn every_dialect_says_the_same() {
        let openai = read(
            r#"{"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,
            "prompt_tokens_details":{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":5}}}"#,
        );
        let expected = Usage {
            input_tokens: Some(100),
            output_tokens: Some(20),
            total_tokens: Some(120),
            cache_read_tokens: Some(40),
            reasoning_tokens: Some(5),
            ..Usage::default()
        };
        assert_eq!(openai, expected);
        let responses = read(
            r#"{"response":{"usage":{"input_tokens":100,"output_tokens":20,"total_tokens":120,
            "input_tokens_details":{"cached_tokens":40},"output_tokens_details":{"reasoning_tokens":5}}}}"#,
        );
        assert_eq!(responses, expected);
        let gemini = read(
            r#"{"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":40,"candidatesTokenCount":15,
            "thoughtsTokenCount":5,"totalTokenCount":120}}"#,
        );
        assert_eq!(gemini, expected);
        let anthropic = read(
            r#"{"usage":{"input_tokens":60,"cache_read_input_tokens":40,"cache_creation_input_tokens":0,"output_tokens":20}}"#,
        );
        assert_eq!((anthropic.input_tokens, anthropic.total_tokens), (Some(100), Some(120)));
        let bedrock = read(
            r#"{"usage":{"inputTokens":60,"outputTokens":20,"totalTokens":120,"cacheReadInputTokens":40}}"#,
        );
        assert_eq!((bedrock.input_tokens, bedrock.output_tokens), (Some(100), Some(20)));
        let cohere = read(
            r#"{"usage":{"billed_units":{"input_tokens":90},"tokens":{"input_tokens":100,"output_tokens":20}}}"#,
        );
        assert_eq!((cohere.input_tokens, cohere.output_tokens), (Some(100), Some(20)));
        let groq = read(
            r#"{"x_groq":{"id":"r","usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}}}"#,
        );
        assert_eq!(groq.total_tokens, Some(120));
    }

    #[test]
    fn a_body_without_usage_has_none() {
        for body in [
            r#"{"usage":null}"#,
            r#"{"usage":{}}"#,
            r#"{"usage":{"input_tokens":-5}}"#,
            r#"{"meta":{"a":1}}"#,
        ] {
            assert_eq!(RawUsage::read(&Tree::parse(body).unwrap()), None, "{body}");
        }
    }
}
