//! The body of a request, token by token.

use super::{Asked, CHARACTERS_A_TOKEN, MAX_MODEL, TOKENS_A_MEDIUM, Unread, Why};
use crate::json::{Scanner, Text, Token};
use crate::model::rate::MAX_UNITS;
use crate::vendors::Estimate;

/// The members whose texts a model reads.
const TEXTS: [&str; 7] = ["messages", "input", "prompt", "system", "instructions", "contents", "tools"];
/// Below this depth a medium may count more than once.
const MAX_MEDIA_DEPTH: usize = 64;

/// Reads a body that begins as an object.
pub(super) fn read(body: &[u8]) -> Option<Asked> {
    let mut scanner = Scanner::new(body);
    if scanner.next() != Some(Token::OpenObject) {
        return None;
    }
    let mut found = Found::default();
    while scanner.depth() > 0
        && let Some(token) = scanner.next()
    {
        if let Token::Key(name) = token {
            found.member(&name, &mut scanner);
        }
    }
    // What stands behind the object.
    while scanner.next().is_some() {}
    Some(found.asked(body.len() as u64, scanner.is_json()))
}

/// What the members of a body said so far.
#[derive(Default)]
struct Found {
    asked: Asked,
    many_models: bool,
    characters: u64,
    max_tokens: Amount,
    max_completion_tokens: Amount,
    max_output_tokens: Amount,
    /// Gemini's, below `generationConfig`.
    config_max: Amount,
    n: Amount,
    best_of: Amount,
}

/// A number that a body states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Amount {
    /// It is not stated, or is null.
    #[default]
    None,
    Known(u64),
    /// It is stated and cannot be read, or is stated twice and one of the two is none.
    Unclear,
}

impl Found {
    /// Reads a member of the body.
    fn member(&mut self, name: &Text<'_>, scanner: &mut Scanner<'_>) {
        let amounts = [
            ("max_tokens", &mut self.max_tokens),
            ("max_completion_tokens", &mut self.max_completion_tokens),
            ("max_output_tokens", &mut self.max_output_tokens),
            ("n", &mut self.n),
            ("best_of", &mut self.best_of),
        ];
        if let Some((_, amount)) = amounts.into_iter().find(|(known, _)| name.is_like(known)) {
            amount.hear(scanner.skip_value());
        } else if name.is_like("model") {
            self.models(scanner);
        } else if name.is_like("stream") {
            self.asked.stream |= match scanner.skip_value() {
                Some(Token::Bool(yes)) => yes,
                Some(Token::Number(number)) => whole(number) == Some(1),
                Some(Token::Text(text)) => text.is_like("true"),
                _ => false,
            };
        } else if name.is_like("generationConfig") || name.is_like("generation_config") {
            self.config(scanner);
        } else if TEXTS.iter().any(|known| name.is_like(known)) {
            let characters = characters(scanner);
            self.characters = self.characters.saturating_add(characters);
        } else {
            scanner.skip_value();
        }
    }

    /// Reads the value of `model`: a name, or names inside of whatever it is.
    fn models(&mut self, scanner: &mut Scanner<'_>) {
        let depth = scanner.depth();
        while let Some(token) = scanner.next() {
            let name = match token {
                Token::Text(text) => Some(text.beginning(MAX_MODEL)),
                // A server may take it for a name.
                Token::Number(number) => Some(number.into()),
                _ => None,
            };
            if let Some(name) = name {
                self.many_models |= !self.asked.name_model(&name);
            }
            if scanner.depth() <= depth {
                break;
            }
        }
    }

    fn config(&mut self, scanner: &mut Scanner<'_>) {
        let depth = scanner.depth();
        scanner.next();
        while scanner.depth() > depth
            && let Some(token) = scanner.next()
        {
            let Token::Key(name) = token else { continue };
            let value = scanner.skip_value();
            if name.is_like("maxOutputTokens") || name.is_like("max_output_tokens") {
                self.config_max.hear(value);
            }
        }
    }

    fn asked(mut self, length: u64, is_json: bool) -> Asked {
        let maxima = [self.max_completion_tokens, self.max_output_tokens, self.max_tokens, self.config_max];
        let stated = maxima.into_iter().find(|amount| *amount != Amount::None).unwrap_or_default();
        let answers = self.n.known().unwrap_or(1).max(self.best_of.known().unwrap_or(1));
        self.asked.estimate = Estimate {
            input: self.characters.div_ceil(CHARACTERS_A_TOKEN),
            max_output: stated.known(),
            answers: u32::try_from(answers).unwrap_or(u32::MAX),
            ..Estimate::default()
        };
        let tokens = length.div_ceil(CHARACTERS_A_TOKEN);
        self.asked.unread = match (self.many_models, is_json) {
            (true, _) => Some(Unread { why: Why::ManyModels, tokens }),
            (false, false) => Some(Unread { why: Why::NotJson, tokens }),
            (false, true) => None,
        };
        self.asked
    }
}

