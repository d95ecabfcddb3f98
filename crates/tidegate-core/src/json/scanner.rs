//! The scanner itself: one token after the other.

use super::{Text, quote_or_escape};

/// A part of a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    /// An object begins.
    OpenObject,
    /// A list begins.
    OpenList,
    /// The innermost object or list ends.
    Close,
    /// The name of the member whose value comes next.
    Key(Text<'a>),
    Text(Text<'a>),
    /// A number as it is written; `NaN` and `Infinity` too, as Python writes them.
    Number(&'a str),
    Bool(bool),
    Null,
}

/// Splits a document into tokens; see the [module](super).
#[derive(Clone, Debug)]
pub(crate) struct Scanner<'a> {
    input: &'a [u8],
    at: usize,
    /// Where the latest token begins.
    token_at: usize,
    depth: usize,
    /// Which of the open brackets are objects.
    objects: [u64; Scanner::MAX_DEPTH / 64],
    before: Before,
    /// Something was not as JSON has it.
    odd: bool,
}

/// What stood before the place that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    Bracket,
    Comma,
    Key,
    Value,
}

impl<'a> Scanner<'a> {
    /// A document that is nested more deeply is not taken for one.
    pub const MAX_DEPTH: usize = 1024;

    pub fn new(input: &'a [u8]) -> Scanner<'a> {
        let at = if input.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let objects = [0; Scanner::MAX_DEPTH / 64];
        Scanner { input, at, token_at: at, depth: 0, objects, before: Before::Nothing, odd: false }
    }

    /// Returns how many objects and lists are open.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns where the latest token begins in the input.
    pub fn token_at(&self) -> usize {
        self.token_at
    }

    /// Returns where the latest token ends. After a key that is behind its colon.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns whether what was read is one document, from its first to its last byte. It may begin with a byte order
    /// mark, and have `NaN`, lone surrogates, repeated keys and bytes that are not UTF-8.
    pub fn is_json(&self) -> bool {
        !self.odd && self.depth == 0 && self.before == Before::Value && self.at == self.input.len()
    }

    /// Passes over the value that comes next. Returns its first token.
    pub fn skip_value(&mut self) -> Option<Token<'a>> {
        let depth = self.depth;
        let first = self.next();
        while self.depth > depth && self.next().is_some() {}
        first
    }

    /// Passes over the rest of the innermost object or list.
    pub fn skip_rest(&mut self) {
        let depth = self.depth;
        while self.depth >= depth && self.next().is_some() {}
    }

    fn in_object(&self) -> bool {
        let Some(level) = self.depth.checked_sub(1) else { return false };
        self.objects.get(level / 64).is_some_and(|bits| bits >> (level % 64) & 1 == 1)
    }

    fn value(&mut self) {
        let fits = match self.before {
            Before::Nothing => self.depth == 0,
            Before::Bracket | Before::Comma => self.depth > 0 && !self.in_object(),
            Before::Key => true,
            Before::Value => false,
        };
        self.odd |= !fits;
        self.before = Before::Value;
    }

    fn open(&mut self, object: bool) {
        self.value();
        match self.objects.get_mut(self.depth / 64) {
            Some(bits) => {
                let bit = 1 << (self.depth % 64);
                *bits = if object { *bits | bit } else { *bits & !bit };
            }
            None => self.odd = true,
        }
        self.depth += 1;
        self.before = Before::Bracket;
    }

    /// Returns whether a bracket was open.
    fn close(&mut self, object: bool) -> bool {
        let fits = matches!(self.before, Before::Bracket | Before::Value);
        self.odd |= !fits || self.depth == 0 || self.in_object() != object;
        self.before = Before::Value;
        let was_open = self.depth > 0;
        self.depth = self.depth.saturating_sub(1);
        was_open
    }

