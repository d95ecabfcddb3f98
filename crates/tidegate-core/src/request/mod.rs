//! What a request to an LLM asks for: as much of its body as it takes to route the call and to reserve its cost.
//!
//! The body is read once, without building it up in memory, and never changed. A guess at the tokens of a text is
//! just that: four characters are one. The vendor's reply settles what it really was.
//!
//! **What is odd is read all the same**, field by field: an upstream that accepts the body must not get the call for
//! nothing. What is there and cannot be read counts as the careful value:
//!
//! * A maximum of output may be written `100.0`, `1e2` or `"100"`. If it is negative, `NaN` or no number, the call
//!   counts as one that states none. Of two under the same name the larger one counts.
//! * A body that names two models ([`Asked::other_model`]) is a call to both: servers differ in which of two equal
//!   keys they take. One that names more than two cannot be accounted for (`ManyModels`).
//! * A form may be written in any way that a server may understand. Its parts are read like the members of an object.
//! * UTF-16 and UTF-32 are read too, as Python's `json.loads` does.
//! * Keys count in upper and lower case, and whatever is escaped in them.
//! * Text that is no JSON document as a whole counts by its length if that is more ([`Asked::unread`]).

mod body;
mod form;
mod glimpse;
pub mod stream_usage;

use crate::json::narrow;
use crate::vendors::Estimate;

/// About so many characters are a token, in English and in code.
const CHARACTERS_A_TOKEN: u64 = 4;
/// About so many tokens are a picture, a page of a document or some seconds of sound, whatever their size in bytes.
const TOKENS_A_MEDIUM: u64 = 1_000;
/// The longest name of a model that is kept; a longer one is cut.
const MAX_MODEL: usize = 256;
/// So much of a body that is not read as a whole is looked at.
const MOST: usize = 64 << 10;
/// So much of a body is looked at to see whether it begins as JSON in UTF-16 or UTF-32.
const MOST_BLANKS: usize = 1 << 10;

/// What a request asks for.
///
/// ```
/// use tidegate_core::request::Asked;
///
/// let body = br#"{"model": "gpt-4o", "max_tokens": 100, "messages": [{"role": "user", "content": "What is the sea?"}]}"#;
/// let asked = Asked::read(body).unwrap();
/// assert_eq!(asked.model.as_deref(), Some("gpt-4o"));
/// assert_eq!((asked.estimate.input, asked.estimate.max_output), (4, Some(100)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The model it names.
    pub model: Option<String>,
    /// Another model that it names under the same key.
    pub other_model: Option<String>,
    /// Whether the answer is to come as events.
    pub stream: bool,
    /// What it will cost, as well as that can be told from what was read.
    pub estimate: Estimate,
    /// Why the body could not be read as a whole; none if it was.
    pub unread: Option<Unread>,
}

/// Why a body could not be read as a whole, and what it is taken for instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unread {
    /// Why.
    pub why: Why,
    /// Its tokens, by its length.
    pub tokens: u64,
}

/// Why a body could not be read as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is larger than what is kept of a request.
    TooLarge,
    /// There is no memory left to keep it.
    NoRoom,
    /// It is compressed.
    Compressed,
    /// It is not JSON, or not all of it is.
    NotJson,
    /// It is sent while it is made, so it cannot be read before.
    Streamed,
    /// It names more than two models.
    ManyModels,
}

impl Why {
    /// Says it in words that fit after "the body of the request".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Why::TooLarge => "is too large to be read",
            Why::NoRoom => "cannot be read: the sidecar's buffer memory is used up",
            Why::Compressed => "is compressed",
            Why::NotJson => "is not JSON",
            Why::Streamed => "is a stream, which cannot be read before it is sent",
            Why::ManyModels => "names more than two models",
        }
    }
}

