//! Streams: the usage and the errors that arrive after a status of 200.
//!
//! A [`StreamReader`] is fed the bytes of a reply as they pass and keeps only what matters: the last word on
//! usage, and the events that say the call was refused after all. It understands server-sent events and the
//! frames of AWS event streams. What it holds is bounded; an event that is too long to hold is passed over.

use super::body::{self, Findings};
use super::date::UnixMillis;
use super::json::{Tree, decode};
use super::reading::Reading;
use super::structured::base64;
use super::usage::RawUsage;
use super::{Reader, verdict};
use crate::vendors::usage::Usage;
use crate::vendors::verdict::Verdict;

/// The longest line or event that is looked at.
const MAX_EVENT: usize = 256 << 10;
/// The most errors of one stream that are kept.
const MAX_ERRORS: usize = 4;

/// Reads a stream as it passes.
#[derive(Debug, Default)]
pub struct StreamReader {
    form: Form,
    /// The line or frame that has not ended yet.
    pending: Vec<u8>,
    /// The pending line is too long to keep.
    skipping: bool,
    event: Vec<u8>,
    data: Vec<u8>,
    too_long: bool,
    /// An event has ended.
    begun: bool,
    usage: Option<RawUsage>,
    /// Events that carry a part of the answer.
    parts: u64,
    errors: Vec<Tree<'static>>,
    codes: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Unknown,
    Events,
    Frames,
}

impl StreamReader {
    /// A reader that has seen nothing yet.
    #[must_use]
    pub fn new() -> StreamReader {
        StreamReader::default()
    }

    /// Takes in the next bytes of the stream, cut wherever they were cut.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.form == Form::Unknown {
            // A frame begins with its length, whose first byte is zero for any length that we would hold.
            match bytes.first() {
                None => return,
                Some(0) => self.form = Form::Frames,
                Some(_) => self.form = Form::Events,
            }
        }
        match self.form {
            Form::Frames => self.push_frames(bytes),
            _ => self.push_lines(bytes),
        }
    }

    /// Whether its first event is there; comments that only keep a connection alive are none.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// The usage that the stream has reported so far.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.usage.map(RawUsage::finish)
    }

    /// How many tokens of an answer there were so far, at least: what the stream says, or one for each part of the answer.
    #[must_use]
    pub fn output_so_far(&self) -> u64 {
        let said = self.usage.and_then(|usage| usage.finish().output_tokens);
        said.unwrap_or(0).max(self.parts)
    }

    /// What the errors in the stream mean, if there were any. `reader` is the one that read the reply's
    /// headers, `now` is when it came.
    #[must_use]
    pub fn failure(&self, reader: &Reader<'_>, now: UnixMillis) -> Option<Reading> {
        let lens = reader.lens(None);
        let findings = self.findings(now);
        let mut reading = Reading::default();
        reading.verdict = verdict::decide(200, &lens, &findings, &reading, false);
        if reading.verdict == Verdict::Ok {
            return None;
        }
        findings.report(&mut reading);
        Some(reading)
    }

    pub(super) fn raw_usage(&self) -> Option<RawUsage> {
        self.usage
    }

    pub(super) fn findings(&self, now: UnixMillis) -> Findings {
        let mut findings = Findings::default();
        for tree in &self.errors {
            findings.read_tree(tree, true, now);
        }
        findings.codes.extend(self.codes.iter().cloned());
        findings
    }

    /// Ends the event that no empty line has ended: a body may break off.
    pub(super) fn finish(&mut self) {
        if self.form == Form::Events {
            let line = std::mem::take(&mut self.pending);
            self.line(&line);
            self.dispatch();
        }
    }

    fn push_lines(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (head, tail) = (&rest[..end], &rest[end + 1..]);
            if self.skipping {
                self.skipping = false;
            } else if self.pending.is_empty() {
                self.line(head);
            } else {
                let mut line = std::mem::take(&mut self.pending);
                if line.len() + head.len() <= MAX_EVENT {
                    line.extend_from_slice(head);
                    self.line(&line);
                }
                line.clear();
                self.pending = line;
            }
            // A carriage return before a newline ends the same line; the empty line it would make must not
            // end the event.
            rest = if rest[end] == b'\r' && tail.first() == Some(&b'\n') { &tail[1..] } else { tail };
        }
        if self.skipping || self.pending.len() + rest.len() > MAX_EVENT {
            self.skipping = true;
            self.pending.clear();
        } else {
            self.pending.extend_from_slice(rest);
        }
    }

    fn line(&mut self, line: &[u8]) {
        if line.is_empty() {
            self.dispatch();
            return;
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            // A line that begins with a colon is a comment: a heartbeat.
            Some(0) => return,
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => self.event = value[..value.len().min(128)].to_vec(),
            b"data" => {
                if self.data.len() + value.len() > MAX_EVENT {
                    self.too_long = true;
                } else {
                    if !self.data.is_empty() {
                        self.data.push(b'\n');
                    }
                    self.data.extend_from_slice(value);
                }
            }
            _ => {}
        }
    }

    fn dispatch(&mut self) {
        let data = std::mem::take(&mut self.data);
        let event = std::mem::take(&mut self.event);
        self.begun |= !(data.is_empty() && event.is_empty());
        if !std::mem::take(&mut self.too_long) {
            self.parts += u64::from(has(&data, b"delta"));
            let failed = has(&event, b"error") || has(&event, b"failed") || has(&event, b"xception");
            // Most events of a stream are a few letters of the answer: not worth taking apart.
            if (failed || has(&data, b"\"error\"") || has(&data, b"sage") || has(&data, b"rate_limits"))
                && let Some(tree) = Tree::parse(&decode(&data))
            {
                self.take(&tree, failed);
            }
        }
        // Kept for the next event's bytes.
        self.data = data;
        self.data.clear();
    }

    fn take(&mut self, tree: &Tree<'_>, failed: bool) {
        if let Some(usage) = RawUsage::read(tree) {
            self.usage = Some(self.usage.map_or(usage, |before| before.then(usage)));
        }
        if (failed || body::is_error(tree)) && self.errors.len() < MAX_ERRORS {
            self.errors.push(tree.to_owned());
        }
    }

    fn push_frames(&mut self, bytes: &[u8]) {
        // A frame: length, length of its headers, checksum, headers, payload, checksum. Checksums are left to
        // whoever uses the stream.
        if self.skipping || self.pending.len() + bytes.len() > 4 * MAX_EVENT {
            self.skipping = true;
            self.pending.clear();
            return;
        }
        self.pending.extend_from_slice(bytes);
        let frames = std::mem::take(&mut self.pending);
        let mut rest = &frames[..];
        while let Some((total, headers)) = frame_lengths(rest) {
            if total < 16 || headers > total - 16 {
                self.skipping = true;
                return;
            }
            let Some(frame) = rest.get(..total) else { break };
            self.frame(&frame[12..12 + headers], &frame[12 + headers..total - 4]);
            rest = &rest[total..];
        }
        self.pending = rest.to_vec();
    }

    fn frame(&mut self, headers: &[u8], payload: &[u8]) {
        self.begun = true;
        let exception = text_header(headers, b":exception-type");
        let text = decode(payload);
        let Some(tree) = Tree::parse(&text) else { return };
        let inner = tree.text("bytes").and_then(base64).unwrap_or_default();
        let inner = decode(&inner);
        if let Some(code) = exception
            && self.codes.len() < MAX_ERRORS
        {
            self.codes.push(String::from_utf8_lossy(code).into_owned());
        }
        self.take(&Tree::parse(&inner).unwrap_or(tree), exception.is_some());
    }
}