    /// Reads a string whose quote was read; none if it does not end.
    fn string(&mut self) -> Option<Text<'a>> {
        let start = self.at;
        let mut escaped = false;
        loop {
            let rest = &self.input[self.at..];
            let Some(found) = quote_or_escape(rest) else {
                self.at = self.input.len();
                self.odd = true;
                return None;
            };
            if rest[found] == b'"' {
                let raw = &self.input[start..self.at + found];
                self.at += found + 1;
                return Some(Text::new(raw, escaped));
            }
            escaped = true;
            self.at = (self.at + found + 2).min(self.input.len());
        }
    }

    fn text(&mut self) -> Option<Token<'a>> {
        let text = self.string()?;
        self.skip_blanks();
        if self.input.get(self.at) == Some(&b':') {
            self.at += 1;
            let fits = matches!(self.before, Before::Bracket | Before::Comma) && self.in_object();
            self.odd |= !fits;
            self.before = Before::Key;
            return Some(Token::Key(text));
        }
        self.value();
        Some(Token::Text(text))
    }

    /// Reads a number or one of the words; none if it is neither.
    fn word(&mut self) -> Option<Token<'a>> {
        let rest = &self.input[self.at..];
        let length = rest.iter().position(|byte| !WORD[usize::from(*byte)]).unwrap_or(rest.len()).max(1);
        let word = &rest[..length];
        self.at += length;
        let token = match word {
            b"true" => Token::Bool(true),
            b"false" => Token::Bool(false),
            b"null" => Token::Null,
            _ => {
                let known = |text: &&str| is_whole_number(word) || text.parse::<f64>().is_ok();
                // Not text, or no number at all.
                let Some(text) = std::str::from_utf8(word).ok().filter(known) else {
                    self.odd = true;
                    return None;
                };
                self.odd |= !is_number(word);
                Token::Number(text)
            }
        };
        self.value();
        Some(token)
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.input.get(self.at) {
            self.at += 1;
        }
    }
}

impl<'a> Iterator for Scanner<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            self.skip_blanks();
            let byte = *self.input.get(self.at)?;
            self.token_at = self.at;
            if !matches!(byte, b'{' | b'[' | b'}' | b']' | b'"' | b',' | b':') {
                match self.word() {
                    Some(token) => return Some(token),
                    None => continue,
                }
            }
            self.at += 1;
            match byte {
                b'{' | b'[' => {
                    self.open(byte == b'{');
                    return Some(if byte == b'{' { Token::OpenObject } else { Token::OpenList });
                }
                b'}' | b']' => {
                    if self.close(byte == b'}') {
                        return Some(Token::Close);
                    }
                }
                b'"' => return self.text(),
                b',' => {
                    self.odd |= self.before != Before::Value || self.depth == 0;
                    self.before = Before::Comma;
                }
                // A colon that no key stands before.
                _ => self.odd = true,
            }
        }
    }
}

/// The bytes that a number or a word is made of.
const WORD: [bool; 256] = {
    let mut all = [false; 256];
    let mut byte = 0;
    while byte < all.len() {
        all[byte] = (byte as u8).is_ascii_alphanumeric() || matches!(byte as u8, b'+' | b'-' | b'.' | b'_');
        byte += 1;
    }
    all
};

/// Returns whether a word is digits alone, as most numbers are.
fn is_whole_number(word: &[u8]) -> bool {
    word.iter().all(u8::is_ascii_digit)
}

