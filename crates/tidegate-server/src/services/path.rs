//! Path traversal: a path must stay below the base path of its service.
//!
//! Servers differ in how they read a path: one takes `%2f` for a slash, another a backslash, a third cuts `..;x` at the
//! semicolon. So the path is read in all of these ways, and rejected if one of them goes up. An encoded slash alone is
//! harmless: GitLab names projects so.

/// How often a path is decoded at most: a server behind another may decode again.
const ROUNDS: usize = 3;

/// Returns whether every server reads the path as one below the base path.
pub(super) fn stays_inside(path: &str) -> bool {
    if !path.contains(['.', '%']) {
        return true;
    }
    let mut read = path.as_bytes().to_vec();
    for _ in 0..ROUNDS {
        if goes_up(&read) {
            return false;
        }
        let again = decoded(&read);
        if again == read {
            return true;
        }
        read = again;
    }
    !goes_up(&read)
}

fn goes_up(path: &[u8]) -> bool {
    path.split(|byte| matches!(byte, b'/' | b'\\')).any(|segment| {
        let name = segment.split(|byte| *byte == b';').next().unwrap_or_default();
        matches!(name, b"." | b"..")
    })
}

fn decoded(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        let digit = |at: usize| tail.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                rest = &tail[2..];
            }
            _ => out.push(*byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_way_leads_up() {
        for path in [
            "/../x",
            "/v1/..",
            "/v1/../x",
            "/./x",
            "/%2e%2e/x",
            "/.%2E/x",
            "/v1%2f..%2fx",
            "/v1/..%5cx",
            "/..\\x",
            "/%252e%252e/x",
            "/..;a=b/x",
            "/%25252e./x",
        ] {
            assert!(!stays_inside(path), "{path}");
        }
    }

    #[test]
    fn what_only_looks_like_it_stays() {
        for path in [
            "",
            "/",
            "/v1/models/gpt-4.1",
            "/a..b/...",
            "/.well-known/x",
            "/projects/group%2Fproject",
            "/100%",
            "/a%2",
        ] {
            assert!(stays_inside(path), "{path}");
        }
    }

    /// Returns the lowest depth that a server reaches which decodes the path this often.
    fn lowest(path: &str, decodes: usize) -> i32 {
        let mut read = path.as_bytes().to_vec();
        for _ in 0..decodes {
            read = decoded(&read);
        }
        let text = String::from_utf8_lossy(&read).replace('\\', "/");
        let (mut depth, mut lowest) = (0, 0);
        for segment in text.split('/').map(|segment| segment.split(';').next().unwrap_or_default()) {
            depth += match segment {
                "" | "." => 0,
                ".." => -1,
                _ => 1,
            };
            lowest = lowest.min(depth);
        }
        lowest
    }

    proptest::proptest! {
        #[test]
        fn what_stays_inside_does_so_for_every_reader(
            parts in proptest::collection::vec("\\.{1,3}|%2[eE]|%25|2e|%2[fF]|%5c|/|\\\\|;|v1|%|[a-z%./]{0,4}", 0..12),
        ) {
            let path = format!("/{}", parts.concat());
            if stays_inside(&path) {
                for decodes in 0..=ROUNDS {
                    proptest::prop_assert!(lowest(&path, decodes) >= 0, "{} read {} times", path, decodes);
                }
            }
        }
    }
}
