//! What a request asks for, and what it counts as.

use hyper::HeaderMap;
use serde_json::Value;
use tidegate_core::{Cost, Dimension};

use crate::scenario::HeaderStyle;

/// The kind of a request, by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// OpenAI's chat completions.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// OpenAI's embeddings.
    Embeddings,
    /// Anthropic's messages.
    Messages,
    /// Anything else.
    Other,
}

impl Shape {
    /// The shape that a method and a path stand for, whatever stands before the last words.
    #[must_use]
    pub fn of(method: &str, path: &str) -> Shape {
        const ENDS: [(&str, Shape); 4] = [
            ("/chat/completions", Shape::Chat),
            ("/responses", Shape::Responses),
            ("/embeddings", Shape::Embeddings),
            ("/messages", Shape::Messages),
        ];
        let known = ENDS.into_iter().find(|(end, _)| path.ends_with(end)).filter(|_| method == "POST");
        known.map_or(Shape::Other, |(_, shape)| shape)
    }
}

/// What a request asks for.
///
/// **Tokens.** Four characters are a token, rounded up: all texts below `messages`, `input`, `prompt`, `system`
/// and `instructions` together, the values of `role` and `type` apart; a bare number among them (a token id) is
/// one token. The answer has `x-sim-output-tokens` tokens if the request has that header, else its
/// `max_tokens` (`max_completion_tokens`, `max_output_tokens`), else 16; never more than that maximum.
/// Embeddings have none, and neither has anything else without the header.
///
/// **What is counted**, by the header style, as the vendor does:
///
/// | style | on arrival | at the end |
/// |---|---|---|
/// | OpenAI | the input or the maximum, whichever is more | unchanged |
/// | Azure | the input and the maximum | unchanged |
/// | Anthropic | the input | the answer is added |
/// | others | the input and the maximum | becomes the input and the answer |
///
/// Where no maximum is stated, the answer's own length stands for it. Bytes are those of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What kind of answer it expects.
    pub shape: Shape,
    /// The model it names.
    pub model: String,
    /// Tokens sent.
    pub input: u64,
    /// The longest answer it allows.
    pub max_output: Option<u64>,
    /// Tokens of the answer that it gets.
    pub output: u64,
    /// Whether it wants events.
    pub stream: bool,
    /// Whether the events are to tell the usage.
    pub include_usage: bool,
    /// How many texts are to be embedded.
    pub inputs: usize,
    /// Whether embeddings are to be base64.
    pub base64: bool,
    /// Bytes of its body.
    pub bytes: u64,
}

/// The answer's length where nothing is said about it.
const ANSWER: u64 = 16;

impl Asked {
    /// Reads a request.
    ///
    /// # Errors
    /// If an LLM endpoint was asked without a JSON object; what is wrong, in words.
    pub fn read(method: &str, path: &str, headers: &HeaderMap, body: &[u8]) -> Result<Asked, String> {
        let shape = Shape::of(method, path);
        let told =
            headers.get("x-sim-output-tokens").and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let bytes = body.len() as u64;
        if shape == Shape::Other {
            return Ok(Asked { output: told.unwrap_or(0), bytes, ..Asked::nothing(shape) });
        }
        let body: Value =
            serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
        if !body.is_object() {
            return Err("the body is not a JSON object".to_owned());
        }
        let max = |name: &str| body[name].as_u64();
        let max_output =
            max("max_completion_tokens").or_else(|| max("max_tokens")).or_else(|| max("max_output_tokens"));
        let output = match shape {
            Shape::Embeddings => 0,
            _ => told.or(max_output).unwrap_or(ANSWER).min(max_output.unwrap_or(u64::MAX)),
        };
        Ok(Asked {
            model: body["model"].as_str().unwrap_or("sim").to_owned(),
            input: input_tokens(&body),
            max_output: max_output.filter(|_| shape != Shape::Embeddings),
            output,
            stream: shape != Shape::Embeddings && body["stream"] == true,
            include_usage: body["stream_options"]["include_usage"] == true,
            inputs: inputs(&body["input"]),
            base64: body["encoding_format"] == "base64",
            bytes,
            ..Asked::nothing(shape)
        })
    }

    /// What is counted when it arrives.
    #[must_use]
    pub fn cost(&self, style: HeaderStyle) -> Cost {
        let most = self.max_output.unwrap_or(self.output);
        match style {
            HeaderStyle::OpenAi => self.counted(most, self.input.max(most)),
            HeaderStyle::Anthropic => self.counted(0, self.input),
            _ => self.counted(most, self.input.saturating_add(most)),
        }
    }

