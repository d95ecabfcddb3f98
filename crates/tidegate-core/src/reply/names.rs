//! Names: of headers that speak in another's name or only look like a limit's, and of the limits themselves.

use std::borrow::Cow;

/// For which party a header speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Origin {
    /// For the sender of the reply.
    #[default]
    Sender,
    /// For the upstream behind a gateway.
    Upstream,
}

/// Whether a limit's name is these two parts.
#[inline]
pub(super) fn is_named(name: Option<&str>, outer: Option<&str>, inner: &str) -> bool {
    match (name, outer) {
        (None, None) => inner.is_empty(),
        (Some(name), None) => name == inner,
        (Some(name), Some(outer)) => match name.strip_prefix(outer) {
            Some("") => inner.is_empty(),
            Some(rest) => !inner.is_empty() && rest.strip_prefix(':') == Some(inner),
            None => false,
        },
        (None, Some(_)) => false,
    }
}

pub(super) fn joined(outer: Option<&Cow<'static, str>>, inner: &str) -> Option<Cow<'static, str>> {
    // The names that every other reply has: not worth an allocation each time.
    const COMMON: [&str; 4] = ["usage_based", "project", "month", "dynamic"];
    match (outer, inner) {
        (None, "") => None,
        (Some(outer), "") => Some(outer.clone()),
        (Some(outer), inner) => Some(Cow::Owned(format!("{outer}:{inner}"))),
        (None, inner) => Some(match COMMON.into_iter().find(|common| *common == inner) {
            Some(common) => Cow::Borrowed(common),
            None => Cow::Owned(inner.to_owned()),
        }),
    }
}

/// A header that speaks in another's name: what it says, and on whose behalf.
#[inline]
pub(super) fn unwrap(name: &str) -> Option<(&str, Origin)> {
    let (wrapper, origin) = match name.as_bytes() {
        [b'l' | b'L', ..] => ("llm-provider-", Origin::Upstream),
        [b'b' | b'B', ..] => ("beta-", Origin::Sender),
        [b'x' | b'X', _, b'b' | b'B', ..] => ("x-beta-", Origin::Sender),
        [b'h' | b'H', ..] => ("http-", Origin::Sender),
        _ => return None,
    };
    let begin = name.get(..wrapper.len())?;
    let same = |(a, b): (u8, u8)| a.eq_ignore_ascii_case(&b) || (a == b'_' && b == b'-');
    begin.bytes().zip(wrapper.bytes()).all(same).then(|| (&name[wrapper.len()..], origin))
}

/// Where in a name the words begin that follow `ratelimit-` or `rate-limit-`, whatever stands before.
#[inline]
pub(super) fn looks_like_a_limit(name: &[u8]) -> Option<usize> {
    // The shortest name that could be one is `a-ratelimit-used`.
    if name.len() < 16 {
        return None;
    }
    // `limit` stands where no other letter is an `m`, which are rarer than the dashes around it.
    let at = name.iter().position(|byte| byte | 0x20 == b'm')?.checked_sub(2)?;
    let (before, rest) = (name.get(..at)?, name.get(at..)?);
    if rest.len() < 7 || !rest[..5].eq_ignore_ascii_case(b"limit") || !matches!(rest[5], b'-' | b'_') {
        return None;
    }
    let rate = before.strip_suffix(b"-").unwrap_or(before);
    let is_rate = rate.len() >= 4 && rate[rate.len() - 4..].eq_ignore_ascii_case(b"rate");
    is_rate.then_some(at + 6)
}

/// Whether a header's value is a vendor's sign.
pub(super) fn shows(value: &[u8], sign: &[u8]) -> bool {
    match sign.strip_prefix(b"*") {
        Some(part) => {
            value.windows(part.len().max(1)).take(256).any(|window| window.eq_ignore_ascii_case(part))
        }
        None => value.get(..sign.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(sign)),
    }
}

/// A name that an upstream chose, at a length that is fit to keep.
pub(super) fn clip(name: &str) -> &str {
    const MAX: usize = 128;
    if name.len() <= MAX {
        return name;
    }
    let mut end = MAX;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}
