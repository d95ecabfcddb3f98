//! The normal form of an endpoint: method and path, such as `POST /v1/embeddings`.
//!
//! A server takes `/v1/%63hat`, `//v1/chat`, `/v1/./chat` and `/v1/chat/` for one path. Limits are matched on a normal
//! form, so that an alias of a path does not pass by its limits: calls and the patterns of the config are brought into it,
//! wherever they come from. It is for matching only. What is forwarded is what the client sent, byte for byte.
//!
//! * `%` and two digits are decoded where they stand for a character that may stand in a path as it is (RFC 3986's
//!   `pchar`, without `*`, which is a pattern's word for anything). All others stay, with digits in upper case: an
//!   encoded slash is part of a name, as GitLab writes projects.
//! * Slashes in a row are one, and a slash at the end is none.
//! * `.` and `..` are resolved, and nothing is above the root.
//! * An empty path behind a method is `/` (RFC 3986, section 6.2.3): HTTP cannot ask for less.
//!
//! What has no path (`fetch origin`, for work that is not HTTP) stays as it is, and so does a query.

use std::borrow::Cow;

/// Brings an endpoint into its normal form.
pub(crate) fn normal(endpoint: &str) -> Cow<'_, str> {
    // Most are in it, and that is seen without taking them apart.
    let find = |byte, from: usize| memchr::memchr(byte, &endpoint.as_bytes()[from..]).map(|at| from + at);
    let Some(start) = find(b'/', 0).filter(|start| is_method(&endpoint[..*start])) else {
        return rooted(endpoint);
    };
    let end = find(b'?', start).unwrap_or(endpoint.len());
    let path = &endpoint[start..end];
    if is_normal(path) {
        return Cow::Borrowed(endpoint);
    }
    let decoded = decoded(path);
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            name => segments.push(name),
        }
    }
    Cow::Owned([&endpoint[..start], "/", &segments.join("/"), &endpoint[end..]].concat())
}

/// Gives an endpoint without a slash the root as its path, if it is a method with an empty path: `POST `, `POST ?page=2`.
fn rooted(endpoint: &str) -> Cow<'_, str> {
    let blank = endpoint.find(' ').filter(|blank| *blank > 0 && is_method(&endpoint[..*blank]));
    match blank.map(|blank| endpoint.split_at(blank + 1)) {
        Some((method, query)) if query.is_empty() || query.starts_with('?') => {
            Cow::Owned([method, "/", query].concat())
        }
        _ => Cow::Borrowed(endpoint),
    }
}

/// Whether what stands before a path is a method and a blank, a pattern of one, or nothing.
fn is_method(text: &str) -> bool {
    let method = text.strip_suffix(' ').unwrap_or(text);
    method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'*' || byte == b'-' || byte == b'_')
}

fn is_normal(path: &str) -> bool {
    let bytes = path.as_bytes();
    let in_order = |at: usize| match (bytes[at], bytes.get(at + 1)) {
        (b'/', Some(next)) => !matches!(next, b'/' | b'.'),
        // A slash at the end is one too many, unless it is all there is.
        (b'/', None) => at == 0,
        _ => false,
    };
    memchr::memchr2_iter(b'/', b'%', bytes).all(in_order)
}

fn decoded(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let mut out = String::with_capacity(path.len());
    let mut parts = path.split('%');
    out.extend(parts.next());
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let Some(digits) = digits else {
            // No server could take it for anything else, and what follows it cannot make it an escape.
            out.push_str("%25");
            out.push_str(part);
            continue;
        };
        match u8::from_str_radix(digits, 16).map(char::from) {
            Ok(character) if stands_as_it_is(character) => out.push(character),
            _ => {
                out.push('%');
                out.push_str(&digits.to_ascii_uppercase());
            }
        }
        out.push_str(&part[2..]);
    }
    Cow::Owned(out)
}

fn stands_as_it_is(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-._~!$&'()+,;=:@".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_of_a_path_are_one() {
        for alias in [
            "POST /v1/chat",
            "POST /v1/%63hat",
            "POST /v1/%63h%61t/",
            "POST //v1/chat",
            "POST /v1//chat//",
            "POST /v1/./chat",
            "POST /v1/x/../chat",
            "POST /../v1/%2e/chat",
            "POST /v1%2Fx/..//v1/chat",
        ] {
            assert_eq!(normal(alias), "POST /v1/chat", "{alias}");
        }
        assert_eq!(normal("* /models/a%3agenerate"), "* /models/a:generate");
        assert_eq!(normal("GET /v1/chat/?a=//%63"), "GET /v1/chat?a=//%63");
        assert_eq!(normal("/v1/chat/"), "/v1/chat");
        assert_eq!(normal("GET //"), "GET /");
    }

    #[test]
    fn an_empty_path_is_the_root() {
        for alias in ["POST ", "POST /", "POST //", "POST /."] {
            assert_eq!(normal(alias), "POST /", "{alias:?}");
        }
        assert_eq!(normal("* "), "* /");
        assert_eq!(normal("GET ?a=/x"), "GET /?a=/x");
    }

    #[test]
    fn what_is_another_path_stays_one() {
        for endpoint in [
            "GET /projects/group%2Fproject",
            "GET /a%2Ab",
            "GET /100%25",
            "GET /%E4",
            "GET /.well-known/x",
            "GET /a..b/...",
            "GET /",
            "fetch origin",
            "fetch",
            " ",
            "a:b ",
            "clone https://host//x/",
            "",
        ] {
            assert_eq!(normal(endpoint), endpoint, "{endpoint}");
        }
        assert_eq!(normal("GET /a%2fb"), "GET /a%2Fb");
        assert_eq!(normal("GET /100%"), "GET /100%25");
    }

    proptest::proptest! {
        #[test]
        fn the_normal_form_is_its_own(path in "(GET |\\* )?(/|%2[eEfF]|%63|%25|%|\\.|a|\\*|\\?|é| ){0,12}") {
            let once = normal(&path).into_owned();
            proptest::prop_assert_eq!(normal(&once), once.as_str());
        }
    }
}