fn frame_lengths(bytes: &[u8]) -> Option<(usize, usize)> {
    let number = |at: usize| {
        let bytes: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_be_bytes(bytes)).ok()
    };
    Some((number(0)?, number(4)?))
}

/// The text header of that name in a frame.
fn text_header<'h>(headers: &'h [u8], wanted: &[u8]) -> Option<&'h [u8]> {
    let mut rest = headers;
    loop {
        let (length, tail) = rest.split_first()?;
        let name = tail.get(..usize::from(*length))?;
        let tail = &tail[usize::from(*length)..];
        let (kind, tail) = tail.split_first()?;
        let skip = match kind {
            0 | 1 => 0,
            2 => 1,
            3 => 2,
            4 => 4,
            5 | 8 => 8,
            9 => 16,
            6 | 7 => {
                let size = usize::from(u16::from_be_bytes(tail.get(..2)?.try_into().ok()?));
                let value = tail.get(2..2 + size)?;
                if name == wanted {
                    return Some(value);
                }
                2 + size
            }
            _ => return None,
        };
        rest = tail.get(skip..)?;
    }
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Whether a body is a stream of events or frames, and not one document.
pub(super) fn is_stream(body: &[u8]) -> bool {
    if let Some((total, headers)) = frame_lengths(body)
        && body[0] == 0
        && total >= 16
        && headers <= total - 16
    {
        return true;
    }
    let start = body.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(body.len());
    let body = &body[start..];
    [&b"event:"[..], b"data:", b"id:", b"retry:", b":"].iter().any(|field| body.starts_with(field))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vendors::by_name;

    const NOW: UnixMillis = UnixMillis(1_763_200_000_000);

    fn fed(stream: &str, piece: usize) -> StreamReader {
        let mut reader = StreamReader::new();
        for bytes in stream.as_bytes().chunks(piece) {
            reader.push(bytes);
        }
        reader.finish();
        reader
    }

    #[test]
    fn usage_comes_in_pieces_and_the_last_word_counts() {
        let anthropic = "event: message_start\r\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,\
            \"cache_read_input_tokens\":100,\"output_tokens\":1}}}\r\n\r\nevent: ping\r\ndata: {}\r\n\r\n\
            event: message_delta\r\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":15}}\r\n\r\n";
        for piece in [1, 7, 1000] {
            let usage = fed(anthropic, piece).usage().unwrap();
            assert_eq!((usage.input_tokens, usage.output_tokens), (Some(125), Some(15)), "{piece}");
        }
        let openai = "data: {\"choices\":[{}],\"usage\":null}\n\n: keep-alive\n\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\
            \"completion_tokens\":12,\"total_tokens\":21}}\n\ndata: [DONE]\n\n";
        assert_eq!(fed(openai, 3).usage().unwrap().total_tokens, Some(21));
        let responses = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"error\":null,\"usage\":\
            {\"input_tokens\":9,\"output_tokens\":12,\"total_tokens\":21}}}\n\n";
        let reader = fed(responses, 5);
        assert_eq!(reader.usage().unwrap().input_tokens, Some(9));
        assert_eq!(reader.failure(&Reader::default(), NOW), None);
    }

    #[test]
    fn a_refusal_in_the_stream_is_one() {
        let azure = "event: error\ndata: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"Please retry after 4 seconds.\"}\n\n";
        let reading = fed(azure, 10).failure(&Reader::of(by_name("azure-openai").unwrap()), NOW).unwrap();
        assert_eq!((reading.verdict, reading.body_retry_after_ms), (Verdict::RateLimited, Some(4000)));
        let anthropic = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
        assert_eq!(fed(anthropic, 10).failure(&Reader::default(), NOW).unwrap().verdict, Verdict::Overloaded);
        let openrouter = "data: {\"id\":\"x\",\"error\":{\"code\":429,\"message\":\"Rate limit exceeded\"},\"choices\":[{\"finish_reason\":\"error\"}]}\n\n";
        assert_eq!(
            fed(openrouter, 10).failure(&Reader::default(), NOW).unwrap().verdict,
            Verdict::RateLimited
        );
        let mut quiet = StreamReader::new();
        quiet.push(b": keep-alive\n\n\ndata: {}\n");
        assert!(!quiet.has_begun());
        quiet.push(b"\n");
        assert!(quiet.has_begun());
        let fine = "data: {\"choices\":[{\"delta\":{\"content\":\"an error\"}}]}\n\n";
        assert_eq!(fed(fine, 10).failure(&Reader::default(), NOW), None);
    }

    #[test]
    fn what_is_too_long_is_passed_over() {
        let long = format!(
            "data: {{\"usage\":{{\"prompt_tokens\":1}},\"x\":\"{}\"}}\n\ndata: {{\"usage\":{{\"prompt_tokens\":2}}}}\n\n",
            "x".repeat(MAX_EVENT)
        );
        let reader = fed(&long, 4096);
        assert_eq!(reader.usage().unwrap().input_tokens, Some(2));
        assert!(reader.pending.capacity() <= 2 * MAX_EVENT);
    }

    #[test]
    fn frames_of_an_aws_stream() {
        let payload =
            br#"{"metrics":{"latencyMs":1},"usage":{"inputTokens":30,"outputTokens":40,"totalTokens":70}}"#;
        let frame = |name: &[u8], value: &[u8], payload: &[u8]| {
            let mut headers = vec![name.len() as u8];
            headers.extend_from_slice(name);
            headers.push(7);
            headers.extend_from_slice(&(value.len() as u16).to_be_bytes());
            headers.extend_from_slice(value);
            let total = (16 + headers.len() + payload.len()) as u32;
            let mut frame = total.to_be_bytes().to_vec();
            frame.extend_from_slice(&(headers.len() as u32).to_be_bytes());
            frame.extend_from_slice(&[0; 4]);
            frame.extend_from_slice(&headers);
            frame.extend_from_slice(payload);
            frame.extend_from_slice(&[0; 4]);
            frame
        };
        let mut stream = frame(b":event-type", b"metadata", payload);
        stream.extend(frame(b":exception-type", b"throttlingException", br#"{"message":"slow"}"#));
        assert!(is_stream(&stream));
        let mut reader = StreamReader::new();
        for bytes in stream.chunks(11) {
            reader.push(bytes);
        }
        assert_eq!(reader.usage().unwrap().total_tokens, Some(70));
        assert_eq!(
            reader.failure(&Reader::of(by_name("aws-bedrock").unwrap()), NOW).unwrap().verdict,
            Verdict::RateLimited
        );
    }
}
