//! What is built into tidegate is what `deny.toml` allows: licences, bans and sources, looked at with nothing but cargo.
//! Advisories take a database from the network, and so the tool `cargo deny`; `./test.sh` asks it where it is there.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Everything that the workspace depends on, on any platform and with any feature.
fn packages() -> Vec<Value> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--format-version", "1", "--all-features", "--locked"]);
    let output = cargo.current_dir(root()).output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    metadata["packages"].as_array().expect("packages").clone()
}

fn rules() -> toml::Table {
    std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml").parse().expect("TOML")
}

#[test]
fn what_users_build_has_no_debug_information() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let profiles = manifest.parse::<toml::Table>().expect("TOML")["profile"].clone();
    assert_eq!(profiles["release"]["debug"].as_integer(), Some(0), "110 MB with it");
    assert_eq!(profiles["release"]["strip"].as_str(), Some("debuginfo"), "nor that of the standard library");
    assert!(profiles["dist"].get("debug").is_none(), "as in release");
}

fn name(package: &Value) -> &str {
    package["name"].as_str().expect("a name")
}

#[test]
fn every_licence_is_one_that_is_allowed() {
    let rules = rules();
    let allowed: Vec<&str> = rules["licenses"]["allow"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one.as_str())
        .collect();
    for package in packages() {
        let licence = package["license"].as_str().unwrap_or("none");
        assert!(is_allowed(licence, &allowed), "{} is under {licence}", name(&package));
    }
}

#[test]
fn no_crate_is_one_that_is_banned() {
    let rules = rules();
    let banned: BTreeSet<&str> = rules["bans"]["deny"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["crate"].as_str().expect("a name"))
        .collect();
    assert!(banned.contains("openssl-sys"), "the list is read");
    for package in packages() {
        assert!(!banned.contains(name(&package)), "{}: deny.toml says why not", name(&package));
    }
}

#[test]
fn everything_is_ours_or_from_the_one_registry() {
    let packages = packages();
    let sources: BTreeSet<&str> = packages.iter().filter_map(|package| package["source"].as_str()).collect();
    assert!(
        sources.len() == 1 && sources.iter().all(|source| source.starts_with("registry+")),
        "{sources:?}"
    );
}

/// Whether an expression of SPDX can be satisfied by what is allowed. Old crates write `/` for `OR`.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced =
        expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ").replace(" WITH ", "-WITH-");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (so, rest) = any(&words, allowed);
    so && rest.is_empty()
}

fn any<'w>(words: &'w [&'w str], allowed: &[&str]) -> (bool, &'w [&'w str]) {
    let (mut so, mut rest) = all(words, allowed);
    while let ["OR", after @ ..] = rest {
        let (other, left) = all(after, allowed);
        (so, rest) = (so || other, left);
    }
    (so, rest)
}

fn all<'w>(words: &'w [&'w str], allowed: &[&str]) -> (bool, &'w [&'w str]) {
    let (mut so, mut rest) = one(words, allowed);
    while let ["AND", after @ ..] = rest {
        let (other, left) = one(after, allowed);
        (so, rest) = (so && other, left);
    }
    (so, rest)
}

fn one<'w>(words: &'w [&'w str], allowed: &[&str]) -> (bool, &'w [&'w str]) {
    match words {
        ["(", inside @ ..] => match any(inside, allowed) {
            (so, [")", rest @ ..]) => (so, rest),
            (_, rest) => (false, rest),
        },
        [licence, rest @ ..] => (allowed.contains(licence), rest),
        [] => (false, words),
    }
}

#[test]
fn expressions_of_licences_are_read_as_they_are_meant() {
    for (expression, so) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR GPL-3.0) AND ISC", true),
        ("MIT OR GPL-3.0 AND BSL", true),
        ("Unlicense/MIT", true),
        ("Apache-2.0 WITH LLVM-exception OR ISC", true),
        ("MIT ISC", false),
        ("none", false),
    ] {
        assert_eq!(is_allowed(expression, &["MIT", "ISC"]), so, "{expression}");
    }
}
