//! What is wrong with a config file, and exactly where.

use std::fmt;
use std::ops::Deref;

/// One mistake in a config file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// The file as the caller named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// All that is wrong with a config file, in the order of the file. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    pub(super) fn locate(mut faults: Vec<Fault>, text: &str, file: &str) -> ConfigErrors {
        faults.sort_by_key(|fault| fault.at);
        let lines = Lines::of(text);
        let located = faults.into_iter().map(|Fault { at, message, hint }| {
            let (line, column) = lines.position(at);
            ConfigError { file: file.into(), line, column, message, hint }
        });
        ConfigErrors(located.collect())
    }

    pub(super) fn first_of_each_line(mut self) -> ConfigErrors {
        self.0.dedup_by_key(|error| error.line);
        self
    }
}

impl Deref for ConfigErrors {
    type Target = [ConfigError];

    fn deref(&self) -> &[ConfigError] {
        &self.0
    }
}

impl IntoIterator for ConfigErrors {
    type Item = ConfigError;
    type IntoIter = std::vec::IntoIter<ConfigError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// A mistake as the parser notes it: by byte offset, until the whole file has been read.
#[derive(Debug)]
pub(super) struct Fault {
    pub at: usize,
    pub message: String,
    pub hint: Option<String>,
}

/// Where the lines of a text begin, so that each offset is looked up and not counted from the top.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn of(text: &'t str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Lines { text, starts }
    }

    fn position(&self, at: usize) -> (usize, usize) {
        let at = at.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= at);
        let before = self.text.get(self.starts[line - 1]..at).unwrap_or_default();
        // Editors do not show a byte order mark, so it takes no column.
        let before = before.strip_prefix('\u{feff}').unwrap_or(before);
        (line, before.chars().count() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let lines = Lines::of("aé=1\r\nb\n");
        assert_eq!(lines.position(0), (1, 1));
        assert_eq!(lines.position(3), (1, 3), "é is two bytes and one column");
        assert_eq!(lines.position(7), (2, 1));
        assert_eq!(lines.position(9), (3, 1));
        assert_eq!(lines.position(999), (3, 1), "beyond the end is the end");
        assert_eq!(Lines::of("\u{feff}a").position(3), (1, 1));
    }
}