impl Amount {
    fn hear(&mut self, value: Option<Token<'_>>) {
        let heard = match value {
            Some(Token::Number(number)) => whole(number),
            Some(Token::Text(text)) => whole(text.beginning(40).trim()),
            // Null states nothing, unless the same key says something else too.
            Some(Token::Null) if *self == Amount::None => return,
            _ => None,
        };
        *self = match (*self, heard) {
            (Amount::None, Some(amount)) => Amount::Known(amount),
            (Amount::Known(before), Some(amount)) => Amount::Known(before.max(amount)),
            _ => Amount::Unclear,
        };
    }

    fn known(self) -> Option<u64> {
        match self {
            Amount::Known(amount) => Some(amount),
            Amount::None | Amount::Unclear => None,
        }
    }
}

/// Reads a number of tokens or of answers, rounded up; none if it is negative or no number.
fn whole(written: &str) -> Option<u64> {
    if let Ok(number) = written.parse::<u64>() {
        return Some(number.min(MAX_UNITS));
    }
    let number = written.parse::<f64>().ok()?;
    // Saturating: a number that is too large is as good as the largest.
    (number.is_finite() && number >= 0.0).then_some((number.ceil() as u64).min(MAX_UNITS))
}

/// Counts the characters of all texts in the value that comes next. A bare number among them is a token's, and a medium
/// counts as one, whatever its length.
fn characters(scanner: &mut Scanner<'_>) -> u64 {
    let depth = scanner.depth();
    let mut sum: u64 = 0;
    // Which of the open objects were seen to be media, by their depth: each counts once.
    let mut media: u64 = 0;
    while let Some(token) = scanner.next() {
        let level = scanner.depth() - depth.min(scanner.depth());
        let mut is_medium = false;
        match token {
            Token::OpenObject | Token::OpenList if level < MAX_MEDIA_DEPTH => media &= !(1 << level),
            Token::Key(name) => match Name::of(&name) {
                Name::Type => {
                    is_medium = matches!(scanner.skip_value(), Some(Token::Text(kind)) if is_media(&kind));
                }
                Name::Data { medium } => {
                    scanner.skip_value();
                    is_medium = medium;
                }
                Name::Other => continue,
            },
            Token::Text(text) => sum = sum.saturating_add(text_characters(&text)),
            Token::Number(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                sum = sum.saturating_add(CHARACTERS_A_TOKEN);
            }
            _ => {}
        }
        if is_medium {
            let counted = level < MAX_MEDIA_DEPTH && media >> level & 1 == 1;
            if !counted {
                sum = sum.saturating_add(TOKENS_A_MEDIUM * CHARACTERS_A_TOKEN);
            }
            media |= if level < MAX_MEDIA_DEPTH { 1 << level } else { 0 };
        }
        if scanner.depth() <= depth {
            break;
        }
    }
    sum
}

/// Counts the characters of a text. A data URL counts as one medium at most.
fn text_characters(text: &Text<'_>) -> u64 {
    let most = if text.is_data_url() { TOKENS_A_MEDIUM * CHARACTERS_A_TOKEN } else { u64::MAX };
    text.characters().min(most)
}

/// What stands under a key, as far as it matters here.
enum Name {
    /// What kind of thing it is part of.
    Type,
    /// No text that a model reads word by word.
    Data {
        /// It is a medium in itself.
        medium: bool,
    },
    Other,
}

impl Name {
    fn of(name: &Text<'_>) -> Name {
        match &*name.beginning(16) {
            "type" => Name::Type,
            "inlineData" | "inline_data" | "fileData" => Name::Data { medium: true },
            "data" | "detail" | "file_data" | "id" | "image_url" | "role" | "url" => {
                Name::Data { medium: false }
            }
            _ => Name::Other,
        }
    }
}

/// Whether a part of this type is a medium.
fn is_media(kind: &Text<'_>) -> bool {
    const MEDIA: [&str; 10] = [
        "image",
        "image_url",
        "input_image",
        "document",
        "file",
        "input_file",
        "audio",
        "input_audio",
        "video",
        "video_url",
    ];
    MEDIA.contains(&&*kind.beginning(16))
}
