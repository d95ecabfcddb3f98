//! Source files become a tree of modules. Code under `#[cfg(test)]` is left out.

use std::path::Path;

use syn::{File, Item, ItemMod, ItemUse};

use crate::mentions::Mentions;
use crate::sources::Sources;
use crate::syntax::{attributes, imports_of, is_test, name_of, text_of};
use crate::tree::{Mention, Module, ModuleId, Tree};

/// Parses the root file and, from it, the file of every module.
pub fn parse(sources: &Sources) -> Tree {
    let root = Module { path: vec!["crate".into()], ..Module::default() };
    let mut tree = Tree { package: sources.package.clone(), modules: vec![root] };
    let folder = sources.root.parent().expect("a file in a folder");
    Parser { sources, tree: &mut tree }.file(0, &sources.root, folder);
    tree
}

struct Parser<'a> {
    sources: &'a Sources,
    tree: &'a mut Tree,
}

impl Parser<'_> {
    /// Reads `file`, whose child modules are files in `folder`.
    fn file(&mut self, module: ModuleId, file: &Path, folder: &Path) {
        let text = &self.sources.files[file];
        let parsed: File = syn::parse_file(text).unwrap_or_else(|error| {
            panic!("{} is not a source file that syn can read: {error}", file.display())
        });
        if !is_test(&parsed.attrs) {
            self.items(module, &parsed.items, file, folder);
        }
    }

    fn items(&mut self, module: ModuleId, items: &[Item], file: &Path, folder: &Path) {
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            match item {
                Item::Mod(child) => self.child(module, child, file, folder),
                Item::Use(item) => self.imports(module, item, file),
                Item::Macro(call) if call.ident.is_none() => {
                    // Macros such as `pin_project!` take whole items.
                    match syn::parse2::<File>(call.mac.tokens.clone()) {
                        Ok(inside) => self.items(module, &inside.items, file, folder),
                        Err(_) => Mentions::of(&mut self.tree.modules[module], file).read(item),
                    }
                }
                _ => {
                    let module = &mut self.tree.modules[module];
                    module.items.extend(name_of(item));
                    Mentions::of(module, file).read(item);
                }
            }
        }
    }

    fn child(&mut self, parent: ModuleId, item: &ItemMod, file: &Path, folder: &Path) {
        let name = text_of(&item.ident);
        let module = self.module(parent, &name);
        let below = folder.join(&name);
        if let Some((_, items)) = &item.content {
            return self.items(module, items, file, &below);
        }
        let candidates = [folder.join(format!("{name}.rs")), below.join("mod.rs")];
        match candidates.iter().find(|candidate| self.sources.files.contains_key(*candidate)) {
            Some(found) => self.file(module, found, &below),
            None => panic!("{}: there is no file for `mod {name};`", file.display()),
        }
    }

    /// Returns the child of that name. Two declarations for two platforms are one module.
    fn module(&mut self, parent: ModuleId, name: &str) -> ModuleId {
        if let Some(&known) = self.tree.modules[parent].children.get(name) {
            return known;
        }
        let mut path = self.tree.modules[parent].path.clone();
        path.push(name.to_owned());
        self.tree.modules.push(Module { path, parent: Some(parent), ..Module::default() });
        let module = self.tree.modules.len() - 1;
        self.tree.modules[parent].children.insert(name.to_owned(), module);
        module
    }

    fn imports(&mut self, module: ModuleId, item: &ItemUse, file: &Path) {
        let module = &mut self.tree.modules[module];
        for import in imports_of(item) {
            module.mentions.insert(Mention { path: import.path.clone(), file: file.to_owned() });
            module.imports.push(import);
        }
    }
}
