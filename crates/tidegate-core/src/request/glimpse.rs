//! The beginning of a body that is not there as a whole, or is no JSON.

use super::{Asked, CHARACTERS_A_TOKEN, MAX_MODEL, MOST, Unread, Why, begins_as_json, form};
use crate::json::{Scanner, Token, narrow};

/// Looks for a model, and takes the tokens from the length.
pub(super) fn glimpse(beginning: &[u8], length: u64, why: Why) -> Asked {
    let wide = narrow(beginning, MOST);
    let text = wide.as_deref().map_or(beginning, str::as_bytes);
    let beginning = &text[..text.len().min(MOST)];
    let mut asked = Asked::default();
    asked.estimate.answers = 1;
    let mut many = false;
    // Of a form all parts that are there are looked at: the model may stand behind a file.
    for model in models(beginning).into_iter().chain(form::parts(text, "model")) {
        many |= !asked.name_model(&model);
    }
    // A prompt in JSON may quote a query.
    if asked.model.is_none() || !begins_as_json(text) {
        // Any text with `&` in it resembles such a form. So names beyond the second one are no reason to refuse it.
        for model in form::fields(beginning, "model") {
            asked.name_model(&model);
        }
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
