//! Endpoint and model patterns: text with `*` for anything.

use std::borrow::Cow;

use crate::model::endpoint;

/// A pattern; the more of it is literal, the more specific it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// As it is written: limits are named by it.
    text: Box<str>,
    /// What is matched, if that is not the text itself.
    normal: Option<Box<str>>,
}

impl Pattern {
    pub fn new(text: &str) -> Pattern {
        Pattern { text: text.into(), normal: None }
    }

    /// A pattern of endpoints, in the normal form that calls have.
    pub fn of_endpoints(text: &str) -> Pattern {
        let normal = match endpoint::normal(text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(normal) => Some(normal.into()),
        };
        Pattern { text: text.into(), normal }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    fn matched(&self) -> &str {
        self.normal.as_deref().unwrap_or(&self.text)
    }

    /// Whether the whole of `text` is meant. Greedy with one step back: linear in practice, never
    /// exponential.
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text) = (self.matched().as_bytes(), text.as_bytes());
        let (mut p, mut t) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while t < text.len() {
            if p < pattern.len() && pattern[p] == b'*' {
                star = Some((p, t));
                p += 1;
            } else if p < pattern.len() && pattern[p] == text[t] {
                p += 1;
                t += 1;
            } else if let Some((star_p, star_t)) = star {
                star = Some((star_p, star_t + 1));
                p = star_p + 1;
                t = star_t + 1;
            } else {
                return false;
            }
        }
        pattern[p..].iter().all(|byte| *byte == b'*')
    }

    /// Literal characters first, then fewer stars: the most specific has the greatest.
    pub fn specificity(&self) -> (usize, std::cmp::Reverse<usize>) {
        let stars = self.matched().bytes().filter(|byte| *byte == b'*').count();
        (self.matched().len() - stars, std::cmp::Reverse(stars))
    }
}

/// The most specific of the patterns that match; the first by text where two are equally specific.
pub(crate) fn most_specific<'a>(
    patterns: impl Iterator<Item = (usize, &'a Pattern)>,
    text: &str,
) -> Option<usize> {
    patterns
        .filter(|(_, pattern)| pattern.matches(text))
        .max_by(|(_, a), (_, b)| a.specificity().cmp(&b.specificity()).then_with(|| b.text.cmp(&a.text)))
        .map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(patterns: &[&str], text: &str) -> Option<usize> {
        let patterns: Vec<_> = patterns.iter().map(|p| Pattern::new(p)).collect();
        most_specific(patterns.iter().enumerate(), text)
    }

    #[test]
    fn a_star_stands_for_anything() {
        assert!(Pattern::new("gpt-4o*").matches("gpt-4o"));
        assert!(Pattern::new("gpt-4o*").matches("gpt-4o-mini"));
        assert!(!Pattern::new("gpt-4o*").matches("gpt-4"));
        assert!(Pattern::new("* /v1/files/*/content").matches("GET /v1/files/abc/content"));
        assert!(!Pattern::new("* /v1/files/*/content").matches("GET /v1/files/abc"));
        assert!(Pattern::new("*").matches(""));
    }

    #[test]
    fn the_most_specific_pattern_applies() {
        assert_eq!(pick(&["gpt-4o*", "gpt-4o-mini*", "*"], "gpt-4o-mini-2024"), Some(1));
        assert_eq!(pick(&["gpt-4o*", "gpt-4o"], "gpt-4o"), Some(1));
        assert_eq!(pick(&["a*", "b*"], "c"), None);
    }

    #[test]
    fn a_pattern_of_endpoints_matches_in_its_normal_form_and_keeps_its_name() {
        let pattern = Pattern::of_endpoints("POST /v1/%63hat/");
        assert!(pattern.matches("POST /v1/chat") && pattern.text() == "POST /v1/%63hat/");
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = Pattern::new(&"*a".repeat(40));
        assert!(pattern.matches(&"a".repeat(10_000)));
    }
}
