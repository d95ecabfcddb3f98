//! What the words of a header name say: which field of a limit, of what kind, over which window.
//!
//! `x-ratelimit-remaining-tokens-minute`, `x-ratelimit-requests-limit` and `x-ratelimit-limit-project-tokens`
//! are one grammar in different orders: somewhere a field, perhaps a kind, perhaps a window, and what is left
//! over is the limit's name.

use super::kind::Kind;
use super::reset::MAX_MS;

/// A second, in milliseconds.
pub(crate) const SECOND: u64 = 1000;
/// A minute, in milliseconds.
pub(crate) const MINUTE: u64 = 60 * SECOND;
/// An hour, in milliseconds.
pub(crate) const HOUR: u64 = 60 * MINUTE;
/// A day, in milliseconds.
pub(crate) const DAY: u64 = 24 * HOUR;

/// Which property of a limit a header gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Field {
    /// How much it allows.
    #[default]
    Limit,
    /// How much is left.
    Remaining,
    /// How much was used.
    Used,
    /// When it is restored, in any form.
    Reset,
    /// The time until it is restored; wins over [`Field::Reset`] because no clock is involved.
    ResetAfter,
    /// When it is restored, as a date that only repeats [`Field::Reset`].
    ResetTime,
    /// What this call cost.
    Cost,
    /// The share that was used (0 to 1, above when overdrawn).
    Utilization,
    /// The window in seconds.
    WindowSeconds,
    /// The window in milliseconds.
    WindowMillis,
    /// How often it is refilled, in seconds.
    IntervalSeconds,
    /// How much each refill adds.
    Fill,
    /// What the limit is called.
    Name,
    /// When to come back, in seconds.
    RetryAfter,
}

/// The words of a header name, understood.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Words {
    pub(crate) field: Option<Field>,
    pub(crate) kind: Option<Kind>,
    pub(crate) window_ms: Option<u64>,
    /// Where in the text the leftover words are.
    pub(crate) name: Option<(usize, usize)>,
}

/// Reads the part of a header name that follows its family's prefix. The text is lower case; its words are
/// parted by `-` or `_`.
pub(crate) fn read(text: &str) -> Words {
    let mut words = Words::default();
    let (mut input, mut output) = (false, false);
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut previous = "";
    // Longer names than this are nobody's.
    for _ in 0..12 {
        if at > bytes.len() {
            break;
        }
        let end = at + bytes[at..].iter().position(|b| matches!(b, b'-' | b'_')).unwrap_or(bytes.len() - at);
        let word = &text[at..end];
        if let Some(field) = field_of(word, previous) {
            // `reset-after` and the like refine the word before them; otherwise the first field counts.
            if words.field.is_none() || refines(word, previous) {
                words.field = Some(field);
            } else {
                leave_over(&mut words, at, end);
            }
        } else if let Some(kind) = kind_of(word) {
            words.kind = Some(kind);
        } else if let Some(window) = window_of(word) {
            match window {
                Window::Millis(ms) => words.window_ms = Some(ms),
                // Months differ in length: they are told by name.
                Window::Calendar => leave_over(&mut words, at, end),
            }
        } else {
            match word {
                "" => {}
                // Half of a field's name: `query-cost`, `interval-seconds`, `window-size`.
                "query" | "interval" | "window" | "fill" => {}
                "input" | "prompt" => input = true,
                "output" | "completion" | "completions" | "generated" => output = true,
                _ => leave_over(&mut words, at, end),
            }
        }
        previous = word;
        at = end + 1;
    }
    match words.kind {
        Some(Kind::Tokens) | None if input => words.kind = Some(Kind::InputTokens),
        Some(Kind::Tokens) | None if output => words.kind = Some(Kind::OutputTokens),
        _ => {}
    }
    words
}

fn leave_over(words: &mut Words, start: usize, end: usize) {
    words.name = Some(match words.name {
        Some((first, _)) => (first, end),
        None => (start, end),
    });
}

fn refines(word: &str, previous: &str) -> bool {
    matches!((previous, word), ("reset", "after" | "time" | "at") | ("retry", "after"))
}

