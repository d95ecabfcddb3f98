//! The usage in a JSON reply, as it passes.
//!
//! A reply may be of any length, and its usage mostly stands at its end. A [`JsonUsage`] is fed the bytes as they pass and
//! keeps only the members that usage is found in, so it holds little of any reply: at most [`MAX_KEPT`] bytes, and a few
//! hundred of most. It follows brackets and strings, and understands nothing else; what it kept is read as a body is.

use crate::json::quote_or_escape;
use crate::vendors::usage::Usage;

/// The most that is kept of a reply.
const MAX_KEPT: usize = 16 << 10;
/// The longest key that could be one of ours.
const MAX_KEY: usize = 40;

/// The members of a body that are usage.
const WHOLE: [&[u8]; 4] = [b"usage", b"usageMetadata", b"meta", b"amazon-bedrock-invocationMetrics"];
/// The members of a body that may have usage right below them, under one of the first two names.
const AROUND: [&[u8]; 5] = [b"response", b"message", b"x_groq", b"delta", b"metadata"];

/// Finds usage in the bytes of a JSON reply as they pass.
///
/// ```
/// use tidegate_core::reply::JsonUsage;
///
/// let mut usage = JsonUsage::default();
/// for bytes in [&br#"{"choices": [], "usa"#[..], br#"ge": {"prompt_tokens": 9, "completion_tokens": 12}}"#] {
///     usage.push(bytes);
/// }
/// assert_eq!(usage.usage().unwrap().total_tokens, Some(21));
/// ```
#[derive(Debug, Default)]
pub struct JsonUsage {
    depth: usize,
    /// How deep the members of a body are: 1, or 2 if the body is a list of them.
    members_at: usize,
    state: State,
    /// The string that is read may be a key.
    key_next: bool,
    key: Vec<u8>,
    /// The member that usage may stand in, if one is open.
    around: Option<&'static [u8]>,
    /// How deep the member is whose value is passed over; 0 if its members matter, or none is open.
    value_at: usize,
    /// Whether that value is usage, and is kept.
    keeping: bool,
    /// Where it begins in what is kept.
    began: usize,
    /// Members, each with a comma behind it.
    kept: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Between,
    Text,
    Escape,
}

impl JsonUsage {
    /// Takes in the next bytes of the reply, cut wherever they were cut.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((&byte, tail)) = rest.split_first() {
            if self.value_at == 0 {
                self.byte(byte);
                rest = tail;
                continue;
            }
            // Most of a reply is values that matter to the caller alone.
            let (value, after) = rest.split_at(self.pass_value(rest));
            if self.keeping {
                self.keep(value);
            }
            if !after.is_empty() {
                self.value_at = 0;
            }
            rest = after;
        }
    }

    /// Finds the end of the value that is passed over: a comma or a bracket at its own depth. Returns the length of what is
    /// given if it does not end there.
    fn pass_value(&mut self, bytes: &[u8]) -> usize {
        let (mut at, mut depth, mut state) = (0, self.depth, self.state);
        while at < bytes.len() {
            let rest = &bytes[at..];
            let found = match state {
                State::Text => quote_or_escape(rest),
                State::Escape => Some(0),
                State::Between => rest.iter().position(|byte| BREAKS[usize::from(*byte)]),
            };
            at += found.unwrap_or(rest.len());
            let Some(&byte) = bytes.get(at) else { break };
            state = match (state, byte) {
                (State::Text, b'\\') => State::Escape,
                (State::Between, b'"') | (State::Escape, _) => State::Text,
                (State::Text, _) | (State::Between, _) => State::Between,
            };
            match byte {
                _ if state != State::Between || byte == b'"' => {}
                b'{' | b'[' => depth += 1,
                b'}' | b']' | b',' if depth <= self.value_at => break,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            at += 1;
        }
        (self.depth, self.state) = (depth, state);
        at
    }

    /// Returns the usage that the reply has reported so far.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        let whole = if self.keeping { self.began } else { self.kept.len() };
        let members = self.kept[..whole].strip_suffix(b",")?;
        Usage::of_body(&[b"{", members, b"}"].concat())
    }

    /// Takes in a byte that is not part of a value which is passed over.
    fn byte(&mut self, byte: u8) {
        match (self.state, byte) {
            (State::Between, _) => self.between(byte),
            (State::Text, b'"') => self.state = State::Between,
            (State::Text, _) => {
                if byte == b'\\' {
                    self.state = State::Escape;
                }
                // A key with an escape in it is none of ours: the escape stands in it.
                if self.key_next && self.key.len() <= MAX_KEY {
                    self.key.push(byte);
                }
            }
            (State::Escape, _) => self.state = State::Text,
        }
    }

    fn between(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.state = State::Text;
                self.key.clear();
            }
            b'{' | b'[' => {
                self.depth += 1;
                if self.members_at == 0 {
                    self.members_at = if byte == b'[' { 2 } else { 1 };
                }
                self.key_next = byte == b'{' && self.has_members_here();
            }
            b'}' | b']' => {
                self.end_value();
                self.depth = self.depth.saturating_sub(1);
                self.key_next = false;
                if self.depth <= self.members_at {
                    self.around = None;
                }
            }
            b',' => {
                self.end_value();
                self.key_next = self.has_members_here();
                if self.depth <= self.members_at {
                    self.around = None;
                }
            }
            b':' if self.key_next => {
                self.key_next = false;
                self.begin_value();
            }
            _ => {}
        }
    }

    /// Whether the keys of the innermost object matter.
    fn has_members_here(&self) -> bool {
        self.depth == self.members_at || (self.around.is_some() && self.depth == self.members_at + 1)
    }

    /// A value begins whose key was just read.
    fn begin_value(&mut self) {
        let names = if self.around.is_some() { &WHOLE[..2] } else { &WHOLE[..] };
        if let Some(name) = names.iter().find(|name| **name == self.key) {
            if self.kept.len() > MAX_KEPT / 2 {
                // The last word counts.
                self.kept.clear();
            }
            self.began = self.kept.len();
            self.keeping = true;
            self.value_at = self.depth;
            if let Some(around) = self.around {
                self.kept.extend_from_slice(&[b"\"", around, b"\":{"].concat());
            }
            self.kept.extend_from_slice(&[b"\"", *name, b"\":"].concat());
            return;
        }
        if self.depth == self.members_at {
            self.around = AROUND.into_iter().find(|name| *name == self.key);
        }
        if self.around.is_none() || self.depth > self.members_at {
            self.value_at = self.depth;
        }
    }

    /// A value ended: if it was kept, it is whole.
    fn end_value(&mut self) {
        if std::mem::take(&mut self.keeping) {
            self.kept.extend_from_slice(if self.around.is_some() { b"}," } else { b"," });
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.kept.len() + bytes.len() > MAX_KEPT {
            self.kept.truncate(self.began);
            self.keeping = false;
        } else {
            self.kept.extend_from_slice(bytes);
        }
    }
}

