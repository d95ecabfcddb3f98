//! A string as it stands in a document, between its quotes.

use std::borrow::Cow;

/// The type and the parameters of a data URL are not longer.
const MAX_DATA_URL_HEAD: usize = 256;

/// A string that is decoded when its value is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text<'a> {
    raw: &'a [u8],
    /// Whether it has escapes.
    escaped: bool,
}

impl<'a> Text<'a> {
    pub fn new(raw: &'a [u8], escaped: bool) -> Text<'a> {
        Text { raw, escaped }
    }

    /// Returns the length as it is written, in bytes.
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Returns whether it says `name`, in upper or lower case: servers written in Go match keys in any case.
    pub fn is_like(&self, name: &str) -> bool {
        match self.escaped {
            false => self.raw.eq_ignore_ascii_case(name.as_bytes()),
            // An escape is at most six bytes for one.
            true => self.raw.len() <= 6 * name.len() && self.decoded().eq_ignore_ascii_case(name),
        }
    }

    /// Returns its value. A surrogate without its partner and bytes that are not UTF-8 become U+FFFD.
    pub fn decoded(&self) -> Cow<'a, str> {
        if !self.escaped {
            // Nearly all are UTF-8, and that is seen faster than where one is not.
            return std::str::from_utf8(self.raw)
                .map_or_else(|_| String::from_utf8_lossy(self.raw), Cow::Borrowed);
        }
        let mut out = String::with_capacity(self.raw.len());
        let mut rest = self.raw;
        while let Some(at) = memchr::memchr(b'\\', rest) {
            out.push_str(&String::from_utf8_lossy(&rest[..at]));
            let (character, length) = escape(&rest[at..]);
            out.push(character);
            rest = &rest[at + length..];
        }
        out.push_str(&String::from_utf8_lossy(rest));
        Cow::Owned(out)
    }

    /// Returns the first `most` bytes of its value, or less where they would end within a character.
    pub fn beginning(&self, most: usize) -> Cow<'a, str> {
        // Cut before it is decoded, so that a long text costs no more than a short one. An escape is at most six times
        // as long as what it stands for.
        let raw = &self.raw[..self.raw.len().min(if self.escaped { 6 * most } else { most })];
        let raw = match std::str::from_utf8(raw) {
            Err(error) if error.error_len().is_none() => &raw[..error.valid_up_to()],
            _ => raw,
        };
        match (Text { raw, escaped: self.escaped }).decoded() {
            Cow::Owned(text) if text.len() > most => Cow::Owned(clipped(&text, most).to_owned()),
            text => text,
        }
    }

    /// Returns how many characters it has.
    pub fn characters(&self) -> u64 {
        if !self.escaped {
            return starts(self.raw);
        }
        let (mut count, mut rest) = (0, self.raw);
        while let Some(at) = memchr::memchr(b'\\', rest) {
            let (_, length) = escape(&rest[at..]);
            count += starts(&rest[..at]) + 1;
            rest = &rest[at + length..];
        }
        count + starts(rest)
    }

    /// Returns whether it is a data URL of a medium in base64: `data:<type>/<subtype>…;base64,…`. Ordinary text that begins
    /// with `data:` is none.
    pub fn is_data_url(&self) -> bool {
        // Nearly all texts end here.
        if !self.raw.starts_with(b"data:") {
            return false;
        }
        let head = self.beginning(MAX_DATA_URL_HEAD);
        let kind = head.strip_prefix("data:").and_then(|head| head.split_once(";base64,"));
        let is_kind = |kind: &str| {
            let is_name = |byte: u8| byte.is_ascii_graphic() && byte != b',';
            kind.contains('/') && kind.bytes().all(is_name)
        };
        let Some(comma) =
            memchr::memchr(b',', self.raw).filter(|_| kind.is_some_and(|(kind, _)| is_kind(kind)))
        else {
            return false;
        };
        let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=-_".contains(byte);
        // Some writers escape the slash, which is a digit of base64. No other escape can stand in it.
        let mut pieces = self.raw[comma + 1..].split(|byte| *byte == b'\\');
        pieces.next().is_some_and(|first| first.iter().all(is_base64))
            && pieces.all(|piece| piece.first() == Some(&b'/') && piece.iter().all(is_base64))
    }
}

/// Counts the bytes that a character begins with. Sums of at most 255 fit a byte, so that the compiler adds many at once.
fn starts(bytes: &[u8]) -> u64 {
    let sum = |piece: &[u8]| piece.iter().map(|byte| u8::from(!matches!(byte, 0x80..0xc0))).sum::<u8>();
    bytes.chunks(255).map(|piece| u64::from(sum(piece))).sum()
}

