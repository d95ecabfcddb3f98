//! The modules of a crate: what each one defines, imports and mentions, before any of it is resolved.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The index of a module in [`Tree::modules`]; the crate root is 0.
pub type ModuleId = usize;

/// The modules of one crate.
pub struct Tree {
    pub package: String,
    pub modules: Vec<Module>,
}

#[derive(Default)]
pub struct Module {
    /// Begins with `crate`.
    pub path: Vec<String>,
    pub parent: Option<ModuleId>,
    pub children: BTreeMap<String, ModuleId>,
    /// The names of what is defined here: types, traits, functions, constants, macros.
    pub items: BTreeSet<String>,
    pub imports: Vec<Import>,
    pub mentions: BTreeSet<Mention>,
    /// The types that `impl` blocks in this module are for.
    pub impls: BTreeSet<Mention>,
    /// The number of fields of each struct.
    pub structs: BTreeMap<String, usize>,
}

/// A `use`. One that lists several names becomes several imports.
#[derive(Clone)]
pub struct Import {
    /// The name under which it is known here; `None` for `*`.
    pub name: Option<String>,
    /// The path as it is written. `*` and `{self}` are its last segment.
    pub path: Vec<String>,
    /// Whether only this module and those below it see the name.
    pub private: bool,
}

/// A path as it is written in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mention {
    pub path: Vec<String>,
    pub file: PathBuf,
}

impl Tree {
    /// Returns the module's path, such as `crate::engine`.
    pub fn name(&self, module: ModuleId) -> String {
        self.modules[module].path.join("::")
    }
}
