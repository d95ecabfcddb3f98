//! Names of fields, as TOML would write them: `services.openai.endpoints."POST /v1/files".requests`.

/// The path of a field below another; the root is empty.
pub(super) fn join(parent: &str, name: &str) -> String {
    let quoted;
    let name = if is_bare(name) {
        name
    } else {
        quoted = format!("{name:?}");
        &quoted
    };
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

/// Whether a name needs no quotes as a key.
pub(super) fn is_bare(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}
