//! `${VAR}` in string values.
//!
//! `$${` writes a literal `${`. Any other `$` stands for itself, so a text without `${` is never changed: a
//! password with dollar signs needs no care.

use super::hint::quoted;

/// The text with every `${VAR}` replaced by what `env` says, or what is wrong and what to do.
pub(super) fn expand(
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<String, (String, Option<String>)> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let Some((name, after)) = rest[at + 2..].split_once('}') else {
            let hint = "close it with `}`, or write `$${` for a plain `${`".to_owned();
            return Err(("`${` without its `}`".into(), Some(hint)));
        };
        if !is_variable_name(name) {
            let hint = "write `${NAME}`, with letters, digits and `_`, or `$${` for a plain `${`".to_owned();
            return Err((format!("{} is not the name of an environment variable", quoted(name)), Some(hint)));
        }
        let Some(value) = env(name) else {
            let hint = "set it, or write `$${` for a plain `${`".to_owned();
            return Err((format!("the environment variable `{name}` is not set"), Some(hint)));
        };
        out.push_str(&value);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Whether an environment variable can be called that.
pub(super) fn is_variable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String, String> {
        expand(text, &|name| (name == "A").then(|| "${B}!".into())).map_err(|(message, _)| message)
    }

    #[test]
    fn variables_expand_once_and_dollars_stay() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("x${A}y${A}", "x${B}!y${B}!"),
            ("$A $$ pa$$word $", "$A $$ pa$$word $"),
            ("$${A}", "${A}"),
            ("$${A}${A}", "${A}${B}!"),
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_variable_that_cannot_be_read_is_named() {
        for (text, expected) in [
            ("${B}", "the environment variable `B` is not set"),
            ("${", "`${` without its `}`"),
            ("${}", "`` is not the name of an environment variable"),
            ("${A:-x}", "`A:-x` is not the name of an environment variable"),
        ] {
            assert_eq!(expanded(text).as_ref().map_err(String::as_str), Err(expected), "{text}");
        }
    }
}