impl Asked {
    /// Reads a body in any of the shapes of OpenAI, Anthropic and Gemini, and of all that follow them. Returns none
    /// for what does not begin as a JSON object, and for one of more than 64 KiB in UTF-16 or UTF-32.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Asked> {
        match narrow(body, MOST) {
            Some(text) if body.len() <= MOST => body::read(text.as_bytes()),
            Some(_) => None,
            None => body::read(body),
        }
    }

    /// Reads the beginning of a body that is not there as a whole. A model is found in it if the body states one
    /// early; the tokens are those of its length.
    ///
    /// ```
    /// use tidegate_core::request::{Asked, Why};
    ///
    /// let beginning = br#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "What is"#;
    /// let asked = Asked::glimpse(beginning, 40_000, Why::TooLarge);
    /// assert_eq!(asked.model.as_deref(), Some("gpt-4o"));
    /// assert_eq!(asked.unread.map(|unread| unread.tokens), Some(10_000));
    /// ```
    #[must_use]
    pub fn glimpse(beginning: &[u8], length: u64, why: Why) -> Asked {
        glimpse::glimpse(beginning, length, why)
    }

    /// Takes the body for a medium (a picture, a recording, a form with a file), whose length says little about
    /// its tokens.
    #[must_use]
    pub fn medium(mut self) -> Asked {
        if let Some(unread) = &mut self.unread {
            unread.tokens = unread.tokens.min(TOKENS_A_MEDIUM);
        }
        self
    }

    /// Returns the cost by what was read, or by the length of the body if that is more.
    #[must_use]
    pub fn careful_estimate(&self) -> Estimate {
        let by_length = self.unread.map_or(0, |unread| unread.tokens);
        Estimate { input: self.estimate.input.max(by_length), ..self.estimate }
    }

    /// Returns what to account for if a server may read the body in one of two ways: the models of both, and the larger cost.
    /// Whether it could be read at all is for `self` to say.
    #[must_use]
    pub fn or(mut self, other: Asked) -> Asked {
        for model in other.models() {
            if !self.name_model(model) {
                let tokens = self.unread.map_or(0, |unread| unread.tokens);
                self.unread = Some(Unread { why: Why::ManyModels, tokens });
            }
        }
        let (one, two) = (self.estimate, other.estimate);
        self.estimate = Estimate {
            input: one.input.max(two.input),
            max_output: one.max_output.max(two.max_output),
            answers: one.answers.max(two.answers),
            ..one
        };
        self.stream |= other.stream;
        self
    }

    /// Returns the models that it names.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        [&self.model, &self.other_model].into_iter().flatten().map(String::as_str)
    }

    /// Takes note of a model that the body names. Returns whether there is a place for it.
    fn name_model(&mut self, name: &str) -> bool {
        let is = |known: &Option<String>| known.as_deref() == Some(name);
        if is(&self.model) || is(&self.other_model) {
            return true;
        }
        let free = if self.model.is_none() { &mut self.model } else { &mut self.other_model };
        let has_place = free.is_none();
        free.get_or_insert_with(|| name.to_owned());
        has_place
    }
}

/// Returns whether a body begins as a JSON object or list does, in whatever encoding.
///
/// ```
/// use tidegate_core::request::begins_as_json;
///
/// assert!(begins_as_json(b" {\"model\"") && begins_as_json(b"[\0]\0"));
/// assert!(!begins_as_json(b"model=m"));
/// ```
#[must_use]
pub fn begins_as_json(body: &[u8]) -> bool {
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii_start();
    matches!(text.first(), Some(b'{' | b'[')) || narrow(body, MOST_BLANKS).is_some()
}

/// Returns a path in the normal form that endpoints are matched on; see [`Call::endpoint`](crate::Call::endpoint).
///
/// ```
/// assert_eq!(tidegate_core::request::normal_path("//v1/%63hat/"), "/v1/chat");
/// ```
#[must_use]
pub fn normal_path(path: &str) -> std::borrow::Cow<'_, str> {
    crate::model::endpoint::normal(path)
}

/// The model that a path names, for APIs that have it there and not in the body: Gemini, Bedrock, and the
/// deployments of Azure.
///
/// ```
/// use tidegate_core::request::model_in_path;
///
/// assert_eq!(model_in_path("/v1beta/models/gemini-2.5-flash:generateContent"), Some("gemini-2.5-flash"));
/// assert_eq!(model_in_path("/openai/deployments/ours/chat/completions"), Some("ours"));
/// assert_eq!(model_in_path("/v1/models"), None);
/// ```
#[must_use]
pub fn model_in_path(path: &str) -> Option<&str> {
    let after = |word: &str| path.split_once(word).map(|(_, rest)| rest);
    let until = |rest: &'_ str, end: char| rest.split_once(end).map(|(name, _)| name.len());
    let named = |word: &str, end: char| {
        let rest = after(word)?;
        let name = &rest[..until(rest, end)?];
        (!name.is_empty() && !name.contains('/')).then_some(name)
    };
    named("/models/", ':').or_else(|| named("/model/", '/')).or_else(|| named("/deployments/", '/'))
}

#[cfg(test)]
mod tests;
