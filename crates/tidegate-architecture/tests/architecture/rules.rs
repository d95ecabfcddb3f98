//! The rules of `rules.toml`, and the search for what breaks them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Deserialize;

use crate::folders::{Folder, folders};
use crate::tree::Tree;
use crate::violations::{AgainstOrder, Circle, SpreadType, Subject, Violations, WideStruct};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// The largest number of files in which the `impl` blocks of a type stand.
    pub max_files: usize,
    /// The largest number of fields of a struct.
    pub max_fields: usize,
    #[serde(default)]
    pub order: Vec<Order>,
    #[serde(default)]
    pub exception: Vec<Exception>,
}

/// The order of the modules of a folder: a module uses only those before it. Other modules are free.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    #[serde(rename = "crate")]
    pub package: String,
    pub folder: String,
    pub modules: Vec<String>,
}

/// A struct that has as many fields as what it describes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    #[serde(rename = "crate")]
    pub package: String,
    #[serde(rename = "struct")]
    pub name: String,
    /// For readers of the file.
    #[serde(rename = "why")]
    pub _why: String,
}

/// What was found, with the places in the sources that show it.
#[derive(Default)]
pub struct Findings {
    pub violations: Violations,
    pub folders: BTreeMap<Subject, Folder>,
    /// The files with `impl` blocks of each type.
    pub files: BTreeMap<Subject, BTreeSet<PathBuf>>,
    /// Sentences about entries of `rules.toml` that apply to nothing.
    pub unused_rules: Vec<String>,
}

/// Applies the rules to all crates.
pub fn check(trees: &[Tree], rules: &Rules) -> Findings {
    let mut findings = Findings::default();
    let mut fields = BTreeMap::new();
    for tree in trees {
        for (name, folder) in folders(tree) {
            findings.folders.insert((tree.package.clone(), name), folder);
        }
        findings.files.extend(impl_files(tree));
        fields.extend(struct_fields(tree));
    }
    findings.violations.circle = circles(&findings.folders);
    for order in &rules.order {
        match findings.folders.get(&(order.package.clone(), order.folder.clone())) {
            Some(folder) => findings.violations.against_order.extend(against(order, folder)),
            None => findings.unused_rules.push(format!(
                "rules.toml has an order for `{}` in {}, which has no modules. Correct the entry.",
                order.folder, order.package
            )),
        }
    }
    let spread = findings.files.iter().filter(|(_, files)| files.len() > rules.max_files);
    findings.violations.spread_type = spread
        .map(|((package, name), files)| SpreadType {
            package: package.clone(),
            name: name.clone(),
            files: files.len(),
        })
        .collect();
    fields.retain(|_, count| *count > rules.max_fields);
    for exception in &rules.exception {
        if fields.remove(&(exception.package.clone(), exception.name.clone())).is_none() {
            findings.unused_rules.push(format!(
                "rules.toml has an exception for `{}` in {}, which is no struct of more than {} fields. Delete it.",
                exception.name, exception.package, rules.max_fields
            ));
        }
    }
    let wide = fields.into_iter();
    findings.violations.wide_struct =
        wide.map(|((package, name), fields)| WideStruct { package, name, fields }).collect();
    findings
}

fn circles(folders: &BTreeMap<Subject, Folder>) -> Vec<Circle> {
    let mut circles = Vec::new();
    for ((package, name), folder) in folders {
        circles.extend(folder.circles().into_iter().map(|modules| Circle {
            package: package.clone(),
            folder: name.clone(),
            modules,
        }));
    }
    circles
}

fn against(order: &Order, folder: &Folder) -> Vec<AgainstOrder> {
    let mut found = Vec::new();
    for (index, module) in order.modules.iter().enumerate() {
        let later = &order.modules[index + 1..];
        let uses = folder.used_by(module).filter(|target| later.iter().any(|name| name == target));
        let uses: BTreeSet<String> = uses.map(str::to_owned).collect();
        if !uses.is_empty() {
            let module = format!("{}::{module}", order.folder);
            found.push(AgainstOrder { package: order.package.clone(), module, uses });
        }
    }
    found
}

fn impl_files(tree: &Tree) -> BTreeMap<Subject, BTreeSet<PathBuf>> {
    let mut files: BTreeMap<Subject, BTreeSet<PathBuf>> = BTreeMap::new();
    for (id, module) in tree.modules.iter().enumerate() {
        for mention in &module.impls {
            if let Some((owner, name)) = tree.type_at(id, &mention.path) {
                let subject = (tree.package.clone(), format!("{}::{name}", tree.name(owner)));
                files.entry(subject).or_default().insert(mention.file.clone());
            }
        }
    }
    files
}

fn struct_fields(tree: &Tree) -> BTreeMap<Subject, usize> {
    let mut fields = BTreeMap::new();
    for (id, module) in tree.modules.iter().enumerate() {
        for (name, count) in &module.structs {
            fields.insert((tree.package.clone(), format!("{}::{name}", tree.name(id))), *count);
        }
    }
    fields
}
