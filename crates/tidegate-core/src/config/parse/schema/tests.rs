use super::*;
use crate::Config;

/// A value as TOML has it.
fn toml(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{} = {}", key(name), toml(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn key(name: &str) -> String {
    Value::from(name).to_string()
}

/// Every value that the schema gives as an example, each in a file of its own: the path to it, and the file.
fn examples(schema: &Value, path: &[String], found: &mut Vec<(Vec<String>, Value)>) {
    for example in schema["examples"].as_array().into_iter().flatten() {
        found.push((path.to_vec(), example.clone()));
    }
    for (name, of) in schema["properties"].as_object().into_iter().flatten() {
        examples(of, &[path, std::slice::from_ref(name)].concat(), found);
    }
    let own = &schema["additionalProperties"];
    if own.is_object() {
        // A pattern that is right for endpoints, and a name that is right for all others.
        let name = if path.last().is_some_and(|last| last == "endpoints") { "POST /x" } else { "credits" };
        examples(own, &[path, &[name.into()]].concat(), found);
    }
    if let Some(example) = schema["items"]["examples"].get(0) {
        found.push((path.to_vec(), Value::Array(vec![example.clone()])));
    }
}

/// What a section must have besides: the key that is tried must not be wrong for the lack of another.
fn beside(path: &[String]) -> &'static str {
    match path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["auth", "tokens", "credits", field] if field != "sha256" => "sha256",
        _ => "",
    }
}

#[test]
fn every_key_that_is_read_is_in_the_schema_and_every_example_in_it_is_read() {
    let mut found = Vec::new();
    examples(&schema(), &[], &mut found);
    assert!(found.len() > 100, "{}", found.len());
    for (path, example) in found {
        // A rate's own table is tried as a whole.
        if example.is_object() && path.last().is_some_and(|last| last == "limit") {
            continue;
        }
        let dotted: Vec<String> = path.iter().map(|name| key(name)).collect();
        let mut text = format!("{} = {}\n[services.openai]\n", dotted.join("."), toml(&example));
        if path.starts_with(&["services".to_owned()]) {
            text = format!("{} = {}\n", dotted.join("."), toml(&example));
        }
        if !beside(&path).is_empty() {
            text = format!("auth.tokens.credits.sha256 = \"{}\"\n{text}", "0".repeat(64));
        }
        if let Err(errors) = Config::parse(&text, "tidegate.toml") {
            let errors = errors.to_string();
            // What one value says may not go with the defaults of others; that it is the wrong kind of value, or that its
            // key is unknown, must not be.
            let wrong = ["must be", "unknown", "` is not a", "not valid TOML"];
            assert!(!wrong.iter().any(|words| errors.contains(words)), "{text}{errors}");
        }
    }
}

/// Looks for keys whose value nothing is known of, wherever in the schema they are.
fn assert_all_known(value: &Value, path: &str) {
    for (name, of) in value["properties"].as_object().into_iter().flatten() {
        assert!(of.is_object(), "nothing is known of {path}.{name}");
    }
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, of)| assert_all_known(of, &format!("{path}.{name}")))
        }
        Value::Array(items) => items.iter().for_each(|item| assert_all_known(item, path)),
        _ => {}
    }
}

#[test]
fn of_every_key_it_is_known_what_stands_behind_it() {
    assert_all_known(&schema(), "");
}

#[test]
fn what_the_parser_does_not_know_the_schema_does_not_allow() {
    let schema = schema();
    for (path, keys) in [("", TOP), ("/properties/state", STATE), ("/properties/alerts", ALERTS)] {
        let object = schema.pointer(path).expect("there");
        assert_eq!(object["additionalProperties"], false, "{path}");
        let names: std::collections::BTreeSet<&str> = keys.iter().copied().collect();
        let known = object["properties"].as_object().expect("keys").keys().map(String::as_str);
        assert_eq!(known.collect::<std::collections::BTreeSet<_>>(), names, "{path}");
    }
    let service = &schema["properties"]["services"]["additionalProperties"]["properties"];
    for name in SERVICE.iter().chain(LEVEL) {
        assert!(service[name].is_object(), "{name}");
    }
}
