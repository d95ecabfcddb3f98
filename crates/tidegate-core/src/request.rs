//! What a request to an LLM asks for: as much of its body as it takes to route the call and to reserve its cost.
//!
//! The body is read once, without building it up in memory, and never changed. A guess at the tokens of a text is
//! just that: four characters are one. The vendor's reply settles what it really was.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::vendor::Estimate;

/// About so many characters are a token, in English and in code.
const CHARACTERS_A_TOKEN: u64 = 4;
/// About so many tokens are a picture, a page of a document or some seconds of sound, whatever their size in bytes.
const TOKENS_A_MEDIUM: u64 = 1_000;

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
    /// Whether the answer is to come as events.
    pub stream: bool,
    /// What it will cost, as well as that can be told from here.
    pub estimate: Estimate,
}

impl Asked {
    /// Reads a body in any of the shapes of OpenAI, Anthropic and Gemini, and of all who follow them. Nothing
    /// can be told from what is no JSON object.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Asked> {
        // Also so that what is no JSON at all, such as a large file, costs nothing.
        if !body.trim_ascii_start().starts_with(b"{") {
            return None;
        }
        let body: Body = serde_json::from_slice(body).ok()?;
        let texts = [body.messages, body.input, body.prompt, body.system, body.instructions, body.contents];
        let characters = texts.iter().fold(body.tools.0, |sum, text| sum.saturating_add(text.0));
        let newest = body.max_completion_tokens.or(body.max_output_tokens);
        let estimate = Estimate {
            input: characters.div_ceil(CHARACTERS_A_TOKEN),
            max_output: newest.or(body.max_tokens).or(body.generation_config.max_output_tokens),
            answers: body.n.unwrap_or(1).max(body.best_of.unwrap_or(1)),
            ..Estimate::default()
        };
        Some(Asked { model: body.model, stream: body.stream.unwrap_or(false), estimate })
    }
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

#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    model: Option<String>,
    stream: Option<bool>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    #[serde(rename = "generationConfig")]
    generation_config: GenerationConfig,
    n: Option<u32>,
    best_of: Option<u32>,
    messages: Characters,
    input: Characters,
    prompt: Characters,
    system: Characters,
    instructions: Characters,
    contents: Characters,
    tools: Characters,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GenerationConfig {
    #[serde(rename = "maxOutputTokens")]
    max_output_tokens: Option<u64>,
}

/// How many characters all texts below a value have. A bare number among them is a token's, and a medium counts as
/// one, whatever its length.
#[derive(Default)]
struct Characters(u64);

impl<'de> Deserialize<'de> for Characters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Characters, D::Error> {
        deserializer.deserialize_any(Count).map(Characters)
    }
}

struct Count;

impl<'de> Visitor<'de> for Count {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_str<E>(self, text: &str) -> Result<u64, E> {
        Ok(if text.starts_with("data:") { 0 } else { text.chars().count() as u64 })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<u64, A::Error> {
        let mut sum: u64 = 0;
        while let Some(Characters(characters)) = items.next_element()? {
            sum = sum.saturating_add(characters);
        }
        Ok(sum)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<u64, A::Error> {
        let (mut sum, mut is_medium) = (0_u64, false);
        while let Some(name) = members.next_key::<Name>()? {
            match name {
                Name::Type => is_medium |= members.next_value::<Kind>()?.0,
                Name::Data { medium } => {
                    is_medium |= medium;
                    members.next_value::<IgnoredAny>()?;
                }
                Name::Other => sum = sum.saturating_add(members.next_value::<Characters>()?.0),
            }
        }
        let media = if is_medium { TOKENS_A_MEDIUM * CHARACTERS_A_TOKEN } else { 0 };
        Ok(sum.saturating_add(media))
    }

    fn visit_u64<E>(self, _: u64) -> Result<u64, E> {
        Ok(CHARACTERS_A_TOKEN)
    }

    fn visit_i64<E>(self, _: i64) -> Result<u64, E> {
        Ok(0)
    }

    fn visit_f64<E>(self, _: f64) -> Result<u64, E> {
        Ok(0)
    }

    fn visit_bool<E>(self, _: bool) -> Result<u64, E> {
        Ok(0)
    }

    fn visit_unit<E>(self) -> Result<u64, E> {
        Ok(0)
    }
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

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        deserializer.deserialize_identifier(Named)
    }
}

struct Named;

impl Visitor<'_> for Named {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, name: &str) -> Result<Name, E> {
        Ok(match name {
            "type" => Name::Type,
            "inlineData" | "inline_data" | "fileData" => Name::Data { medium: true },
            "data" | "detail" | "file_data" | "id" | "image_url" | "role" | "url" => {
                Name::Data { medium: false }
            }
            _ => Name::Other,
        })
    }
}

