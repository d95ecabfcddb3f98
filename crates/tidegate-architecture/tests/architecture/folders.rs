//! The uses among the modules of one folder. A use from deep below one of them to deep below another counts as a use
//! of the second by the first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::resolve::Use;
use crate::tree::Tree;

/// The modules of a folder, and the uses among them.
#[derive(Clone, Default)]
pub struct Folder {
    pub modules: BTreeSet<String>,
    /// For a user and a used module, the files in which that is, with the paths as they are written.
    pub uses: BTreeMap<(String, String), BTreeMap<PathBuf, BTreeSet<String>>>,
}

/// Returns the folders of a crate by module path. A module with children is a folder.
pub fn folders(tree: &Tree) -> BTreeMap<String, Folder> {
    let mut folders: BTreeMap<String, Folder> = BTreeMap::new();
    for (id, module) in tree.modules.iter().enumerate().filter(|(_, module)| !module.children.is_empty()) {
        let folder = folders.entry(tree.name(id)).or_default();
        folder.modules.extend(module.children.keys().cloned());
    }
    for used in tree.uses() {
        if let Some((folder, user, target)) = place(tree, &used) {
            let files = folders.entry(folder).or_default().uses.entry((user, target)).or_default();
            files.entry(used.file).or_default().insert(used.path);
        }
    }
    folders
}

/// Returns the folder in which both ends of a use lie, and the two modules of it that hold them. A use of a module
/// by one below it, or the other way round, has no such folder.
fn place(tree: &Tree, used: &Use) -> Option<(String, String, String)> {
    let (from, to) = (&tree.modules[used.from].path, &tree.modules[used.to].path);
    let common = from.iter().zip(to).take_while(|(from, to)| from == to).count();
    Some((from[..common].join("::"), from.get(common)?.clone(), to.get(common)?.clone()))
}

impl Folder {
    /// Returns the largest sets of modules in which each reaches each other.
    pub fn circles(&self) -> BTreeSet<BTreeSet<String>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            self.modules.iter().map(|module| (module.as_str(), self.reach(module))).collect();
        let mut circles = BTreeSet::new();
        for (module, reached) in &reach {
            if reached.contains(module) {
                let circle = reached.iter().filter(|other| reach[*other].contains(module));
                circles.insert(circle.map(|&module| module.to_owned()).collect());
            }
        }
        circles
    }

    /// Returns the modules that `module` uses, directly or through others.
    fn reach(&self, module: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut next = vec![module];
        while let Some(user) = next.pop() {
            for target in self.used_by(user) {
                if reached.insert(target) {
                    next.push(target);
                }
            }
        }
        reached
    }

    /// Returns a line for each file in which `user` uses `target`.
    pub fn lines(&self, user: &str, target: &str) -> Vec<String> {
        let files = self.uses.get(&(user.to_owned(), target.to_owned())).into_iter().flatten();
        files
            .map(|(file, paths)| {
                let shown: Vec<String> = paths.iter().take(3).map(|path| format!("`{path}`")).collect();
                let rest = if paths.len() > 3 { ", …" } else { "" };
                format!("{user} -> {target}: {} has {}{rest}", file.display(), shown.join(", "))
            })
            .collect()
    }

    /// Returns the modules that `user` uses directly.
    pub fn used_by(&self, user: &str) -> impl Iterator<Item = &str> {
        self.uses.keys().filter(move |(from, _)| from == user).map(|(_, to)| to.as_str())
    }
}
