//! What error messages say in prose: how long to wait, which limit it was, and how much of it was used.
//!
//! Prose is the last resort, for the replies whose headers are silent. Only phrases with a number and a unit
//! count; everything else stays unsaid.

use super::reading::Limit;
use super::value::{amount, ceil_ms, difference, duration_prefix};
use crate::vendors::kind::Kind;

/// How much of a message is looked at.
const MAX_MESSAGE: usize = 4096;

/// What a message says.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Message {
    pub(super) retry_after_ms: Option<u64>,
    pub(super) limit: Option<Limit>,
    pub(super) requested: Option<f64>,
    pub(super) model: Option<String>,
}

/// Reads a message.
pub(super) fn read(text: &str) -> Message {
    let text = beginning(text);
    // Upper and lower case differ in length for some letters, which would shift every position found.
    let lower = text.to_ascii_lowercase();
    let (limit, requested) = limit(&lower);
    Message { retry_after_ms: wait(&lower), limit, requested, model: model(text, &lower) }
}

/// The beginning of a message that is fit to look at.
pub(super) fn beginning(text: &str) -> &str {
    let mut end = text.len().min(MAX_MESSAGE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// `Please try again in 7m12s.`, `Please retry after 26 seconds.`
fn wait(lower: &str) -> Option<u64> {
    const PHRASES: [&str; 6] =
        ["try again in ", "retry in ", "retry after ", "try again after ", "wait for ", "wait "];
    PHRASES.iter().find_map(|phrase| {
        lower.match_indices(phrase).find_map(|(at, _)| {
            let (micros, _) = duration_prefix(&lower[at + phrase.len()..])?;
            Some(ceil_ms(micros))
        })
    })
}

/// `… on tokens per min (TPM): Limit 30000, Used 18928, Requested 11159.`, and its older
/// `… on requests per min. Limit: 3 / min. Current: 4 / min.`
fn limit(lower: &str) -> (Option<Limit>, Option<f64>) {
    let Some(per) = lower.find(" per ").filter(|at| {
        ["min", "day", "hour", "sec", "month"].iter().any(|unit| lower[at + 5..].starts_with(unit))
    }) else {
        return (None, None);
    };
    let counted = &lower[..per];
    let kind = if counted.ends_with("input tokens") {
        Kind::InputTokens
    } else if counted.ends_with("output tokens") {
        Kind::OutputTokens
    } else if counted.ends_with("tokens") {
        Kind::Tokens
    } else if counted.ends_with("requests") {
        Kind::Requests
    } else if counted.ends_with("images") {
        Kind::Other("images".into())
    } else {
        return (None, None);
    };
    let rest = &lower[per..];
    let requested = number_after(rest, "requested");
    let Some(most) = number_after(rest, "limit") else { return (None, requested) };
    let used = number_after(rest, "used").or_else(|| number_after(rest, "current"));
    let remaining = used.map(|used| difference(most, used));
    (Some(Limit { limit: Some(most), remaining, ..Limit::of(kind) }), requested)
}

/// The number that follows a word, with or without a colon.
fn number_after(text: &str, word: &str) -> Option<f64> {
    text.match_indices(word).find_map(|(at, _)| {
        let rest = text[at + word.len()..].trim_start_matches([':', ' ']);
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != ',' && c != '.').unwrap_or(rest.len());
        // Commas group thousands, or end the phrase.
        let digits = rest[..end].trim_end_matches([',', '.']).replace(',', "");
        amount(&digits)
    })
}

/// `Rate limit reached for gpt-4.1 in organization …`, `for model `x` in organization`, `model: gemini-2.5`.
fn model(text: &str, lower: &str) -> Option<String> {
    let after = |phrase: &str| lower.find(phrase).map(|at| &text[at + phrase.len()..]);
    let named = lower
        .contains(" in organization")
        .then(|| after("limit reached for ").or_else(|| after("too large for ")))
        .flatten()
        .or_else(|| after("model: "))?;
    let named = named.strip_prefix("model ").unwrap_or(named).trim_start_matches('`');
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '/' | ':');
    let end = named.find(|c| !fits(c)).unwrap_or(named.len());
    let name = named[..end].trim_end_matches(['.', ':']);
    (!name.is_empty() && name.len() <= 96).then(|| name.to_owned())
}

/// Whether a phrase stands in a message as words of its own (`limit: 0` is not in `limit: 05`).
pub(super) fn says(lower: &str, phrase: &str) -> bool {
    lower.match_indices(phrase).any(|(at, _)| {
        let next = lower[at + phrase.len()..].chars().next();
        !phrase.ends_with(|c: char| c.is_alphanumeric()) || !next.is_some_and(|c| c.is_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_read_from_prose() {
        let wait = |text: &str| read(text).retry_after_ms;
        assert_eq!(wait("Please try again in 6.596s. Visit https://x"), Some(6596));
        assert_eq!(wait("Please try again in 174ms."), Some(174));
        assert_eq!(wait("Please try again in 7m12s. Need more?"), Some(432_000));
        assert_eq!(wait("Please retry after 26 seconds."), Some(26_000));
        assert_eq!(wait("Please retry in 47.884324799s."), Some(47_885));
        assert_eq!(wait("Please wait 2 minutes and retry"), Some(120_000));
        assert_eq!(wait("Please wait a few minutes before you try again."), None);
        assert_eq!(wait("Too many tokens, please wait before trying again."), None);
        assert_eq!(wait("retry after 5"), None);
    }

    #[test]
    fn the_limit_is_read_from_prose() {
        let message = read(
            "Rate limit reached for model `llama-3.1-70b` in organization `org_x` on tokens per minute (TPM): \
             Limit 15,000, Used 11972, Requested 4351. Please try again in 5.289s.",
        );
        let limit = message.limit.unwrap();
        assert_eq!((limit.kind, limit.limit, limit.remaining), (Kind::Tokens, Some(15_000.0), Some(3028.0)));
        assert_eq!(message.requested, Some(4351.0));
        assert_eq!(message.model.as_deref(), Some("llama-3.1-70b"));
        let old = read(
            "Rate limit reached for default-gpt-3.5-turbo in organization org-x on requests per min. Limit: 3 / min. Please try again in 20s.",
        );
        assert_eq!(old.limit.unwrap().limit, Some(3.0));
        assert_eq!(read("exceeded the per-minute rate limit").limit, None);
        assert_eq!(read("Quota exceeded for metric: x, limit: 0, model: gemini-2.5-pro").limit, None);
        assert_eq!(read("limit: 0, model: gemini-2.5-pro\n").model.as_deref(), Some("gemini-2.5-pro"));
    }

    #[test]
    fn phrases_are_whole_words() {
        assert!(says("x, limit: 0, model", "limit: 0"));
        assert!(!says("x, limit: 05", "limit: 0"));
        assert!(says("İ limit: 0", "limit: 0"));
    }
}
