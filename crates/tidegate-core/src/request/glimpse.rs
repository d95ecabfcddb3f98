//! The beginning of a body that is not there as a whole, or is no JSON.

use super::{Asked, CHARACTERS_A_TOKEN, MAX_MODEL, Unread, Why};
use crate::json::{Scanner, Token};

/// No more of a body is looked at.
const MOST: usize = 64 << 10;

/// Looks for a model, and takes the tokens from the length.
pub(super) fn glimpse(beginning: &[u8], length: u64, why: Why) -> Asked {
    let beginning = &beginning[..beginning.len().min(MOST)];
    let mut asked = Asked::default();
    asked.estimate.answers = 1;
    let mut many = false;
    for model in models(beginning) {
        many |= !asked.name_model(&model);
    }
    if asked.model.is_none()
        && let Some(model) = form_field(beginning, b"model")
    {
        asked.name_model(&model);
    }
    let why = if many { Why::ManyModels } else { why };
    asked.unread = Some(Unread { why, tokens: length.div_ceil(CHARACTERS_A_TOKEN) });
    asked
}

/// The models that a text names as a JSON object does. Those of the object itself go before those of objects in it.
fn models(text: &[u8]) -> Vec<String> {
    let mut scanner = Scanner::new(text);
    let (mut near, mut far) = (Vec::new(), Vec::new());
    while let Some(token) = scanner.next() {
        if !matches!(token, Token::Key(name) if name.is_like("model")) {
            continue;
        }
        let depth = scanner.depth();
        if let Some(Token::Text(name)) = scanner.clone().next() {
            let models = if depth <= 1 { &mut near } else { &mut far };
            models.push(name.beginning(MAX_MODEL).into_owned());
        }
    }
    // A body that is no object of its own has its models further down: the first one is taken.
    far.truncate(1);
    if near.is_empty() { far } else { near }
}

/// The value of a field of a form, in one part or in many.
fn form_field(text: &[u8], name: &[u8]) -> Option<String> {
    let value = match text.starts_with(b"--") {
        true => {
            let part = [b"name=\"", name, b"\""].concat();
            let at = memchr::memmem::find(text, &part)? + part.len();
            let rest = &text[at..];
            // The blank line ends the part's headers.
            let start = memchr::memmem::find(rest, b"\r\n\r\n")? + 4;
            let end = memchr::memmem::find(&rest[start..], b"\r\n")?;
            &rest[start..start + end]
        }
        false => {
            let fields = text.split(|byte| *byte == b'&');
            let is_it = |field: &&[u8]| field.starts_with(name) && field.get(name.len()) == Some(&b'=');
            &fields.into_iter().find(is_it)?[name.len() + 1..]
        }
    };
    let value = std::str::from_utf8(value).ok()?.trim();
    (!value.is_empty() && value.len() <= MAX_MODEL).then(|| value.to_owned())
}
