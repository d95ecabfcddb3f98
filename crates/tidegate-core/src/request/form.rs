//! Fields of a form, in parts (`multipart/form-data`) or in one line (`application/x-www-form-urlencoded`).
//!
//! Servers differ in what they accept: a preamble, quotes of either kind or none, other parameters before the name, bare line
//! feeds. All of that is read here. Text that only looks like a field counts as one too: a call is rather held to the
//! limits of one model too many than to none.

use super::MAX_MODEL;

/// Returns the values of the parts with that name, as far as a value can be a model's name.
pub(super) fn parts<'t>(text: &'t [u8], name: &'t str) -> impl Iterator<Item = String> + 't {
    const HEADER: &[u8] = b"content-disposition";
    let (mut in_header, mut is_named) = (false, false);
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    std::iter::from_fn(move || {
        loop {
            let line = lines.next()?.trim_ascii_end();
            if line.is_empty() && is_named {
                // The value, if it is there as a whole.
                (in_header, is_named) = (false, false);
                let value = lines.next().filter(|line| line.ends_with(b"\n"));
                return Some(value.and_then(model));
            }
            let begins = line.get(..HEADER.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(HEADER));
            // A header goes on in lines that begin with a blank.
            in_header = begins || in_header && matches!(line.first(), Some(b' ' | b'\t'));
            is_named = is_named && !line.starts_with(b"--") || in_header && names(line, name);
        }
    })
    .flatten()
}

/// Returns whether a header has a parameter `name` with this value.
fn names(header: &[u8], value: &str) -> bool {
    header.split(|byte| *byte == b';').any(|parameter| {
        let mut sides = parameter.splitn(2, |byte| *byte == b'=');
        let key = sides.next().unwrap_or_default().trim_ascii();
        let is_name = key.eq_ignore_ascii_case(b"name") || key.eq_ignore_ascii_case(b"name*");
        let Some(said) = sides.next().filter(|_| is_name) else { return false };
        // Behind the character set and the language, where there are any (RFC 8187).
        let said = if key.ends_with(b"*") {
            said.rsplit(|byte| *byte == b'\'').next().unwrap_or_default()
        } else {
            said
        };
        let unquoted = said.trim_ascii().iter().filter(|byte| !b"\"'\\".contains(byte));
        unquoted.map(u8::to_ascii_lowercase).eq(value.bytes())
    })
}

/// Returns the values of the fields with that name in a form of one line, as far as a value can be a model's name.
pub(super) fn fields<'t>(text: &'t [u8], name: &'t str) -> impl Iterator<Item = String> + 't {
    text.split(|byte| *byte == b'&').filter_map(move |field| {
        let equals = memchr::memchr(b'=', field)?;
        // Each byte of a name takes three at most.
        let key = field.get(..equals).filter(|key| key.len() <= 3 * name.len())?;
        let value = field.get(equals + 1..).filter(|value| value.len() <= 3 * MAX_MODEL)?;
        decoded(key).eq_ignore_ascii_case(name.as_bytes()).then(|| model(&decoded(value))).flatten()
    })
}

/// Decodes `%` with two digits, and `+` for a blank.
fn decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.filter(|_| first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        rest = if byte.is_some() { &behind[2..] } else { behind };
        out.push(byte.unwrap_or(if first == b'+' { b' ' } else { first }));
    }
    out
}

/// Returns a value as the name of a model, if it can be one.
fn model(value: &[u8]) -> Option<String> {
    let value = value.trim_ascii();
    let name = std::str::from_utf8(value).ok().filter(|_| (1..=MAX_MODEL).contains(&value.len()))?;
    Some(name.to_owned())
}