/// Whether a part of this type is a medium.
struct Kind(bool);

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Kind, D::Error> {
        // In the schema of a tool a type may also be a list of types, or the name of a property.
        deserializer.deserialize_any(OfKind).map(Kind)
    }
}

struct OfKind;

impl<'de> Visitor<'de> for OfKind {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_str<E>(self, kind: &str) -> Result<bool, E> {
        Ok(matches!(
            kind,
            "image"
                | "image_url"
                | "input_image"
                | "document"
                | "file"
                | "input_file"
                | "audio"
                | "input_audio"
                | "video"
                | "video_url"
        ))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(false)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<bool, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(false)
    }

    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Estimate {
        Asked::read(body.as_bytes()).expect("an object").estimate
    }

    #[test]
    fn every_dialect_says_how_much_is_sent_and_how_long_the_answer_may_be() {
        let sea = "sea ".repeat(10);
        for body in [
            format!(
                r#"{{"messages":[{{"role":"user","content":"{sea}"}}],"max_completion_tokens":50,"max_tokens":9}}"#
            ),
            format!(r#"{{"input":"{sea}","max_output_tokens":50}}"#),
            format!(r#"{{"input":["{sea}"],"max_tokens":50}}"#),
            r#"{"input":[[1,2,3,4,5],[6,7,8,9,10]],"max_tokens":50}"#.to_owned(),
            format!(r#"{{"system":[{{"type":"text","text":"{sea}"}}],"messages":[],"max_tokens":50}}"#),
            format!(
                r#"{{"contents":[{{"role":"user","parts":[{{"text":"{sea}"}}]}}],"generationConfig":{{"maxOutputTokens":50}}}}"#
            ),
        ] {
            let estimate = read(&body);
            assert_eq!((estimate.input, estimate.max_output), (10, Some(50)), "{body}");
        }
    }

    #[test]
    fn a_picture_or_a_file_counts_as_one_and_not_by_its_length() {
        let data = "A".repeat(400_000);
        for part in [
            format!(r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}"#),
            format!(r#"{{"type":"input_image","image_url":"data:image/png;base64,{data}"}}"#),
            format!(r#"{{"type":"image","source":{{"type":"base64","media_type":"a/b","data":"{data}"}}}}"#),
            format!(r#"{{"type":"file","file":{{"file_data":"{data}"}}}}"#),
            format!(r#"{{"inlineData":{{"mimeType":"a/b","data":"{data}"}}}}"#),
        ] {
            let body = format!(r#"{{"messages":[{{"content":[{part},{{"type":"text","text":"four"}}]}}]}}"#);
            let input = read(&body).input;
            assert!((TOKENS_A_MEDIUM + 1..TOKENS_A_MEDIUM + 4).contains(&input), "{input} {}", &body[..90]);
        }
    }

    #[test]
    fn the_schema_of_a_tool_is_text_whatever_its_types_are_called() {
        let tools = r#"{"tools":[{"type":"function","parameters":{"type":["string","null"],
            "properties":{"type":{"type":"string"},"n":{"type":5}}}}]}"#;
        assert!(read(tools).input < 20);
    }

    #[test]
    fn whether_the_answer_is_to_be_streamed_is_known() {
        let streamed = |body: &[u8]| Asked::read(body).expect("an object").stream;
        assert!(streamed(br#"{"stream":true}"#));
        assert!(!streamed(br#"{"stream":null}"#) && !streamed(b"{}"));
    }

    #[test]
    fn several_answers_are_counted() {
        assert_eq!((read(r#"{"n":3}"#).answers, read(r#"{"best_of":2,"n":null}"#).answers), (3, 2));
    }

    #[test]
    fn from_what_is_no_object_nothing_is_told() {
        let deep = "[".repeat(100_000);
        for body in ["", "sea", "[1]", "{\"model\":1}", "{\"input\":", &format!("{{\"input\":{deep}")] {
            assert_eq!(Asked::read(body.as_bytes()), None);
        }
        assert_eq!(
            Asked::read(b"{}"),
            Some(Asked { estimate: Estimate { answers: 1, ..Estimate::default() }, ..Asked::default() })
        );
    }
}
