//! The sources of the workspace, read from disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The text of one crate: a library or a binary.
pub struct Sources {
    pub package: String,
    /// The path of `lib.rs` or `main.rs`, one of the keys of `files`.
    pub root: PathBuf,
    /// All files below `src`, by their path from the root of the workspace.
    pub files: BTreeMap<PathBuf, String>,
}

/// Returns every library and every binary of the workspace at `root`.
pub fn of_workspace(root: &Path) -> Vec<Sources> {
    let members = manifest(&root.join("Cargo.toml"))["workspace"]["members"].clone();
    let mut sources = Vec::new();
    for member in members.as_array().expect("members").iter().filter_map(|member| member.as_str()) {
        for folder in folders(root, member) {
            let package = manifest(&root.join(&folder).join("Cargo.toml"))["package"]["name"].clone();
            let mut files = BTreeMap::new();
            read(root, &folder.join("src"), &mut files);
            for name in ["lib.rs", "main.rs"] {
                let start = folder.join("src").join(name);
                if files.contains_key(&start) {
                    let package = package.as_str().expect("a name").to_owned();
                    sources.push(Sources { package, root: start, files: files.clone() });
                }
            }
        }
    }
    sources
}

fn manifest(path: &Path) -> toml::Table {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the folders that an entry of `members` names: one, or all that hold a manifest if it ends in `/*`.
fn folders(root: &Path, member: &str) -> Vec<PathBuf> {
    let Some(parent) = member.strip_suffix("/*") else { return vec![member.into()] };
    let mut found: Vec<PathBuf> = entries(&root.join(parent))
        .map(|path| Path::new(parent).join(path.file_name().expect("a name")))
        .filter(|folder| root.join(folder).join("Cargo.toml").is_file())
        .collect();
    found.sort();
    found
}

fn read(root: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, String>) {
    if !root.join(folder).is_dir() {
        return;
    }
    for path in entries(&root.join(folder)) {
        let below = folder.join(path.file_name().expect("a name"));
        if path.is_dir() {
            read(root, &below, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.insert(below, fs::read_to_string(&path).expect("a source file in UTF-8"));
        }
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let listed = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    listed.map(|entry| entry.expect("a folder entry").path())
}
