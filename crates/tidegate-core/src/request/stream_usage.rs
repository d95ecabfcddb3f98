//! Asking for usage on behalf of somebody who did not, and hiding that it was asked for.
//!
//! OpenAI's chat streams, and those of all who speak its dialect, say what they cost only if `stream_options` asks for
//! it. [`asking`] puts that into a request; nothing else of the request changes, not a byte. Then the stream has one
//! event more, with no choices and the usage: [`Hidden`] takes it out again.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::json::{Scanner, Token};

/// The longest event that is held to see what it is; a longer one is passed on as it comes.
const MAX_EVENT: usize = 256 << 10;

/// The body of a request, asking for usage as well. `None` if it is not to be streamed, asks for it already or says
/// that it does not want it.
///
/// ```
/// use tidegate_core::request::stream_usage::asking;
///
/// let body = br#"{"stream": true, "messages": []}"#;
/// let asking = String::from_utf8(asking(body).unwrap())?;
/// assert_eq!(asking, r#"{"stream_options":{"include_usage":true},"stream": true, "messages": []}"#);
/// # Ok::<(), std::string::FromUtf8Error>(())
/// ```
#[must_use]
pub fn asking(body: &[u8]) -> Option<Vec<u8>> {
    let mut scanner = Scanner::new(body);
    if scanner.next() != Some(Token::OpenObject) {
        return None;
    }
    let first_member = scanner.at();
    let (mut stream, mut options) = (None, None);
    while scanner.depth() > 0
        && let Some(token) = scanner.next()
    {
        let Token::Key(name) = token else { continue };
        if name.is_like("stream") {
            // Servers differ in which of two they take.
            if stream.replace(scanner.skip_value()?).is_some() {
                return None;
            }
        } else if name.is_like("stream_options") {
            if options.replace(Options::read(&mut scanner)?).is_some() {
                return None;
            }
        } else {
            scanner.skip_value();
        }
    }
    while scanner.next().is_some() {}
    // What is no JSON is not ours to change: nothing is known of what it would become.
    if stream != Some(Token::Bool(true)) || !scanner.is_json() {
        return None;
    }
    let (at, cut, put) = match options {
        None => (first_member, 0, &b"\"stream_options\":{\"include_usage\":true},"[..]),
        Some(Options::Null { at }) => (at, 4, &b"{\"include_usage\":true}"[..]),
        Some(Options::Silent { at, empty: true }) => (at, 0, &b"\"include_usage\":true"[..]),
        Some(Options::Silent { at, empty: false }) => (at, 0, &b"\"include_usage\":true,"[..]),
        Some(Options::Settled) => return None,
    };
    let mut asking = Vec::with_capacity(body.len() + put.len());
    asking.extend_from_slice(&body[..at]);
    asking.extend_from_slice(put);
    asking.extend_from_slice(&body[at + cut..]);
    Some(asking)
}

/// What `stream_options` say about usage.
enum Options {
    /// They are null, and stand there.
    Null { at: usize },
    /// They do not speak of it; their members begin there.
    Silent { at: usize, empty: bool },
    /// They speak of it, or are no object.
    Settled,
}

impl Options {
    fn read(scanner: &mut Scanner<'_>) -> Option<Options> {
        let depth = scanner.depth();
        let first = scanner.next()?;
        let (at, mut empty, mut settled) = (scanner.at(), true, first != Token::OpenObject);
        if first == Token::Null {
            return Some(Options::Null { at: scanner.token_at() });
        }
        while scanner.depth() > depth
            && let Some(token) = scanner.next()
        {
            if let Token::Key(name) = token {
                settled |= name.is_like("include_usage");
                empty = false;
                scanner.skip_value();
            }
        }
        Some(if settled { Options::Settled } else { Options::Silent { at, empty } })
    }
}

/// A stream without the event that only says what it cost.
///
/// It passes on whole events as soon as they are there, and every byte of those that it passes on.
#[derive(Debug, Default)]
pub struct Hidden {
    /// The event that has not ended yet.
    pending: Vec<u8>,
    /// How far it was searched for its end.
    searched: usize,
    /// It is too long to be held, and passes.
    passing: bool,
}

