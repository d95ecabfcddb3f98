//! Parses a raw HTTP reply, as `curl -i`, `curl -si -L` or `curl -v` print it.

/// A reply in its three parts.
#[derive(Debug, PartialEq)]
pub struct RawReply<'a> {
    pub status: u16,
    /// In the order in which they came: any case, repeated.
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: &'a [u8],
}

impl<'a> RawReply<'a> {
    /// Parses a reply. Returns `None` if it does not begin with a status line. Of several in a row (an interim reply, a
    /// proxy's, a redirect that was followed) the last one counts.
    pub fn parse(bytes: &'a [u8]) -> Option<RawReply<'a>> {
        let mut rest = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
        let mut last = None;
        while let Some((reply, after)) = block(rest) {
            rest = reply.body;
            last = Some(reply);
            if !after {
                break;
            }
        }
        last
    }
}

/// Returns the first reply of `bytes`, and whether another one may follow it.
fn block(bytes: &[u8]) -> Option<(RawReply<'_>, bool)> {
    let (first, mut rest) = line(bytes)?;
    let status = status(unquoted(first))?;
    let mut headers: Vec<(String, Vec<u8>)> = Vec::new();
    while let Some((raw, after)) = line(rest) {
        rest = after;
        let raw = unquoted(raw);
        if raw.is_empty() {
            break;
        }
        // A line that begins with a space continues the one before (obsolete, and still seen).
        if raw[0].is_ascii_whitespace() {
            if let Some((_, value)) = headers.last_mut() {
                value.push(b' ');
                value.extend_from_slice(raw.trim_ascii());
            }
            continue;
        }
        if let Some(colon) = raw.iter().position(|byte| *byte == b':') {
            let name = String::from_utf8_lossy(raw[..colon].trim_ascii()).into_owned();
            headers.push((name, raw[colon + 1..].trim_ascii().to_vec()));
        }
    }
    let follows = line(rest).is_some_and(|(first, _)| self::status(unquoted(first)).is_some());
    Some((RawReply { status, headers, body: rest }, follows))
}

/// Removes the `< ` that `curl -v` puts before every line of the head.
fn unquoted(line: &[u8]) -> &[u8] {
    match line {
        b"<" => b"",
        _ => line.strip_prefix(b"< ").unwrap_or(line),
    }
}

/// Splits off the first line, without its end. Bytes without an end of line are a line as well.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    if bytes.is_empty() {
        return None;
    }
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let line = &bytes[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), bytes.get(end + 1..).unwrap_or_default()))
}

/// Parses `HTTP/1.1 429 Too Many Requests` or `HTTP/2 200`.
fn status(line: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let version = words.next()?.strip_prefix("HTTP/")?;
    if version.is_empty() || !version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let status = words.next().filter(|word| word.len() == 3)?;
    status.parse().ok().filter(|status| (100..=999).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_as_curl_prints_it() {
        let reply = RawReply::parse(
            b"HTTP/2 429 \r\nRetry-After: 2\r\nX-Long: a\r\n b\r\nno colon\r\n\r\n{\"a\":1}\n",
        )
        .unwrap();
        assert_eq!(reply.status, 429);
        assert_eq!(
            reply.headers,
            [("Retry-After".into(), b"2".to_vec()), ("X-Long".into(), b"a b".to_vec())]
        );
        assert_eq!(reply.body, b"{\"a\":1}\n");
    }

    #[test]
    fn the_last_of_several_counts() {
        let text = b"HTTP/1.0 200 Connection established\n\nHTTP/1.1 100 Continue\n\nHTTP/1.1 302 Found\nA: 1\n\nHTTP/1.1 200 OK\nB: 2\n\nbody";
        let reply = RawReply::parse(text).unwrap();
        assert_eq!((reply.status, reply.body), (200, &b"body"[..]));
        assert_eq!(reply.headers.len(), 1);
    }

    #[test]
    fn heads_alone_and_quoted_heads() {
        assert_eq!(RawReply::parse(b"HTTP/1.1 503").unwrap().status, 503);
        let quoted = RawReply::parse(b"< HTTP/1.1 429 Too Many\r\n< Retry-After: 1\r\n< \r\n{}").unwrap();
        assert_eq!((quoted.headers.len(), quoted.body), (1, &b"{}"[..]));
        for text in [
            &b""[..],
            b"{}",
            b"HTTP/",
            b"HTTP/1.1",
            b"HTTP/1.1 abc",
            b"HTTP/1.1 20",
            b"\xff\xfe",
            b"GET / HTTP/1.1",
        ] {
            assert_eq!(RawReply::parse(text), None, "{text:?}");
        }
    }
}
