//! The architecture of the workspace as a test. It parses the sources of every crate and fails on
//!
//! - a circle among the modules of a folder;
//! - a use against the order that `rules.toml` states for a folder;
//! - a type whose `impl` blocks stand in too many files;
//! - a struct of too many fields.
//!
//! `allowed.toml` lists what breaks these rules today. The list only shrinks.
//!
//! The test reads syntax and knows no types. It sees paths, also in macros; it does not see which module the method of
//! a value comes from, nor a macro that is used without a path. Code under `#[cfg(test)]` is free, and so is all
//! code outside of `src`.
//!
//! The modules of this test depend in one direction too: tree < syntax < mentions < parse, and
//! tree < resolve < folders < rules < allowed.

mod allowed;
mod examples;
mod folders;
mod mentions;
mod parse;
mod resolve;
mod rules;
mod sources;
mod syntax;
mod tree;
mod violations;

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use rules::{Findings, Rules, check};

fn manifest_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn data<T: DeserializeOwned>(name: &str) -> T {
    let path: PathBuf = manifest_dir().join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn findings(rules: &Rules) -> Findings {
    let crates = sources::of_workspace(&manifest_dir().join("../.."));
    let trees: Vec<_> = crates.iter().map(parse::parse).collect();
    check(&trees, rules)
}

#[test]
fn the_sources_break_no_rule_beyond_the_list() {
    let rules = data("rules.toml");
    let problems = allowed::problems(&findings(&rules), &data("allowed.toml"), &rules);
    assert!(problems.is_empty(), "\n\n{}", problems.join("\n"));
}

#[test]
#[ignore = "a drawing to read: cargo test -p tidegate-architecture -- --ignored --nocapture"]
fn draw() {
    for ((package, folder), inside) in findings(&data("rules.toml")).folders {
        println!("\n{package} {folder}");
        for module in &inside.modules {
            println!("  {module:24} uses: {}", inside.used_by(module).collect::<Vec<_>>().join(", "));
        }
    }
}
