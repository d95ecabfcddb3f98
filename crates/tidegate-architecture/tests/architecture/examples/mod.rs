//! Small source trees that show what the test sees and what it leaves out.

mod list;
mod rules;
mod uses;

use crate::parse::parse;
use crate::rules::{Findings, Rules, check};
use crate::sources::Sources;
use crate::tree::Tree;

/// Returns the tree of the crate `example`, whose files are named from its `src` folder.
fn tree(files: &[(&str, &str)]) -> Tree {
    let files = files.iter().map(|(name, text)| (name.into(), (*text).to_owned())).collect();
    parse(&Sources { package: "example".into(), root: "lib.rs".into(), files })
}

fn rules(text: &str) -> Rules {
    toml::from_str(text).expect("rules")
}

/// Applies rules that state no order and no exception.
fn findings(files: &[(&str, &str)]) -> Findings {
    check(&[tree(files)], &rules("max_files = 3\nmax_fields = 15"))
}

/// Returns each circle as its folder and its modules.
fn circles(files: &[(&str, &str)]) -> Vec<String> {
    let circles = findings(files).violations.circle.into_iter();
    circles.map(|circle| format!("{}: {}", circle.folder, Vec::from_iter(circle.modules).join(" "))).collect()
}