fn field_of(word: &str, previous: &str) -> Option<Field> {
    Some(match word {
        "limit" | "max" | "total" => Field::Limit,
        "remaining" | "left" => Field::Remaining,
        "reset" | "resets" => Field::Reset,
        "used" | "observed" => Field::Used,
        "cost" => Field::Cost,
        "after" if previous == "reset" => Field::ResetAfter,
        "after" if previous == "retry" => Field::RetryAfter,
        "retry" => Field::RetryAfter,
        "time" | "at" if previous == "reset" => Field::ResetTime,
        "resettime" => Field::ResetTime,
        "utilization" => Field::Utilization,
        "seconds" if previous == "interval" => Field::IntervalSeconds,
        "milliseconds" if previous == "interval" => Field::WindowMillis,
        "size" if previous == "window" => Field::WindowSeconds,
        "fillrate" => Field::Fill,
        "rate" if previous == "fill" => Field::Fill,
        "resource" | "bucket" | "name" | "reason" => Field::Name,
        _ => return None,
    })
}

/// The kind that a word of a header name stands for.
pub(crate) fn kind_of(word: &str) -> Option<Kind> {
    Some(match word {
        "requests" | "request" | "req" | "reqs" | "calls" | "call" => Kind::Requests,
        "tokens" | "token" => Kind::Tokens,
        "points" => Kind::Points,
        "complexity" => Kind::Complexity,
        "concurrency" | "concurrent" => Kind::Concurrency,
        "bytes" => Kind::ContentBytes,
        "images" => Kind::Other("images".into()),
        _ => return None,
    })
}

enum Window {
    Millis(u64),
    Calendar,
}

fn window_of(word: &str) -> Option<Window> {
    Some(Window::Millis(match word {
        "second" | "sec" | "secondly" => SECOND,
        "minute" | "min" | "minutely" => MINUTE,
        "hour" | "hourly" => HOUR,
        "day" | "daily" => DAY,
        "week" | "weekly" => 7 * DAY,
        "month" | "monthly" | "year" | "yearly" => return Some(Window::Calendar),
        _ if word.as_bytes().first()?.is_ascii_digit() => period_ms(word)?,
        _ => return None,
    }))
}

/// `1h`, `24hour`, `15m`, `7d`: a length of time as names and periods write it.
pub(crate) fn period_ms(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok().filter(|n| (1..=100_000).contains(n))?;
    let unit = match &text[digits..] {
        "ms" => 1,
        "s" | "sec" | "second" | "seconds" => SECOND,
        "m" | "min" | "minute" | "minutes" => MINUTE,
        "h" | "hour" | "hours" => HOUR,
        "d" | "day" | "days" => DAY,
        _ => return None,
    };
    Some((number * unit).min(MAX_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> (Option<Field>, Option<Kind>, Option<u64>, Option<&str>) {
        let words = read(text);
        (words.field, words.kind, words.window_ms, words.name.map(|(from, to)| &text[from..to]))
    }

    #[test]
    fn the_words_come_in_any_order() {
        use Field::{Cost, Limit, Remaining, Reset, ResetAfter};
        let requests = Some(Kind::Requests);
        let tokens = Some(Kind::Tokens);
        assert_eq!(told("limit-requests"), (Some(Limit), requests.clone(), None, None));
        assert_eq!(told("requests-limit"), (Some(Limit), requests.clone(), None, None));
        assert_eq!(
            told("reset-tokens_usage_based"),
            (Some(Reset), tokens.clone(), None, Some("usage_based"))
        );
        assert_eq!(
            told("remaining-project-tokens"),
            (Some(Remaining), tokens.clone(), None, Some("project"))
        );
        assert_eq!(told("limit-req-minute"), (Some(Limit), requests, Some(MINUTE), None));
        assert_eq!(told("tokens-query-cost"), (Some(Cost), tokens, None, None));
        assert_eq!(told("reset-after"), (Some(ResetAfter), None, None, None));
        assert_eq!(told("24hour-remaining"), (Some(Remaining), None, Some(DAY), None));
        assert_eq!(told("limit-month"), (Some(Limit), None, None, Some("month")));
        assert_eq!(told("input-tokens-limit").1, Some(Kind::InputTokens));
        assert_eq!(told("limit-tokens-prompt").1, Some(Kind::InputTokens));
        assert_eq!(
            told("limit-tokens-cache-adjusted-prompt"),
            (Some(Limit), Some(Kind::InputTokens), None, Some("cache-adjusted"))
        );
        assert_eq!(told("interval-seconds").0, Some(Field::IntervalSeconds));
        assert_eq!(told("fillrate").0, Some(Field::Fill));
        assert_eq!(told("endpoint-name").0, Some(Field::Name));
        assert_eq!(told(""), (None, None, None, None));
        assert_eq!(told("--"), (None, None, None, None));
    }
}