/// The bytes between values that tell where one begins or ends.
const BREAKS: [bool; 256] = {
    let (mut all, bytes) = ([false; 256], b"\"{}[],");
    let mut index = 0;
    while index < bytes.len() {
        all[bytes[index] as usize] = true;
        index += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn read(body: &[u8], piece: usize) -> Option<Usage> {
        let mut passing = JsonUsage::default();
        for bytes in body.chunks(piece) {
            passing.push(bytes);
            assert!(passing.kept.len() <= MAX_KEPT + 64);
        }
        passing.usage()
    }

    #[test]
    fn usage_is_found_wherever_a_body_has_it_and_nowhere_else() {
        let usage = r#"{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}"#;
        for body in [
            format!(r#"{{"usage":{usage}}}"#),
            format!("\u{feff} {{ \"a\" : [ {{}} , \"}}\" ] , \"usage\" : {usage} , \"b\" : 1 }}"),
            format!(r#"{{"text":"\"usage\":{{","usage":{usage},"x":"\\"}}"#),
            format!(r#"{{"response":{{"output":[{{"usage":5}}],"usage":{usage}}}}}"#),
            format!(r#"{{"x_groq":{{"id":"r","usage":{usage}}}}}"#),
            format!(r#"[{{"usage":{{"prompt_tokens":1}}}},{{"usage":{usage}}}]"#),
            format!(r#"{{"odd":NaN,"t":"\ud83d","usage":{usage}}}"#),
        ] {
            for piece in [1, 2, 7, 4096] {
                let found = read(body.as_bytes(), piece).unwrap_or_else(|| panic!("{body}"));
                assert_eq!(found.total_tokens, Some(21), "{body}");
            }
        }
        for body in [
            format!(r#"{{"choices":[{{"usage":{usage}}}]}}"#),
            format!(r#"{{"text":"usage","other":{{"usage":{usage}}}}}"#),
            format!(r#"{{"\"usage":{usage}}}"#),
            format!(r#"{{"text":"usage",{usage}"#),
            format!(r#"{{"usage":{}"#, &usage[..20]),
            "usage".to_owned(),
        ] {
            assert_eq!(read(body.as_bytes(), 3), None, "{body}");
        }
    }

    #[test]
    fn little_is_kept_of_any_reply() {
        let long = format!(
            r#"{{"usage":{{"x":"{0}"}},"message":{{"content":"{0}"}},"data":["{0}"],"usage":{{"total_tokens":5}}}}"#,
            "sea ".repeat(100_000)
        );
        assert_eq!(read(long.as_bytes(), 4096).and_then(|usage| usage.total_tokens), Some(5));
        let many = format!("[{}{{}}]", r#"{"usage":{"total_tokens":7}},"#.repeat(10_000));
        assert_eq!(read(many.as_bytes(), 4096).and_then(|usage| usage.total_tokens), Some(7));
        let deep = format!("{}{}", r#"{"usage":"#.repeat(100_000), "[".repeat(100_000));
        assert_eq!(read(deep.as_bytes(), 4096), None);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let key = "usage|response|message|meta|usageMetadata|a|total_tokens|\\{\"";
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<u32>().prop_map(Value::from),
            "[{}\\[\\]\",:\\\\]{0,6}".prop_map(Value::from),
            Just(json!({"total_tokens": 5})),
        ];
        leaf.prop_recursive(4, 32, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key, inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_is_the_usage_of_the_body_however_it_is_cut(body in any_value(), piece in 1..40_usize, pretty in any::<bool>()) {
            prop_assume!(body.is_object());
            let text = if pretty { serde_json::to_vec_pretty(&body) } else { serde_json::to_vec(&body) };
            let text = text.expect("JSON");
            prop_assert_eq!(read(&text, piece), Usage::of_body(&text));
        }

        #[test]
        fn any_bytes_pass(parts in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..6),
            "[\\[\\]{}\",:\\\\u0-9 ]{0,9}".prop_map(String::into_bytes),
            "\"(usage|meta|response)\":".prop_map(String::into_bytes),
        ], 0..40), piece in 1..20_usize) {
            let _ = read(&parts.concat(), piece);
        }
    }
}
