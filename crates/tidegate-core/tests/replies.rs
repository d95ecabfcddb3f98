//! Every stored reply is read as it was pinned, field by field, with its vendor's name and without.

use std::collections::BTreeSet;

use serde_json::Value;
use tidegate_core::reply::{Reader, Reading, UnixMillis};
use tidegate_core::vendors::{Profiles, by_name};

/// The fields of a limit; what a vector leaves out must be unsaid.
const LIMIT_FIELDS: [&str; 11] = [
    "kind",
    "limit",
    "remaining",
    "reset_ms",
    "window_ms",
    "name",
    "used",
    "cost",
    "pk",
    "interval_ms",
    "fill",
];

/// Replies that cannot be told from another vendor's without being told whose they are: Groq's windows are
/// known only by its name, and its bare header block is OpenAI's.
const NEEDS_ITS_NAME: [&str; 1] = ["groq-docs-429"];

/// The profile that a user of Prisjakt's API writes.
const PROFILES: &str = "[profiles.prisjakt]\nreset = \"milliseconds\"\n";

fn vectors(text: &str) -> Vec<Value> {
    serde_json::from_str(text).unwrap()
}

fn read(vector: &Value, reader: &Reader<'_>) -> Reading {
    let headers: Vec<(&str, &[u8])> = vector["headers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| (pair[0].as_str().unwrap(), pair[1].as_str().unwrap().as_bytes()))
        .collect();
    let body = match &vector["body"] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        json => json.to_string(),
    };
    let status = u16::try_from(vector["status"].as_u64().unwrap()).unwrap();
    let now = UnixMillis::from_secs(vector["now_unix"].as_i64().unwrap());
    reader.read(status, headers, body.as_bytes(), now)
}

/// What is wrong with a reading, in words.
fn differences(vector: &Value, reading: &Reading) -> Vec<String> {
    let got = serde_json::to_value(reading).unwrap();
    let want = &vector["expect"];
    let mut wrong = Vec::new();
    for field in ["verdict", "retry_after_ms", "body_retry_after_ms", "should_retry"] {
        if got[field] != want[field] {
            wrong.push(format!("{field}: {} instead of {}", got[field], want[field]));
        }
    }
    for list in ["limits", "body_limits"] {
        let none = Vec::new();
        let got = got[list].as_array().unwrap_or(&none);
        let want = want[list].as_array().unwrap_or(&none);
        let same = got.len() == want.len()
            && got
                .iter()
                .zip(want)
                .all(|(got, want)| LIMIT_FIELDS.iter().all(|field| same_value(&got[field], &want[field])));
        if !same {
            wrong.push(format!(
                "{list}: {} instead of {}",
                Value::from(got.clone()),
                Value::from(want.clone())
            ));
        }
    }
    if let Some(usage) = want.get("usage")
        && got["usage"] != *usage
    {
        wrong.push(format!("usage: {} instead of {usage}", got["usage"]));
    }
    wrong
}

fn same_value(got: &Value, want: &Value) -> bool {
    got == want || (got.is_number() && got.as_f64() == want.as_f64())
}

fn check(text: &str, reader_for: impl Fn(&Value) -> Option<Reader<'static>>) {
    let mut wrong = Vec::new();
    for vector in vectors(text) {
        let Some(reader) = reader_for(&vector) else { continue };
        for difference in differences(&vector, &read(&vector, &reader)) {
            wrong.push(format!("{}: {difference}", vector["id"].as_str().unwrap()));
        }
    }
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong.join("\n"));
}

const PINNED: &str = include_str!("vectors/replies.json");
/// Further replies, one for each fact about a vendor or convention that is worth keeping.
const FURTHER: &str = include_str!("vectors/more.json");

fn needs_profile(vector: &Value) -> bool {
    vector["expect"]["needs_profile"] == true
}

fn named(vector: &Value) -> Option<Reader<'static>> {
    if needs_profile(vector) {
        let profiles = Profiles::parse(PROFILES, "tidegate.toml").unwrap();
        let profiles: &'static Profiles = Box::leak(Box::new(profiles));
        return Some(Reader::with_profile("prisjakt", profiles.get("prisjakt").unwrap()));
    }
    let name = vector["vendor"].as_str().unwrap();
    Some(Reader::of(by_name(name).unwrap_or_else(|| panic!("no vendor is called {name}"))))
}

fn unnamed(vector: &Value) -> Option<Reader<'static>> {
    let id = vector["id"].as_str().unwrap();
    let told = vector["needs_name"] == true || NEEDS_ITS_NAME.contains(&id);
    (!needs_profile(vector) && !told).then(Reader::default)
}

#[test]
fn every_pinned_reply_is_understood_when_its_vendor_is_named() {
    assert_eq!(vectors(PINNED).len(), 71);
    check(PINNED, named);
}

#[test]
fn every_pinned_reply_is_understood_when_its_vendor_is_not_named() {
    check(PINNED, unnamed);
}

#[test]
fn every_further_reply_is_understood_when_its_vendor_is_named() {
    assert!(vectors(FURTHER).len() >= 60);
    check(FURTHER, named);
}

#[test]
fn every_further_reply_is_understood_when_its_vendor_is_not_named() {
    check(FURTHER, unnamed);
}

#[test]
fn the_vendors_of_replies_that_show_it_are_recognised() {
    let mut recognised = BTreeSet::new();
    for vector in vectors(PINNED).into_iter().chain(vectors(FURTHER)) {
        if let Some(vendor) = read(&vector, &Reader::default()).vendor {
            let named = by_name(vector["vendor"].as_str().unwrap()).unwrap().name;
            // The header families of the generic vectors are nobody's own.
            if named != "generic" {
                assert_eq!(vendor, named, "{}", vector["id"]);
            }
            recognised.insert(vendor.into_owned());
        }
    }
    assert!(recognised.len() >= 25, "{recognised:?}");
}

#[test]
fn every_vendor_is_documented_and_has_its_replies() {
    let page = include_str!("../../../docs/vendors.md");
    let stored: BTreeSet<&str> = vectors(PINNED)
        .iter()
        .chain(&vectors(FURTHER))
        .map(|vector| by_name(vector["vendor"].as_str().unwrap()).unwrap().name)
        .collect();
    for vendor in tidegate_core::vendors::all() {
        assert!(page.contains(&format!("`{}`", vendor.name)), "{} is not in docs/vendors.md", vendor.name);
        assert!(stored.contains(vendor.name), "{} has no stored reply", vendor.name);
    }
}