impl Hidden {
    /// Takes in the next bytes, cut wherever they were cut, and gives back what is to be passed on.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.pending.len() + bytes.len());
        self.pending.extend_from_slice(bytes);
        let mut start = 0;
        while let Some(end) = event_end(&self.pending, start, self.searched) {
            let event = &self.pending[start..end];
            if self.passing || !says_only_usage(event) {
                out.extend_from_slice(event);
            }
            self.passing = false;
            (start, self.searched) = (end, end);
        }
        self.pending.drain(..start);
        // The end of an event is up to four bytes long, and may have been cut.
        self.searched = self.pending.len().saturating_sub(3);
        if self.passing || self.pending.len() > MAX_EVENT {
            self.passing = true;
            // The last bytes may be the beginning of its end.
            let keep = self.searched;
            out.extend(self.pending.drain(..keep));
            self.searched = 0;
        }
        out
    }

    /// What is left when the stream is over.
    pub fn finish(&mut self) -> Vec<u8> {
        self.searched = 0;
        std::mem::take(&mut self.pending)
    }
}

/// Where the first event ends that begins at `start`: after an empty line.
fn event_end(bytes: &[u8], start: usize, searched: usize) -> Option<usize> {
    let mut at = start.max(searched.saturating_sub(3));
    loop {
        at += bytes[at..].iter().position(|byte| *byte == b'\n')?;
        match &bytes[at + 1..] {
            [b'\n', ..] => return Some(at + 2),
            [b'\r', b'\n', ..] => return Some(at + 3),
            _ => at += 1,
        }
    }
}

/// Whether an event is the one that was not asked for by whoever reads the stream.
fn says_only_usage(event: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Chunk {
        choices: Vec<IgnoredAny>,
        usage: Option<IgnoredAny>,
    }
    let text = event.trim_ascii();
    // Most events are a few letters of the answer, and say that there is no usage yet.
    let Some(data) = text.strip_prefix(b"data:") else { return false };
    if !may_say_usage(data) {
        return false;
    }
    serde_json::from_slice::<Chunk>(data).is_ok_and(|chunk| chunk.choices.is_empty() && chunk.usage.is_some())
}

