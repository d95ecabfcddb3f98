//! Structured fields (RFC 9651): the list and dictionary grammar that the newer drafts are written in.
//!
//! The parser is strict, because the draft demands that a malformed field is ignored as a whole: one wrong
//! byte and the answer is `None`. Members that are well formed but of a type nobody asked for are kept as
//! [`Bare::Other`].

/// A value without its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Bare<'a> {
    Integer(i64),
    Text(String),
    Token(&'a str),
    Bytes(Vec<u8>),
    /// Decimals, booleans, dates, display strings, inner lists.
    Other,
}

/// A value and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item<'a> {
    pub(super) bare: Bare<'a>,
    pub(super) parameters: Vec<(&'a str, Bare<'a>)>,
}

impl<'a> Item<'a> {
    /// The last parameter of that name: later ones overwrite earlier ones.
    pub(super) fn parameter(&self, name: &str) -> Option<&Bare<'a>> {
        self.parameters.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

/// A field that is a list of items; `None` if it is malformed.
pub(super) fn list(text: &str) -> Option<Vec<Item<'_>>> {
    let mut parser = Parser { text, at: 0 };
    let mut items = Vec::new();
    parser.members(|parser| {
        items.push(parser.item()?);
        Some(())
    })?;
    Some(items)
}

/// A field that is a dictionary; `None` if it is malformed.
pub(super) fn dictionary(text: &str) -> Option<Vec<(&str, Item<'_>)>> {
    let mut parser = Parser { text, at: 0 };
    let mut members = Vec::new();
    parser.members(|parser| {
        let key = parser.key()?;
        let item = if parser.eat(b'=') {
            parser.item()?
        } else {
            Item { bare: Bare::Other, parameters: parser.parameters()? }
        };
        members.push((key, item));
        Some(())
    })?;
    Some(members)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn skip(&mut self, is: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(&is) {
            self.at += 1;
        }
        // Only ASCII is ever skipped, so both ends are character boundaries.
        self.text.get(start..self.at).unwrap_or("")
    }

    fn skip_spaces(&mut self) {
        self.skip(|b| b == b' ');
    }

    /// The comma-separated members, up to the end of the text.
    fn members(&mut self, mut member: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.skip_spaces();
        if self.peek().is_none() {
            return Some(());
        }
        loop {
            member(self)?;
            self.skip(|b| matches!(b, b' ' | b'\t'));
            if self.peek().is_none() {
                return Some(());
            }
            if !self.eat(b',') {
                return None;
            }
            self.skip(|b| matches!(b, b' ' | b'\t'));
            // A comma at the very end has no member behind it.
            self.peek()?;
        }
    }

    fn item(&mut self) -> Option<Item<'a>> {
        let bare = if self.eat(b'(') { self.inner_list()? } else { self.bare()? };
        Some(Item { bare, parameters: self.parameters()? })
    }

    fn inner_list(&mut self) -> Option<Bare<'a>> {
        loop {
            self.skip_spaces();
            if self.eat(b')') {
                return Some(Bare::Other);
            }
            self.bare()?;
            self.parameters()?;
            if !matches!(self.peek()?, b' ' | b')') {
                return None;
            }
        }
    }

    fn parameters(&mut self) -> Option<Vec<(&'a str, Bare<'a>)>> {
        let mut parameters = Vec::new();
        while self.eat(b';') {
            self.skip_spaces();
            let key = self.key()?;
            let value = if self.eat(b'=') { self.bare()? } else { Bare::Other };
            parameters.push((key, value));
        }
        Some(parameters)
    }

    fn key(&mut self) -> Option<&'a str> {
        if !matches!(self.peek()?, b'a'..=b'z' | b'*') {
            return None;
        }
        Some(self.skip(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*')))
    }

    fn bare(&mut self) -> Option<Bare<'a>> {
        match self.peek()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'*' | b'A'..=b'Z' | b'a'..=b'z' => Some(Bare::Token(
                self.skip(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&b)),
            )),
            b':' => self.bytes(),
            b'?' => {
                self.at += 1;
                (self.eat(b'0') || self.eat(b'1')).then_some(Bare::Other)
            }
            b'@' => {
                self.at += 1;
                matches!(self.number()?, Bare::Integer(_)).then_some(Bare::Other)
            }
            b'%' => {
                self.at += 1;
                matches!(self.string()?, Bare::Text(_)).then_some(Bare::Other)
            }
            _ => None,
        }
    }

    /// An integer of at most 15 digits, or a decimal of at most 12 and 3.
    fn number(&mut self) -> Option<Bare<'a>> {
        let negative = self.eat(b'-');
        let whole = self.skip(|b| b.is_ascii_digit());
        if whole.is_empty() || whole.len() > 15 {
            return None;
        }
        if self.eat(b'.') {
            let fraction = self.skip(|b| b.is_ascii_digit());
            let fits = whole.len() <= 12 && (1..=3).contains(&fraction.len());
            return fits.then_some(Bare::Other);
        }
        let value: i64 = whole.parse().ok()?;
        Some(Bare::Integer(if negative { -value } else { value }))
    }

    fn string(&mut self) -> Option<Bare<'a>> {
        if !self.eat(b'"') {
            return None;
        }
        let mut text = String::new();
        loop {
            let byte = self.peek()?;
            self.at += 1;
            match byte {
                b'"' => return Some(Bare::Text(text)),
                b'\\' => {
                    let escaped = self.peek().filter(|b| matches!(b, b'"' | b'\\'))?;
                    self.at += 1;
                    text.push(char::from(escaped));
                }
                0x20..=0x7e => text.push(char::from(byte)),
                _ => return None,
            }
        }
    }

    fn bytes(&mut self) -> Option<Bare<'a>> {
        self.at += 1;
        let encoded = self.skip(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='));
        if !self.eat(b':') {
            return None;
        }
        base64(encoded).map(Bare::Bytes)
    }
}

