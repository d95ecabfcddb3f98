//! Words for people who mistyped: the nearest known name, and quoting that keeps a message on its line.

/// The known name that was most likely meant, or none that is near enough to be worth a guess.
///
/// Long names may be further off than short ones; a difference of case alone is always near.
///
/// ```
/// use tidegate_core::config::nearest;
///
/// assert_eq!(nearest("openai/request/1m", ["openai/requests/1m", "openai/concurrency"]), Some("openai/requests/1m"));
/// assert_eq!(nearest("nothing", ["like", "this"]), None);
/// ```
#[must_use]
pub fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let reach = match written.chars().count() {
        0 => return None,
        // Any one letter is one change away from any other.
        1 => 0,
        2..=3 => 1,
        4..=8 => 2,
        _ => 3,
    };
    known
        .into_iter()
        .map(|name| (if name.eq_ignore_ascii_case(written) { 0 } else { distance(written, name) }, name))
        .filter(|(distance, _)| *distance <= reach)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// `nearest` as a hint.
pub(super) fn did_you_mean<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<String> {
    nearest(written, known).map(|name| format!("did you mean `{name}`?"))
}

/// `nearest` as a hint; where nothing is near, all that could have been written.
pub(super) fn did_you_mean_or_list(written: &str, known: &[&str]) -> String {
    did_you_mean(written, known.iter().copied()).unwrap_or_else(|| format!("use one of {}", known.join(", ")))
}

/// How many single letters must be added, removed or changed to get from one word to the other.
pub(super) fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    // `row[j]`: the distance between what was read of `from` so far and the first `j` letters of `to`.
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

/// The text in backticks, on one line and of a length that a message can bear.
pub(super) fn quoted(text: &str) -> String {
    const MOST: usize = 60;
    let mut out = String::from("`");
    for (i, c) in text.chars().enumerate() {
        if i == MOST {
            out.push('…');
            break;
        }
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out.push('`');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_added_removed_and_changed_letters() {
        for (from, to, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("requets", "requests", 1),
            ("reqeusts", "requests", 2),
            ("kitten", "sitting", 3),
            ("münze", "munze", 1),
        ] {
            assert_eq!(distance(from, to), expected, "{from} -> {to}");
            assert_eq!(distance(to, from), expected, "{to} -> {from}");
        }
    }

    #[test]
    fn a_guess_is_made_only_when_it_is_near() {
        let known = ["requests", "tokens", "usd"];
        assert_eq!(nearest("tokns", known), Some("tokens"));
        assert_eq!(nearest("USD", known), Some("usd"));
        assert_eq!(nearest("sek", known), None);
        assert_eq!(nearest("x", ["k", "M"]), None);
        assert_eq!(nearest("K", ["k", "M"]), Some("k"));
        assert_eq!(nearest("", known), None);
    }

    #[test]
    fn quoted_text_stays_on_one_short_line() {
        assert_eq!(quoted("a\nb"), "`a\\nb`");
        assert_eq!(quoted(&"x".repeat(500)).chars().count(), 63);
    }
}