fn may_say_usage(data: &[u8]) -> bool {
    const NAME: &[u8] = b"\"usage\"";
    let Some(at) = data.windows(NAME.len()).position(|window| window == NAME) else { return false };
    let after = data[at + NAME.len()..].trim_ascii_start();
    !after.strip_prefix(b":").is_some_and(|value| value.trim_ascii_start().starts_with(b"null"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(body: &str) -> Option<String> {
        asking(body.as_bytes()).map(|asking| String::from_utf8(asking).expect("text"))
    }

    #[test]
    fn usage_is_asked_for_where_nobody_spoke_of_it() {
        for (body, asking) in [
            (r#"{"stream":true}"#, r#"{"stream_options":{"include_usage":true},"stream":true}"#),
            (
                r#" {"stream":true,"stream_options":null}"#,
                r#" {"stream":true,"stream_options":{"include_usage":true}}"#,
            ),
            (
                r#"{"stream_options": { } ,"stream":true}"#,
                r#"{"stream_options": {"include_usage":true } ,"stream":true}"#,
            ),
            (
                r#"{"stream_options":{"include_obfuscation":false},"stream":true}"#,
                r#"{"stream_options":{"include_usage":true,"include_obfuscation":false},"stream":true}"#,
            ),
        ] {
            assert_eq!(ask(body).as_deref(), Some(asking));
            assert!(serde_json::from_str::<serde_json::Value>(asking).is_ok());
        }
    }

    #[test]
    fn usage_is_asked_for_in_a_body_that_is_odd() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for rest in [r#""user":"\ud83d""#, r#""a":NaN"#, r#""a":1,"a":2"#, &format!("\"a\":{deep}")] {
            let body = format!("{{\"stream\":true,{rest}}}");
            let asked = ask(&body).expect("JSON enough");
            assert_eq!(asked, format!("{{\"stream_options\":{{\"include_usage\":true}},{}", &body[1..]));
        }
    }

    #[test]
    fn who_spoke_of_it_and_who_wants_no_stream_is_left_alone() {
        for body in [
            r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
            r#"{"stream":true,"stream_options":{"include_usage":false}}"#,
            r#"{"stream":true,"stream_options":5}"#,
            r#"{"stream":false}"#,
            r#"{"messages":[]}"#,
            r#"{"stream":true"#,
            r#"{"stream":1}"#,
            r#"{"stream":true,"stream":false}"#,
            r#"{"stream":true,"stream_options":{},"stream_options":{}}"#,
            r#"{"stream":true} sea"#,
            "[]",
        ] {
            assert_eq!(ask(body), None, "{body}");
        }
    }

    const STREAM: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"usage\\\"\"}}],\"usage\":null}\n\n\
        : keep-alive\n\n\
        data: {\"choices\":[],\"prompt_filter_results\":[],\"usage\":null}\r\n\r\n\
        data: {\"choices\":[{\"delta\":{}}],\"usage\":{\"total_tokens\":1}}\n\n";
    const USAGE: &str = "data: {\"id\":\"x\",\"choices\":[],\"usage\":{\"total_tokens\":21}}\n\n";
    const DONE: &str = "data: [DONE]\n\n";

    #[test]
    fn only_the_event_that_was_not_asked_for_is_hidden_however_the_stream_is_cut() {
        let stream = [STREAM, USAGE, DONE].concat();
        for piece in [1, 2, 3, 7, 64, 4096] {
            let mut hidden = Hidden::default();
            let mut out: Vec<u8> =
                stream.as_bytes().chunks(piece).flat_map(|bytes| hidden.push(bytes)).collect();
            out.extend(hidden.finish());
            assert_eq!(String::from_utf8(out).expect("text"), [STREAM, DONE].concat(), "{piece}");
        }
    }

    #[test]
    fn an_event_goes_on_as_soon_as_it_is_whole() {
        let mut hidden = Hidden::default();
        assert_eq!(hidden.push(b"data: 1\n"), b"");
        assert_eq!(hidden.push(b"\ndata: 2"), b"data: 1\n\n");
        assert_eq!(hidden.finish(), b"data: 2");
    }

    #[test]
    fn an_event_that_is_too_long_passes_and_the_next_one_is_seen() {
        let long = format!("data: {}\n\n", "x".repeat(2 * MAX_EVENT));
        let stream = [&long, USAGE, DONE].concat();
        let mut hidden = Hidden::default();
        let mut out = Vec::new();
        for bytes in stream.as_bytes().chunks(4096) {
            out.extend(hidden.push(bytes));
            assert!(hidden.pending.len() <= MAX_EVENT + 4096);
        }
        out.extend(hidden.finish());
        assert_eq!(String::from_utf8(out).expect("text"), [&long, DONE].concat());
    }

    proptest::proptest! {
        #[test]
        fn every_other_event_passes_whole_however_it_is_cut(
            events in proptest::collection::vec((0..6_usize, 1..40_usize), 0..12),
        ) {
            let kinds = [USAGE, "data: x\n\n", ": sea\r\n\r\n", "event: a\ndata: {\"usage\":1}\n\n", "retry: 1\n\n", "id: 1\n"];
            let (mut hidden, mut out, mut expected) = (Hidden::default(), Vec::new(), String::new());
            for (kind, piece) in &events {
                // A line before it makes it another event.
                let ended = ["", "\n\n", "\r\n\r\n"].iter().any(|end| expected.ends_with(end) && (!end.is_empty() || expected.is_empty()));
                let whole = *kind != 0 || ended;
                let text = if whole { kinds[*kind] } else { "\n" };
                if *kind != 0 || !whole {
                    expected.push_str(text);
                }
                out.extend(text.as_bytes().chunks(*piece).flat_map(|bytes| hidden.push(bytes)));
            }
            out.extend(hidden.finish());
            proptest::prop_assert_eq!(String::from_utf8(out).expect("text"), expected);
        }

        #[test]
        fn a_request_that_asks_says_the_same_otherwise(
            keys in proptest::collection::btree_map("[a-c\"\\\\]{1,3}", "[{}\\[\\]\",:a]{0,6}", 0..5),
            options in proptest::option::of(proptest::collection::btree_map("[a-c]{1,2}", 0..9_i32, 0..3)),
            pretty in proptest::bool::ANY,
        ) {
            let mut request = serde_json::json!(keys);
            request["stream"] = true.into();
            if let Some(options) = options {
                request["stream_options"] = serde_json::json!(options);
            }
            let body = if pretty { serde_json::to_string_pretty(&request) } else { serde_json::to_string(&request) };
            let asked = asking(body.expect("JSON").as_bytes()).expect("nobody spoke of it");
            let mut asked: serde_json::Value = serde_json::from_slice(&asked).expect("still JSON");
            request["stream_options"]["include_usage"] = true.into();
            proptest::prop_assert_eq!(asked.take(), request);
        }
    }
}
