//! Texts with a mark, `▲`, at each place that an error must point to. The marks are taken out before parsing.

use tidegate_core::config::{Config, ConfigErrors};

const MARK: char = '▲';

/// The text without its marks, and the line and column of each.
pub fn unmark(marked: &str) -> (String, Vec<(usize, usize)>) {
    let (mut text, mut marks) = (String::new(), Vec::new());
    let (mut line, mut column) = (1, 1);
    for c in marked.chars() {
        match c {
            MARK => marks.push((line, column)),
            '\n' => (line, column) = (line + 1, 1),
            _ => column += 1,
        }
        if c != MARK {
            text.push(c);
        }
    }
    (text, marks)
}

pub fn errors_of(text: &str, env: &dyn Fn(&str) -> Option<String>) -> ConfigErrors {
    match Config::parse_with(text, "tidegate.toml", env) {
        Ok(_) => panic!("this should be an error:\n{text}"),
        Err(errors) => errors,
    }
}

/// Each text has one mistake: it is reported at its mark, in these words, with this hint ("" for none).
pub fn assert_errors(under: &str, cases: &[(&str, &str, &str)]) {
    for (marked, message, hint) in cases {
        let (text, marks) = unmark(&format!("{under}{marked}"));
        let errors = errors_of(&text, &|_| None);
        let found: Vec<_> = errors
            .iter()
            .map(|error| {
                (
                    error.message.as_str(),
                    error.hint.as_deref().unwrap_or_default(),
                    (error.line, error.column),
                )
            })
            .collect();
        let expected: Vec<_> = marks.iter().map(|place| (*message, *hint, *place)).collect();
        assert_eq!(found, expected, "\n{under}{marked}\n{errors}");
    }
}
