//! What is wrong with a config file, and exactly where.

use std::fmt;
use std::ops::Deref;

/// One mistake in a config file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// The file as the caller named it.
    pub file: String,
    /// The line, from 1; 0 if the mistake is in a value that was put over the file's.
    pub line: usize,
    /// The column, from 1, in characters; 0 as the line.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        write!(f, ": {}", self.message)?;
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
    /// Finds the place of each fault among the sources, whose offsets follow each other.
    pub(super) fn locate(mut faults: Vec<Fault>, sources: &[Source<'_>]) -> ConfigErrors {
        faults.sort_by_key(|fault| fault.at);
        let mut located = Vec::with_capacity(faults.len());
        let mut faults = faults.into_iter().peekable();
        let mut start = 0;
        for (index, source) in sources.iter().enumerate() {
            let end = if index + 1 == sources.len() { usize::MAX } else { start + source.len() };
            let lines = Lines::of(source.text());
            while let Some(Fault { at, message, hint }) = faults.next_if(|fault| fault.at <= end) {
                let (line, column) = match source {
                    Source::File { .. } => lines.position(at - start),
                    Source::Setting { .. } => (0, 0),
                };
                located.push(ConfigError { file: source.name().into(), line, column, message, hint });
            }
            start += source.len() + 1;
        }
        ConfigErrors(located)
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

/// Where a mistake can be.
pub(super) enum Source<'t> {
    /// In a file.
    File { name: &'t str, text: &'t str },
    /// In a value from elsewhere, which is so many bytes long.
    Setting { name: &'t str, length: usize },
}

impl<'t> Source<'t> {
    fn name(&self) -> &'t str {
        match self {
            Source::File { name, .. } | Source::Setting { name, .. } => name,
        }
    }

    fn text(&self) -> &'t str {
        match self {
            Source::File { text, .. } => text,
            Source::Setting { .. } => "",
        }
    }

    fn len(&self) -> usize {
        match self {
            Source::File { text, .. } => text.len(),
            Source::Setting { length, .. } => *length,
        }
    }
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