    /// What it really cost, where that is counted at its end; else nothing is stated.
    #[must_use]
    pub fn settles(&self, style: HeaderStyle) -> Cost {
        match style {
            HeaderStyle::OpenAi | HeaderStyle::Azure => Cost::nothing(),
            _ => self.counted(self.output, self.input.saturating_add(self.output)),
        }
    }

    fn counted(&self, output: u64, tokens: u64) -> Cost {
        Cost::new()
            .with(Dimension::InputTokens, self.input)
            .with(Dimension::OutputTokens, output)
            .with(Dimension::Tokens, tokens)
            .with(Dimension::Bytes, self.bytes)
    }

    fn nothing(shape: Shape) -> Asked {
        Asked {
            shape,
            model: String::new(),
            input: 0,
            max_output: None,
            output: 0,
            stream: false,
            include_usage: false,
            inputs: 0,
            base64: false,
            bytes: 0,
        }
    }
}

fn input_tokens(body: &Value) -> u64 {
    let parts = ["messages", "input", "prompt", "system", "instructions"];
    let (mut chars, mut numbers) = (0, 0);
    parts.iter().for_each(|part| read_texts(&body[part], &mut chars, &mut numbers));
    chars.div_ceil(4) + numbers
}

fn read_texts(value: &Value, chars: &mut u64, numbers: &mut u64) {
    match value {
        Value::String(text) => *chars += text.chars().count() as u64,
        Value::Number(_) => *numbers += 1,
        Value::Array(items) => items.iter().for_each(|item| read_texts(item, chars, numbers)),
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "role" | "type"))
            .for_each(|(_, member)| read_texts(member, chars, numbers)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// How many texts there are to embed: a text or a list of token ids is one.
fn inputs(input: &Value) -> usize {
    match input {
        Value::Array(items) if !items.iter().all(Value::is_number) => items.len(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(path: &str, body: &Value) -> Asked {
        Asked::read("POST", path, &HeaderMap::new(), body.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn four_characters_of_any_text_are_a_token() {
        let chat = json!({ "model": "m", "max_tokens": 50, "messages": [
            { "role": "system", "content": "12345678" },
            { "role": "user", "content": [{ "type": "text", "text": "äöü" }] },
        ]});
        let chat = asked("/v1/chat/completions", &chat);
        assert_eq!((chat.input, chat.max_output, chat.output), (3, Some(50), 50));
        let embed = asked("/v1/embeddings", &json!({ "input": ["abcd", "efghi"], "max_tokens": 9 }));
        assert_eq!((embed.input, embed.inputs, embed.output, embed.max_output), (3, 2, 0, None));
        assert_eq!(asked("/v1/embeddings", &json!({ "input": [1, 2, 3] })).inputs, 1);
        assert_eq!(asked("/v1/embeddings", &json!({ "input": [1, 2, 3] })).input, 3);
        assert_eq!(asked("/v1/responses", &json!({ "input": "abcd", "instructions": "efgh" })).input, 2);
        let messages = json!({ "system": "abcd", "messages": [{ "role": "user", "content": "efgh" }] });
        let messages = asked("/v1/messages", &messages);
        assert_eq!((messages.shape, messages.input, messages.output), (Shape::Messages, 2, 16));
    }

    #[test]
    fn each_style_counts_as_its_vendor_does() {
        let body = json!({ "max_tokens": 50, "messages": [{ "content": "x".repeat(400) }] }).to_string();
        let mut headers = HeaderMap::new();
        headers.insert("x-sim-output-tokens", "20".parse().unwrap());
        let chat = Asked::read("POST", "/v1/chat/completions", &headers, body.as_bytes()).unwrap();
        assert_eq!((chat.input, chat.output), (100, 20));
        let tokens = |style| {
            let (cost, end) = (chat.cost(style), chat.settles(style));
            let end = end.states(&Dimension::Tokens).then(|| end.units(&Dimension::Tokens));
            (cost.units(&Dimension::Tokens), cost.units(&Dimension::OutputTokens), end)
        };
        assert_eq!(tokens(HeaderStyle::OpenAi), (100, 50, None));
        assert_eq!(tokens(HeaderStyle::Azure), (150, 50, None));
        assert_eq!(tokens(HeaderStyle::Anthropic), (100, 0, Some(120)));
        assert_eq!(tokens(HeaderStyle::RetryAfter), (150, 50, Some(120)));
    }

    #[test]
    fn what_is_no_request_says_why() {
        let read = |body: &[u8]| Asked::read("POST", "/v1/messages", &HeaderMap::new(), body);
        assert!(read(b"{").unwrap_err().contains("not JSON"));
        assert!(read(b"[]").unwrap_err().contains("not a JSON object"));
        assert!(Asked::read("GET", "/v1/messages", &HeaderMap::new(), b"{").is_ok());
    }
}
