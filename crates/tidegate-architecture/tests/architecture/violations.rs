//! The violations of the rules: `rules` finds them, `allowed.toml` lists those that are still allowed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The crate, and the module path of the folder, module or type in it.
pub type Subject = (String, String);

/// All violations, by rule. In `allowed.toml` each rule has its own kind of entry.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Violations {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub circle: Vec<Circle>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub against_order: Vec<AgainstOrder>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spread_type: Vec<SpreadType>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wide_struct: Vec<WideStruct>,
}

/// Modules of one folder that all use each other, directly or through others of them.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Circle {
    #[serde(rename = "crate")]
    pub package: String,
    pub folder: String,
    pub modules: BTreeSet<String>,
}

/// A module that uses modules which the order puts after it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AgainstOrder {
    #[serde(rename = "crate")]
    pub package: String,
    pub module: String,
    pub uses: BTreeSet<String>,
}

/// A type whose `impl` blocks stand in too many files.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SpreadType {
    #[serde(rename = "crate")]
    pub package: String,
    #[serde(rename = "type")]
    pub name: String,
    pub files: usize,
}

/// A struct of too many fields.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WideStruct {
    #[serde(rename = "crate")]
    pub package: String,
    #[serde(rename = "struct")]
    pub name: String,
    pub fields: usize,
}

impl Violations {
    /// Returns the circles of each folder.
    pub fn circles(&self) -> BTreeMap<Subject, BTreeSet<BTreeSet<String>>> {
        let mut circles: BTreeMap<Subject, BTreeSet<BTreeSet<String>>> = BTreeMap::new();
        for Circle { package, folder, modules } in self.circle.iter().cloned() {
            circles.entry((package, folder)).or_default().insert(modules);
        }
        circles
    }

    /// Returns the modules that each module uses against the order.
    pub fn against_order(&self) -> BTreeMap<Subject, BTreeSet<String>> {
        let entries = self.against_order.iter().cloned();
        unique(entries.map(|entry| ((entry.package, entry.module), entry.uses)))
    }

    /// Returns the number of files of each spread type.
    pub fn spread_types(&self) -> BTreeMap<Subject, usize> {
        let entries = self.spread_type.iter().cloned();
        unique(entries.map(|entry| ((entry.package, entry.name), entry.files)))
    }

    /// Returns the number of fields of each wide struct.
    pub fn wide_structs(&self) -> BTreeMap<Subject, usize> {
        let entries = self.wide_struct.iter().cloned();
        unique(entries.map(|entry| ((entry.package, entry.name), entry.fields)))
    }
}

fn unique<V>(entries: impl Iterator<Item = (Subject, V)>) -> BTreeMap<Subject, V> {
    let mut map = BTreeMap::new();
    for ((package, name), value) in entries {
        let twice = map.insert((package.clone(), name.clone()), value).is_some();
        assert!(!twice, "allowed.toml has two entries for `{name}` in {package}. Delete one of them.");
    }
    map
}