/// Returns whether a word is a number as JSON or Python writes it.
fn is_number(word: &[u8]) -> bool {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    if matches!(digits, b"NaN" | b"Infinity") {
        return true;
    }
    let (whole, rest) = digits.split_at(digits.iter().take_while(|byte| byte.is_ascii_digit()).count());
    let fraction = rest.strip_prefix(b".").map(|rest| rest.first().is_some_and(u8::is_ascii_digit));
    (whole == b"0" || whole.first().is_some_and(|digit| *digit != b'0')) && fraction.unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::*;

    /// Builds the value whose tokens come next; without recursion, as the scanner.
    fn value(scanner: &mut Scanner<'_>) -> Value {
        let mut open: Vec<(Value, Option<String>)> = Vec::new();
        let mut key = None;
        for token in scanner {
            let value = match token {
                Token::Key(name) => {
                    key = Some(name.decoded().into_owned());
                    continue;
                }
                Token::OpenObject => {
                    open.push((Value::Object(Map::new()), key.take()));
                    continue;
                }
                Token::OpenList => {
                    open.push((Value::Array(Vec::new()), key.take()));
                    continue;
                }
                Token::Close => {
                    let (value, name) = open.pop().expect("one is open");
                    key = name;
                    value
                }
                Token::Text(text) => Value::String(text.decoded().into_owned()),
                Token::Number(number) => serde_json::from_str(number).expect("a number"),
                Token::Bool(value) => Value::Bool(value),
                Token::Null => Value::Null,
            };
            match open.last_mut() {
                Some((Value::Object(members), _)) => {
                    members.insert(key.take().expect("a key"), value);
                }
                Some((Value::Array(items), _)) => items.push(value),
                _ => return value,
            }
        }
        panic!("no value")
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[{}\\[\\]\",:\\\\ä\u{1f600}]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[a-c\"\\\\{}:, ]{0,3}", inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_valid_document_has_exactly_its_values(document in any_value(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) };
            let text = text.expect("JSON");
            let mut scanner = Scanner::new(text.as_bytes());
            // Not the document itself: `serde_json` reads some fractions as their neighbour.
            let document: Value = serde_json::from_str(&text).expect("JSON");
            prop_assert_eq!(value(&mut scanner), document);
            prop_assert_eq!(scanner.next(), None);
            prop_assert!(scanner.is_json());
        }

        #[test]
        fn what_serde_json_accepts_is_json(text in "[\\[\\]{}\",:0-9eE.+ \\-nulltrue\\\\]{0,12}") {
            let mut scanner = Scanner::new(text.as_bytes());
            while scanner.next().is_some() {}
            if let Ok(document) = serde_json::from_str::<Value>(&text) {
                prop_assert!(scanner.is_json(), "{}", text);
                prop_assert_eq!(value(&mut Scanner::new(text.as_bytes())), document);
            } else if scanner.is_json() {
                // Only what is tolerated on purpose: escapes, numbers beyond f64.
                prop_assert!(text.contains(['\\', 'e', 'E']), "{}", text);
            }
        }

        #[test]
        fn any_bytes_are_read_to_their_end(
            parts in prop::collection::vec(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..6),
                "[\\[\\]{}\",:\\\\u0-9d ]{0,12}".prop_map(String::into_bytes),
            ], 0..40),
        ) {
            let input = parts.concat();
            let mut scanner = Scanner::new(&input);
            let mut tokens = 0;
            while let Some(token) = scanner.next() {
                tokens += 1;
                prop_assert!(scanner.token_at() < scanner.at() && scanner.at() <= input.len());
                if let Token::Key(text) | Token::Text(text) = token {
                    prop_assert!(text.characters() <= text.len() as u64);
                    prop_assert!(text.beginning(5).len() <= 5);
                    prop_assert_eq!(text.is_like("model"), text.decoded().eq_ignore_ascii_case("model"));
                }
            }
            prop_assert!(tokens <= input.len());
            prop_assert_eq!(scanner.at(), input.len());
        }
    }

    #[test]
    fn what_is_odd_is_read_and_known_to_be() {
        let read = |text: &str| {
            let mut scanner = Scanner::new(text.as_bytes());
            let tokens = scanner.by_ref().count();
            (tokens, scanner.is_json())
        };
        for text in ["\u{feff}{}", "[NaN,-Infinity]", r#"{"a":1,"a":2}"#, r#"["\ud83d"]"#, " 5 "] {
            assert!(read(text).1, "{text}");
        }
        for text in [
            "",
            "{",
            "{]",
            "[1 2]",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{1:2}",
            "[01]",
            "[.5]",
            "{} {}",
            "[\"a",
            "{\"a\":1 \"b\":2}",
            "[a]",
            "[\"a\":1]",
            "}",
            "[1]]",
            "// sea\n{}",
        ] {
            assert!(!read(text).1, "{text}");
        }
        assert_eq!(read(r#"{"a":1 "b":2}"#).0, 6, "and is read all the same");
    }

    #[test]
    fn depth_costs_no_stack_and_more_than_is_sane_is_not_taken_for_json() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for (depth, is_json) in [(200, true), (Scanner::MAX_DEPTH, true), (1 << 20, false)] {
            let text = nested(depth);
            let mut scanner = Scanner::new(text.as_bytes());
            assert_eq!(scanner.by_ref().count(), 2 * depth);
            assert_eq!(scanner.is_json(), is_json, "{depth}");
        }
    }
}
