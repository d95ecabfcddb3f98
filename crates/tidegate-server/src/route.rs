//! Reads the path of a request.
//!
//! `/{service}/{path…}` is forwarded. `/~{loop}[:{loop_type}][,{priority}]/{service}/{path…}` is the same with hints, for
//! SDKs that cannot send headers. Some first segments are the sidecar's own, and no service may have such a name.

use std::borrow::Cow;

use tidegate::Priority;

/// The first segments of the sidecar's own routes, beside the empty one.
const OWN: [&str; 4] = ["v1", "metrics", "healthz", "readyz"];

/// The destination of a request.
#[derive(Debug, PartialEq)]
pub(crate) enum Route<'p> {
    /// The sidecar itself.
    Own,
    /// A service.
    Service {
        /// The hints in the URL.
        hints: UrlHints<'p>,
        /// The name of the service.
        service: &'p str,
        /// The path at the service: empty, or with a leading slash.
        path: &'p str,
    },
}

/// The hints in a URL.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct UrlHints<'p> {
    pub loop_id: Option<Cow<'p, str>>,
    pub loop_type: Option<Cow<'p, str>>,
    pub priority: Option<Priority>,
}

/// Reads a path.
///
/// # Errors
/// Returns a sentence that says what is wrong with the hints.
pub(crate) fn route(path: &str) -> Result<Route<'_>, String> {
    let (mut first, mut rest) = first_segment(path);
    let mut hints = UrlHints::default();
    if let Some(text) = first.strip_prefix('~') {
        hints = read_hints(text)?;
        (first, rest) = first_segment(rest);
        if first.is_empty() || OWN.contains(&first) {
            return Err("after the hints of the URL comes a service: `/~{loop}/{service}/…`".into());
        }
    }
    Ok(if first.is_empty() || OWN.contains(&first) {
        Route::Own
    } else {
        Route::Service { hints, service: first, path: rest }
    })
}

fn first_segment(path: &str) -> (&str, &str) {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split_at(path.find('/').unwrap_or(path.len()))
}

fn read_hints(hints: &str) -> Result<UrlHints<'_>, String> {
    let (hints, priority) = match hints.rsplit_once(',') {
        Some((hints, priority)) => (hints, Some(priority)),
        None => (hints, None),
    };
    let (loop_id, loop_type) = match hints.split_once(':') {
        Some((loop_id, loop_type)) => (loop_id, Some(loop_type)),
        None => (hints, None),
    };
    let priority = priority.map(|name| decoded(name)?.parse().map_err(|error| format!("{error}")));
    Ok(UrlHints {
        loop_id: Some(decoded(loop_id)?).filter(|id| !id.is_empty()),
        loop_type: loop_type.map(decoded).transpose()?.filter(|name| !name.is_empty()),
        priority: priority.transpose()?,
    })
}

/// Decodes the `%xx` of a segment.
pub(crate) fn decoded(word: &str) -> Result<Cow<'_, str>, String> {
    if !word.contains('%') {
        return Ok(word.into());
    }
    let wrong = || format!("`{word}` is not a percent-encoded text");
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        if *byte == b'%' {
            let digits =
                tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()).ok_or_else(wrong)?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
            rest = &tail[2..];
        } else {
            bytes.push(*byte);
        }
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(path: &str) -> (UrlHints<'_>, &str, &str) {
        match route(path) {
            Ok(Route::Service { hints, service, path }) => (hints, service, path),
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn a_path_names_a_service_and_what_is_asked_of_it() {
        assert_eq!(service("/openai/v1/models"), (UrlHints::default(), "openai", "/v1/models"));
        assert_eq!(service("/openai"), (UrlHints::default(), "openai", ""));
        assert_eq!(service("/openai//x"), (UrlHints::default(), "openai", "//x"));
        for own in ["/", "/v1/status", "/healthz", "/readyz", "/metrics", ""] {
            assert_eq!(route(own), Ok(Route::Own), "{own}");
        }
    }

    #[test]
    fn hints_in_the_url_say_who_calls() {
        let (hints, name, path) = service("/~agent-7:code,high/openai/v1/models");
        assert_eq!((name, path), ("openai", "/v1/models"));
        assert_eq!((hints.loop_id.as_deref(), hints.loop_type.as_deref()), (Some("agent-7"), Some("code")));
        assert_eq!(hints.priority, Some(Priority::High));
        let (hints, ..) = service("/~a%2Fb%3A,low/openai/");
        assert_eq!((hints.loop_id.as_deref(), hints.priority), (Some("a/b:"), Some(Priority::Low)));
        let (hints, ..) = service("/~:code/openai/");
        assert_eq!((hints.loop_id, hints.loop_type.as_deref()), (None, Some("code")));
    }

    #[test]
    fn hints_that_make_no_sense_are_told() {
        for path in
            ["/~a,urgent/openai/", "/~a%2/openai/", "/~a%ff/openai/", "/~a%zz/openai/", "/~a/", "/~a/v1/x"]
        {
            assert!(route(path).is_err(), "{path}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_path_breaks_it_and_what_is_forwarded_is_the_end_of_it(path in "/?~?[a-z%,:~/.0-9]{0,30}") {
            if let Ok(Route::Service { service, path: rest, .. }) = route(&path) {
                let end = format!("{service}{rest}");
                proptest::prop_assert!(path.ends_with(&end), "{} of {}", end, path);
                proptest::prop_assert!(!service.is_empty() && (rest.is_empty() || rest.starts_with('/')));
                proptest::prop_assert!(!OWN.contains(&service));
            }
        }
    }
}