/// Decodes base64. Missing padding and stray bits at the end are forgiven, as RFC 9651 §4.2.7 asks.
pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut buffer, mut bits) = (0u32, 0u32);
    for byte in digits.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        buffer = buffer << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((buffer >> bits & 0xff) as u8);
        }
    }
    (digits.len() % 4 != 1).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_named_items() {
        let items =
            list(r#""a \"b\"";q=10; w=1;pk=:dHJpYWwxMjEzMjM=:;x, tok;r=-3 ,5;w=60, (1 "x");a=?1"#).unwrap();
        assert_eq!(items.len(), 4);
        assert_eq!(items[0].bare, Bare::Text("a \"b\"".into()));
        assert_eq!(items[0].parameter("q"), Some(&Bare::Integer(10)));
        assert_eq!(items[0].parameter("pk"), Some(&Bare::Bytes(b"trial121323".to_vec())));
        assert_eq!(items[0].parameter("x"), Some(&Bare::Other));
        assert_eq!(items[1].bare, Bare::Token("tok"));
        assert_eq!(items[1].parameter("r"), Some(&Bare::Integer(-3)));
        assert_eq!(items[2].bare, Bare::Integer(5));
        assert_eq!(items[3].bare, Bare::Other);
        assert_eq!(list("").unwrap(), []);
    }

    #[test]
    fn a_dictionary() {
        let members = dictionary("limit=5000, remaining=100;x, reset=36000, flag").unwrap();
        assert_eq!(members[0].0, "limit");
        assert_eq!(members[0].1.bare, Bare::Integer(5000));
        assert_eq!(members[3].0, "flag");
    }

    #[test]
    fn one_wrong_byte_and_the_field_is_ignored() {
        for text in [
            "\"a",
            "a,",
            ",a",
            "a b",
            "\"a\" ;q=1",
            "\"a\";Q=1",
            "\"a\";q=",
            "1234567890123456",
            "1.",
            "\"ä\"",
            ":ab",
            ":a!b:",
            "?2",
            "\"a\\b\"",
            "(1",
            "a=1",
            "\"a\";;q=1",
            "@x",
            "%x",
            "-",
            "(1)2",
        ] {
            assert_eq!(list(text), None, "{text}");
        }
        for text in ["limit=", "=1", "a=1,,b=2", "A=1"] {
            assert_eq!(dictionary(text), None, "{text}");
        }
    }
}