fn clipped(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Finds the next byte that ends a string or an escape begins with. Most strings are shorter than what it takes to begin a
/// search that looks at many bytes at once.
pub(crate) fn quote_or_escape(bytes: &[u8]) -> Option<usize> {
    for (at, byte) in bytes.iter().take(16).enumerate() {
        if matches!(byte, b'"' | b'\\') {
            return Some(at);
        }
    }
    Some(16 + memchr::memchr2(b'"', b'\\', bytes.get(16..)?)?)
}

/// Reads the escape that `raw` begins with. Returns its character and its length, which is never 0.
fn escape(raw: &[u8]) -> (char, usize) {
    let simple = |character| (character, 2);
    match raw.get(1) {
        Some(b'b') => simple('\u{8}'),
        Some(b'f') => simple('\u{c}'),
        Some(b'n') => simple('\n'),
        Some(b'r') => simple('\r'),
        Some(b't') => simple('\t'),
        Some(b'u') => {
            let Some(first) = code_unit(raw, 2) else { return simple(char::REPLACEMENT_CHARACTER) };
            let second = || (raw.get(6..8)? == b"\\u").then(|| code_unit(raw, 8)).flatten();
            match (first, second()) {
                (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
                    let pair = char::decode_utf16([first, low]).next();
                    (pair.and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
                }
                _ => (char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER), 6),
            }
        }
        // `\"`, `\\`, `\/`; any other stands for itself.
        Some(byte) if byte.is_ascii() => simple(char::from(*byte)),
        _ => (char::REPLACEMENT_CHARACTER, 1),
    }
}

fn code_unit(raw: &[u8], at: usize) -> Option<u16> {
    let digits = raw.get(at..at + 4)?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)? as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(raw: &str) -> Text<'_> {
        Text::new(raw.as_bytes(), raw.contains('\\'))
    }

    #[test]
    fn escapes_are_decoded_and_a_lone_surrogate_is_replaced() {
        for (raw, value) in [
            (r"a\nb\u00e4\/\\", "a\nbä/\\"),
            (r"\ud83d\ude00!", "😀!"),
            (r"cut \ud83d", "cut \u{fffd}"),
            (r"\ude00\ud83dx", "\u{fffd}\u{fffd}x"),
            (r"\ud83d\u0041", "\u{fffd}A"),
            (r"\u00", "\u{fffd}00"),
            (r"\q\", "q\u{fffd}"),
        ] {
            assert_eq!(text(raw).decoded(), value, "{raw}");
        }
    }

    #[test]
    fn characters_are_counted_without_decoding() {
        let long = "sea ä 😀".repeat(1_000);
        for raw in [r"sea", r"sä\n\u00e4", r"\ud83d\ude00!", r"cut \ud83d", "😀", &long] {
            assert_eq!(text(raw).characters(), text(raw).decoded().chars().count() as u64, "{raw}");
        }
    }

    #[test]
    fn a_key_is_known_however_it_is_written() {
        assert!(text("model").is_like("model") && text("Model").is_like("model"));
        assert!(text(r"mod\u0065l").is_like("model") && !text(r"mod\u0065ls").is_like("model"));
    }

    #[test]
    fn only_a_medium_in_base64_is_a_data_url() {
        for url in [
            "data:image/png;base64,iVBORw0KGgo=",
            r"data:image\/png;base64,iVBO\/Rw0KGgo=",
            "data:text/plain;charset=utf-8;base64,c2Vh",
            "data:audio/mpeg;base64,",
        ] {
            assert!(Text::new(url.as_bytes(), url.contains('\\')).is_data_url(), "{url}");
        }
        for text in [
            "data: what is the sea?",
            "data:image/png;base64, then tell me what the sea is",
            r"data:image/png;base64,what\u0020is\u0020the\u0020sea",
            r"data:image/png;base64,c2Vh\n",
            "data:image/png,sea",
            "data:sea;base64,c2Vh",
            "data:a sea/of words;base64,c2Vh",
            "image/png;base64,c2Vh",
            "data:",
        ] {
            assert!(!Text::new(text.as_bytes(), text.contains('\\')).is_data_url(), "{text}");
        }
    }

    #[test]
    fn the_beginning_is_cut_between_characters() {
        let long = "ä".repeat(100);
        assert_eq!(text(&long).beginning(11), "ä".repeat(5));
        let escaped = r"\u00e4".repeat(100);
        assert_eq!(text(&escaped).beginning(11), "ä".repeat(5));
        assert_eq!(text("short").beginning(11), "short");
    }
}
